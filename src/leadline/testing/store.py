"""A store that forgets everything: rows in a dictionary, read by the identity rules of their table.

It takes what `store.Store.append` takes and answers the few questions that `ingest` asks; it is not a SQL engine.
Faults are a function that runs around each append:

    store = MemoryStore()
    store.fault = lambda table, rows: None          before anything is stored; may raise or block
    store.fault_after = lambda table, rows: None    everything is stored; raising is an answer that got lost
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pyarrow as pa

from leadline.model.errors import StoreError, UsageError
from leadline.model.tables import BY_NAME, Table
from leadline.store.schema import arrow_table, checked_rows
from leadline.wire.blank import blank_of

Fault = Callable[[Table, pa.Table], None]


def no_fault(table: Table, rows: pa.Table) -> None:
    """Everything works."""


class MemoryStore:
    """A fake of `store.Store`. Thread-safe. Rows are plain dictionaries, by table and by identity."""

    def __init__(self) -> None:
        self.fault: Fault = no_fault
        self.fault_after: Fault = no_fault
        self.appends: list[tuple[str, int]] = []  # (table, rows) of each append that was stored, in order
        self._lock = threading.Lock()
        self._rows: dict[str, dict[tuple[Any, ...], dict[str, Any]]] = {name: {} for name in BY_NAME}

    def start(self) -> None:
        """Nothing to open."""

    def stop(self) -> None:
        """Nothing to close; the rows stay."""

    def append(self, table: Table, rows: pa.Table) -> None:
        """Store rows: one that has the identity of an earlier one takes its place.

        Errors: DataError if the rows do not fit the table; what the faults raise.
        """
        checked = checked_rows(table, rows)
        self.fault(table, checked)
        self.keep(table, checked)
        self.fault_after(table, checked)

    def keep(self, table: Table, rows: pa.Table) -> None:
        """Store rows without faults: for a fault that leaves some of an append behind."""
        with self._lock:
            held = self._rows[table.name]
            for row in rows.to_pylist():
                held[tuple(row[name] for name in table.key)] = row
            self.appends.append((table.name, rows.num_rows))

    def query(self, sql: str, parameters: Mapping[str, Any] | None = None) -> pa.Table:
        """What `ingest` asks: rows of `series`, all of them, of one tenant and cluster, of those without a type by
        name, or in a range of ids; and the provider's open relations of some kinds.

        Errors: UsageError for anything else.
        """
        wanted = dict(parameters or {})
        if "FROM leadline.relation" in sql and wanted.keys() == {"provider", "kinds"}:
            return self._relations(**wanted)
        if "FROM leadline.series" not in sql or wanted.keys() - {"tenant", "cluster", "names", "first", "last"}:
            raise UsageError(f"MemoryStore answers what ingest asks about leadline.series; got {sql[:200]!r}")
        names = wanted.pop("names", None)
        first, last = wanted.pop("first", None), wanted.pop("last", None)
        rows = [row for row in self.rows("series") if all(row[name] == value for name, value in wanted.items())]
        if names is not None:
            assert "type IS NULL" in sql, "names come with streams that have no type"
            rows = [row for row in rows if row["type"] is None and row["name"] in names]
        if first is not None and last is not None:
            low, high = int.from_bytes(first, "little"), int.from_bytes(last, "little")
            rows = [row for row in rows if low <= int.from_bytes(row["series"], "little") <= high]
        rows.sort(key=lambda row: (row["tenant"], row["cluster"]))
        table = arrow_table(
            BY_NAME["series"], {c.name: [row[c.name] for row in rows] for c in BY_NAME["series"].columns}
        )
        if "AS blank" not in sql:
            return table
        return table.append_column("blank", pa.array([int(blank_of(row["name"])) for row in rows], pa.uint8()))

    def _relations(self, provider: str, kinds: Sequence[str]) -> pa.Table:
        table = BY_NAME["relation"]
        rows = [row for row in self.rows(table.name) if row["tenant"] == provider and row["kind"] in kinds]
        rows = [row for row in rows if row["to_ns"] is None]
        return arrow_table(table, {c.name: [row[c.name] for row in rows] for c in table.columns})

    def rows(self, table: str) -> list[dict[str, Any]]:
        """The rows of a table, one per identity, in no particular order."""
        with self._lock:
            return list(self._rows[table].values())


class StoreFaults:
    """Faults for a `MemoryStore`, switched by a test: `broken` fails every append, a cleared `open` holds them."""

    def __init__(self) -> None:
        self.broken = ""
        self.open = threading.Event()
        self.open.set()
        self.waiting = threading.Event()  # an append has come to the closed gate

    def __call__(self, table: Table, rows: pa.Table) -> None:
        """Run as `MemoryStore.fault`."""
        if not self.open.is_set():
            self.waiting.set()
            if not self.open.wait(10):
                raise StoreError("StoreFaults was never opened again")
        if self.broken:
            raise StoreError(self.broken)
