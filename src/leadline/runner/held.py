"""Rows in memory, read by the rules of `load`: what a replay, a recording judged at once and tests read.

    add ──> pieces of a table, each in one chunk, few of them ── those of a span, cut by time ──> conditions ──> rows

Pieces are joined as they come, small ones first, so that a table of n rows has some log2(n) of them: each look at a
column goes over its chunks. Most windows read some seconds of minutes or hours, and rows mostly come in the order of
time: then nothing beyond the span is looked at.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.tables import BY_NAME, Table
from leadline.runner.conditions import Condition, fulfilling
from leadline.runner.load import INT64_MAX, Chosen, as_declared, owner_columns, owners_of, rows_in
from leadline.runner.verdicts import Numbers, effective_rows
from leadline.store.schema import ARROW_TYPES

# Rows that may be there beyond twice those that counted when those that do not were last let go of. Source: judgement.
TOLD_AGAIN = 100


@dataclass(slots=True)
class _Piece:
    """Rows in one chunk, with what is known of their times."""

    rows: pa.Table
    time_N: Numbers | None = None  # None: in no order, or some have none
    low_ns: int = -INT64_MAX
    high_ns: int = INT64_MAX

    def within(self, low_ns: int, high_ns: int) -> pa.Table | None:
        """All rows with such a time, and perhaps more; None: there are none."""
        if self.low_ns > high_ns or self.high_ns < low_ns:
            return None
        if self.time_N is None or (low_ns <= self.low_ns and self.high_ns <= high_ns):
            return self.rows
        first, last = np.searchsorted(self.time_N, low_ns, "left"), np.searchsorted(self.time_N, high_ns, "right")
        return self.rows.slice(int(first), int(last - first)) if last > first else None


def _piece(table: Table, tables: Sequence[pa.Table]) -> _Piece:
    rows = pa.concat_tables(tables).unify_dictionaries().combine_chunks()
    times = rows[table.time]
    if not rows.num_rows or times.null_count:
        return _Piece(rows)
    time_N = times.to_numpy()
    ordered = bool((time_N[1:] >= time_N[:-1]).all())
    return _Piece(rows, time_N if ordered else None, int(time_N.min()), int(time_N.max()))


@dataclass(slots=True)
class _Held:
    """The rows of one table."""

    table: Table
    pieces: list[_Piece] = field(default_factory=list)
    counted: int = 0  # rows when those that no longer count were last let go of

    @property
    def rows(self) -> int:
        return rows_in(each.rows for each in self.pieces)

    def add(self, rows: pa.Table) -> None:
        if not rows.num_rows and self.pieces:
            return
        tables = [rows]
        while self.pieces and self.pieces[-1].rows.num_rows <= 2 * rows_in(tables):
            tables.insert(0, self.pieces.pop().rows)
        self.pieces.append(_piece(self.table, tables))
        # Only of all rows together: what takes a row back would go before that row.
        if self.table.newest and self.rows > 2 * self.counted + TOLD_AGAIN:
            whole = effective_rows(self.table, _piece(self.table, [each.rows for each in self.pieces]).rows)
            self.pieces, self.counted = [_piece(self.table, [whole])], whole.num_rows

    def within(self, low_ns: int, high_ns: int, names: Sequence[str] = ()) -> pa.Table:
        """These columns (none: all) of all rows with such a time, and perhaps of more."""
        found = [part for each in self.pieces if (part := each.within(low_ns, high_ns)) is not None]
        found = found or [self.pieces[0].rows.slice(0, 0)]
        return pa.concat_tables([part.select(names) for part in found] if names else found)


class HeldRows:
    """Rows in memory, by table name; each in the schema of its table. See `load.Rows`."""

    def __init__(self, tables: Mapping[str, pa.Table]) -> None:
        self._held: dict[str, _Held] = {}
        for name, rows in tables.items():
            self.add(BY_NAME[name], rows)

    @property
    def names(self) -> list[str]:
        """The tables of which there are rows."""
        return list(self._held)

    def add(self, table: Table, rows: pa.Table) -> None:
        """Hold more rows of a table; of spans that were told before only the newest row is kept."""
        self._held.setdefault(table.name, _Held(table)).add(rows)

    def rows_held(self) -> int:
        """How many rows there are, of all tables."""
        return sum(each.rows for each in self._held.values())

    def forget(self, table: Table, time: str, before_ns: int) -> None:
        """Let go of the rows of a table whose `time` is before; where that is null a row is kept."""
        held = self._held[table.name]
        kept = [each.rows.filter(_stays(each.rows, time, before_ns)) for each in held.pieces]
        held.pieces = [_piece(table, [rows]) for rows in kept if rows.num_rows] or [_piece(table, kept[:1])]
        held.counted = min(held.counted, held.rows)

    def chosen(self, chosen: Chosen) -> pa.Table:
        """See `Rows`."""
        return as_declared(chosen, self._filtered(chosen, chosen.columns))

    def owners(self, chosen: Chosen) -> list[tuple[str, str, str]]:
        """See `Rows`."""
        return owners_of(self._filtered(chosen, owner_columns(chosen)))

    def next_ns(self, table: Table, from_ns: int) -> int | None:
        """See `Rows`."""
        held = self._held.get(table.name)
        if held is None:
            return None
        times = held.within(from_ns, INT64_MAX, [table.time])[table.time]
        found: int | None = pc.min(times.filter(pc.greater_equal(times, from_ns))).as_py()
        return found

    def count(self, chosen: Chosen) -> int:
        """See `Rows`."""
        return len(self._filtered(chosen, ("tenant",)))

    def _filtered(self, chosen: Chosen, names: Sequence[str]) -> pa.Table:
        """These columns of the rows."""
        held = self._held.get(chosen.table.name)
        if held is None:
            types = {name: ARROW_TYPES[chosen.table.column(name).type] for name in names}
            return pa.table({name: pa.array([], kind) for name, kind in types.items()})
        before, after = chosen.conditions
        low_ns, high_ns = _bounds(chosen.table.time, before)
        if chosen.table.newest:  # which of two rows counts is told by nearly all columns
            rows = held.within(low_ns, high_ns)
            rows = fulfilling(effective_rows(chosen.table, fulfilling(rows, before)), after)
        else:
            needed = tuple(dict.fromkeys((*names, *(each.column for each in before))))
            rows = fulfilling(held.within(low_ns, high_ns, needed), before)
        return rows.select(names)


def _stays(rows: pa.Table, time: str, before_ns: int) -> pa.ChunkedArray:
    return pc.fill_null(pc.greater_equal(rows[time], before_ns), True)


def _bounds(time: str, conditions: Iterable[Condition]) -> tuple[int, int]:
    """The span that rows' times lie in, both ends included."""
    low_ns, high_ns = -INT64_MAX, INT64_MAX
    for each in conditions:
        if each.column == time and not each.null_too and isinstance(each.value, int):
            if each.how in (">", ">="):
                low_ns = max(low_ns, each.value)
            elif each.how in ("<", "<="):
                high_ns = min(high_ns, each.value)
    return low_ns, high_ns
