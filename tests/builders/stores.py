"""An embedded store for tests."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from leadline.model.tables import TABLES
from leadline.model.tables.spec import Table
from leadline.store import Store, StoreConfig


@contextmanager
def opened_store(path: Path, tables: tuple[Table, ...] = TABLES) -> Iterator[Store]:
    """A store in a folder, for the time of a `with`. It keeps everything: rows in tests are of any age."""
    store = Store(StoreConfig(path=str(path), ttl=False), tables)
    store.start()
    try:
        yield store
    finally:
        store.stop()
