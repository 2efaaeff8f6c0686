"""A double: the embedded store, of which a seed lets statements fail before or after they were done."""

from __future__ import annotations

import random
from collections.abc import Mapping
from typing import Any

import pyarrow as pa

from leadline.model.errors import StoreError
from leadline.model.tables import Table
from leadline.store import Store


class FailingStore:
    """`share` of all calls fail. `loses_revisions`: appends of revisions vanish, for tests of who should notice."""

    def __init__(self, store: Store, random_: random.Random, share: float, *, loses_revisions: bool = False) -> None:
        self.store, self.share, self.failed = store, share, 0
        self._random, self._loses = random_, loses_revisions

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def _fail(self) -> None:
        if self._random.random() < self.share:
            self.failed += 1
            raise StoreError("the simulated store failed")

    def append(self, table: Table, rows: pa.Table, overrules: pa.Array | None = None) -> None:
        """As the store's. Errors: StoreError, before the rows were stored or after."""
        self._fail()
        if self._loses and "revision" in rows.column_names and any(rows["revision"].to_pylist()):
            return
        self.store.append(table, rows, overrules)
        self._fail()

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None, **more: Any) -> pa.Table:
        """As the store's. Errors: StoreError."""
        self._fail()
        return self.store.query(sql, parameters, **more)
