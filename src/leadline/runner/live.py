"""Live tables: what `ingest` has just accepted, in memory, for judgements that cannot wait for the store.

Bounded by rows, batches and bytes per table; the oldest go first and are counted. Everything here is (or is about
to be) in the store too, so nothing is lost by letting go. Only tables that somebody reads are held: the samples of
everybody, which nobody reads here, would be 40 MB.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

from leadline.model.tables import Table

ROWS_MAX = 1_000_000  # a metric sample is 32 bytes, so 32 MB for the largest table
BYTES_MAX = 128 << 20  # of a table: rows with texts are larger than samples
BATCHES_MAX = 20_000  # of a table; about 1 kB each beside their rows, so 20 MB


@dataclass(frozen=True, slots=True)
class LiveBatch:
    """Rows of one table as they came; `columns` as the way in had them, `number` counts batches from 1."""

    number: int
    tenant: str
    cluster: str
    columns: Mapping[str, object]
    rows: int
    size_bytes: int


class LiveTables:
    """The newest rows of every table. Thread-safe; adding never blocks for long and never raises."""

    def __init__(
        self,
        dropped: Callable[[int], None],
        rows_max: int = ROWS_MAX,
        bytes_max: int = BYTES_MAX,
        batches_max: int = BATCHES_MAX,
        tables: Collection[str] | None = None,
    ) -> None:
        """`tables`: names of those that are held; None: all."""
        self._tables = tables
        self._dropped = dropped
        self._rows_max = rows_max
        self._bytes_max = bytes_max
        self._batches_max = batches_max
        self._lock = threading.Lock()
        self._batches: dict[str, deque[LiveBatch]] = {}
        self._rows: dict[str, int] = {}
        self._bytes: dict[str, int] = {}
        self._number = 0

    def add(self, tenant: str, cluster: str, table: Table, columns: Mapping[str, object], rows: int) -> None:
        """Append rows of a table; the oldest batches make room (the newest one always stays)."""
        if self._tables is not None and table.name not in self._tables:
            return
        let_go = 0
        size_bytes = sum(getattr(column, "nbytes", 0) for column in columns.values())
        with self._lock:
            self._number += 1
            batches = self._batches.setdefault(table.name, deque())
            batches.append(LiveBatch(self._number, tenant, cluster, columns, rows, size_bytes))
            held = self._rows.get(table.name, 0) + rows
            held_bytes = self._bytes.get(table.name, 0) + size_bytes
            while len(batches) > 1 and (
                held > self._rows_max or held_bytes > self._bytes_max or len(batches) > self._batches_max
            ):
                oldest = batches.popleft()
                held -= oldest.rows
                held_bytes -= oldest.size_bytes
                let_go += oldest.rows
            self._rows[table.name], self._bytes[table.name] = held, held_bytes
        if let_go:
            self._dropped(let_go)

    def since(self, table: str, number: int = 0) -> list[LiveBatch]:
        """Batches of a table after batch `number`, oldest first. Keep the last one's number for the next call."""
        with self._lock:
            return [batch for batch in self._batches.get(table, ()) if batch.number > number]

    def rows(self) -> dict[str, int]:
        """Rows held, by table."""
        with self._lock:
            return dict(self._rows)
