"""Every test here makes namespaces; where this machine does not allow that, it is skipped and says what is missing."""

from __future__ import annotations

import itertools
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from leadline.lab import state
from leadline.lab.realise import leftovers, privileges

_numbers = itertools.count(1)

# Two workers of pytest side by side are two machines to each other: none clears away what the other one's test killed.
if worker := os.environ.get("PYTEST_XDIST_WORKER"):
    os.environ.setdefault(state.ROOT_VARIABLE, f"{state.DEFAULT_ROOT}-{worker}")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = Path(__file__).parent
    lacks = privileges.missing()
    for item in items:
        if here in item.path.parents:
            item.add_marker(pytest.mark.lab)
            if lacks:
                item.add_marker(pytest.mark.skip(reason=f"the lab needs {', '.join(lacks)}"))


@pytest.fixture
def lab_name() -> Iterator[str]:
    """A name that no other test, worker or program uses; what the test leaves up under it is taken down."""
    name = f"t{os.getpid()}_{next(_numbers)}"
    yield name
    root = state.state_root()
    record = state.read(root, name)
    if record is not None:
        with state.claims(root):
            leftovers.take_down(root, record)
