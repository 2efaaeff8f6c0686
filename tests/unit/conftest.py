"""What tests of several parts begin with."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from leadline.store import Store, StoreConfig


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """An empty store with all tables, for the tests of one file."""
    made = Store(StoreConfig(path=str(tmp_path_factory.mktemp("store")), ttl=False))
    made.start()
    yield made
    made.stop()
