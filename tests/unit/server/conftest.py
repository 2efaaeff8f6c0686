"""A running server for the tests of one module; the processes of a test are always ended."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from tests.senders.running import RunningLeadline


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    with RunningLeadline(tmp_path_factory.mktemp("leadline")) as server:
        yield server
