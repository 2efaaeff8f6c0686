"""What holds for all tests."""

from __future__ import annotations

import gc
import os
from collections.abc import Generator, Iterator

os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")  # as the server's workers have it; before anything loads numpy

import pytest
from hypothesis import settings
from tests.builders.stores import opened_store

from leadline.store import Store

# Speed is measured in bench/: on a busy machine a property that takes 0.3 s once is no failure. The same examples each
# time, so that a change is not refused for what another one did; `make fuzz` draws new ones.
settings.register_profile("same", deadline=None, derandomize=True)
settings.register_profile("new", deadline=None)
settings.load_profile("same")

# Files and folders, by what they take: two minutes to some ten seconds, of each part (docs/log.md, 2026-11-26).
LONGEST = (
    "tests/web/test_use.py", "tests/jobs/", "tests/unit/test_benches.py", "tests/unit/server/test_process.py",
    "tests/senders/",
    "tests/unit/store/test_bundle.py", "tests/property/test_late_data.py", "tests/sim/",
    "tests/unit/store/test_asking.py", "tests/unit/store/test_durability.py", "tests/common/",
    "tests/property/test_whose_rows.py", "tests/unit/store/test_old_store.py",
)  # fmt: skip


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Collect tests without looking for garbage: of what is imported and listed here nothing is, and the search took a
    third of 22 s of CPU, in every worker of each run. What there is at the end is not searched again."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """The longest files first, where workers take them in this order (--no-loadscope-reorder): begun last, one of
    them would run alone."""
    items.sort(key=lambda item: next((n for n, place in enumerate(LONGEST) if place in item.nodeid), len(LONGEST)))


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty embedded store with all tables, for the tests of one file. It keeps everything: rows are of any age."""
    with opened_store(tmp_path_factory.mktemp("store")) as made:
        yield made
