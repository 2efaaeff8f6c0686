"""Relations that were stored since a graph was read: what it follows instead of reading the store again.

Hosts that share a machine (`colocation`) are relations, too.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.colocation import edges
from leadline.model.tables import Table
from leadline.model.tables.fabric import COLOCATION, RELATION
from leadline.store import Store

COLUMNS = ("tenant", "child", "parent", "kind", "from_ns", "to_ns", "source", "confidence")
ROWS_MAX = 100_000  # held, some 20 MB: the store is read again after so many that nobody asked a graph about
BATCHES_MAX = 20_000  # held; each some 5 kB however few rows it has


@dataclass(frozen=True, slots=True)
class Batch:
    """Rows of one append, with the columns of a graph and their cluster; `number` counts appends from 1."""

    number: int
    rows: pa.Table

    def of(self, cluster: str) -> pa.Table:
        """The rows of a cluster, as a graph takes them."""
        return self.rows.filter(pc.equal(self.rows["cluster"], cluster)).select(COLUMNS)


class Heard:
    """The newest relations that this process stored. Thread-safe; listening never blocks for long and never raises."""

    def __init__(self, store: Store, rows_max: int = ROWS_MAX) -> None:
        self._rows_max = rows_max
        self._lock = threading.Lock()
        self._batches: deque[Batch] = deque()
        self._rows = 0
        self._number = 0  # of the last append
        self._gone = 0  # of the last append that is not held any more
        store.listen(self._appended)

    @property
    def number(self) -> int:
        """How many appends there were."""
        with self._lock:
            return self._number

    def since(self, number: int) -> list[Batch] | None:
        """The appends after append `number`, oldest first; None if some of them are not held: read the store."""
        with self._lock:
            return None if number < self._gone else [each for each in self._batches if each.number > number]

    def _appended(self, table: Table, rows: pa.Table | None) -> None:
        """See `Store.listen`. Of rows that are perhaps there nothing is known, so what was before is no use either."""
        if table.name not in _RELATIONS:
            return
        kept = None if rows is None else _RELATIONS[table.name](rows)
        with self._lock:
            self._number += 1
            if kept is None:
                self._batches.clear()
                self._rows, self._gone = 0, self._number
                return
            self._batches.append(Batch(self._number, kept))
            self._rows += kept.num_rows
            while self._rows > self._rows_max or len(self._batches) > BATCHES_MAX:
                oldest = self._batches.popleft()
                self._rows, self._gone = self._rows - oldest.rows.num_rows, oldest.number


def _plain(rows: pa.Table) -> pa.Table:
    """With texts as such: dictionaries of different batches differ."""
    return rows.cast(
        pa.schema(
            [(each.name, pa.string() if pa.types.is_dictionary(each.type) else each.type) for each in rows.schema]
        )
    )


def _told(rows: pa.Table) -> pa.Table:
    return _plain(rows.select(("cluster", *COLUMNS)))


def _on_machines(rows: pa.Table) -> pa.Table:
    told = rows.filter(pc.greater_equal(rows["revision"], 0))  # below it a row takes another one back
    rows = _plain(told.select(("cluster", "tenant", *edges.COLUMNS)))
    found = []
    for cluster in pc.unique(rows["cluster"]).to_pylist() or [""]:
        shared = edges.machine_edges(rows.filter(pc.equal(rows["cluster"], cluster))).select(COLUMNS)
        found.append(shared.add_column(0, "cluster", pa.array([cluster] * shared.num_rows, pa.string())))
    return pa.concat_tables(found)


_RELATIONS: Mapping[str, Callable[[pa.Table], pa.Table]] = {RELATION.name: _told, COLOCATION.name: _on_machines}
