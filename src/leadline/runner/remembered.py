"""Rows of tables that nothing was written to since they were read, kept in memory.

    chosen ── unchanged, and read so far? ── yes ──> filtered in memory, by the rules of the store
                                          └─ no ───> the rows beneath; at the second time read a minute ahead, and kept

What an analysis reads beside its telemetry (the graph, marks, conflicts, fits of clocks) changes seldom, and a
statement costs the engine 5 to 10 ms of a core however few rows it finds: asked anew for each window of two seconds,
that was more than all analyses together. Tables that are written all the time are read as if this were not here.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, replace

import pyarrow as pa

from leadline.model.tables import Identity, Table
from leadline.runner.load import Chosen, Rows, as_declared, fulfilling, owner_columns, owners_of
from leadline.runner.verdicts import counted_by

AHEAD_NS = 60 * 10**9  # how far beyond what is asked for is read
ROWS_MAX = 50_000  # of one read: more are not kept
READS_MAX = 300  # kept at most; the one that was used longest ago goes first
_Asked = tuple[str, tuple[str, ...], bool, int, str, str, str]


@dataclass(slots=True)
class _Kept:
    """What is known of a read. `rows`: None as long as it was asked for once only, or where they are too many."""

    written: int
    from_ns: int
    to_ns: int
    rows: pa.Table | None = None


class Remembered:
    """Rows over others. Not thread-safe."""

    def __init__(self, rows: Rows, written: Callable[[str], int]) -> None:
        """`written`: how often a table was written to so far; read before the rows are."""
        self._rows, self._written = rows, written
        self._kept: OrderedDict[_Asked, _Kept] = OrderedDict()
        self._next: dict[str, tuple[int, int, int | None]] = {}  # table -> written, asked from, found

    def chosen(self, chosen: Chosen) -> pa.Table:
        """See `Rows`."""
        found = self._remembered(chosen)
        return self._rows.chosen(chosen) if found is None else as_declared(chosen, found)

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        """See `Rows`."""
        found = self._remembered(replace(chosen, columns=owner_columns(chosen)))
        return self._rows.owners(chosen) if found is None else owners_of(found)

    def count(self, chosen: Chosen) -> int:
        """See `Rows`."""
        return self._rows.count(chosen)

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        """See `Rows`."""
        written = self._written(table.name)
        before, since_ns, found = self._next.get(table.name, (-1, 0, None))
        if before != written or from_ns < since_ns or (found is not None and from_ns > found):
            found = self._rows.next_ns(table, from_ns)
            self._next[table.name] = written, from_ns, found
        return found

    def _remembered(self, chosen: Chosen) -> pa.Table | None:
        """The rows with the columns asked for, if they are known."""
        owner = (chosen.cluster, chosen.tenant, chosen.job)
        asked = (chosen.table.name, chosen.columns, chosen.valid, chosen.to_ns - chosen.from_ns, *owner)
        written = self._written(chosen.table.name)
        kept = self._kept.get(asked)
        if kept is None or kept.written != written:
            self._kept[asked] = _Kept(written, chosen.from_ns, chosen.to_ns)
            self._kept.move_to_end(asked)
            if len(self._kept) > READS_MAX:
                self._kept.popitem(last=False)
            return None
        if chosen.from_ns < kept.from_ns:  # a window that is judged again
            return None
        self._kept.move_to_end(asked)
        if chosen.to_ns > kept.to_ns or kept.rows is None:
            kept = self._kept[asked] = self._read(chosen, written)
        if kept.rows is None:
            return None
        return fulfilling(kept.rows, [each for part in chosen.conditions for each in part]).select(chosen.columns)

    def _read(self, chosen: Chosen, written: int) -> _Kept:
        """Read what windows of the next minute ask for."""
        needed = [each.column for part in chosen.conditions for each in part]
        if chosen.table.identity is Identity.REVISION:
            needed += counted_by(chosen.table)
        columns = tuple(dict.fromkeys((*chosen.columns, *needed)))
        ahead = replace(chosen, columns=columns, to_ns=min(chosen.to_ns, 2**63 - 1 - AHEAD_NS) + AHEAD_NS)
        kept = _Kept(written, chosen.from_ns, ahead.to_ns)
        if self._rows.count(ahead) <= ROWS_MAX:
            kept.rows = self._rows.chosen(ahead).combine_chunks()
        return kept
