"""Which times a batch of rows that were just stored speaks of, so that windows judged without them are judged again."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Mapping

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from leadline.analysis.spec import Read
from leadline.model.tables import Table
from leadline.model.tables.fabric import RELATION
from leadline.runner.load import Chosen, ends_windows

Ints = NDArray[np.int64]

# Edges told before: about 200 bytes each. Of one that was forgotten, the next telling counts as news.
EDGES_MAX = 200_000
RELATION_KEY = ("child", "kind", "from_ns", "parent", "source")


def times_of(table: Table, columns: Mapping[str, object]) -> Ints:
    """The times of rows as the ways in hand them on: an Arrow table, or a mapping of arrays."""
    rows = columns.get("rows")
    found = rows[table.time] if isinstance(rows, pa.Table) else columns[table.time]
    if isinstance(found, pa.Array | pa.ChunkedArray):
        found = found.to_numpy()
    times = np.asarray(found, np.int64)
    return times - 1 if ends_windows(table) else times  # verdicts on a window belong to it


def united(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The same times in spans that do not overlap, in order. Thousands of edges are nearly always one span."""
    out: list[tuple[int, int]] = []
    for begin, end in sorted(spans):
        if out and begin <= out[-1][1]:
            out[-1] = (out[-1][0], max(out[-1][1], end))
        else:
            out.append((begin, end))
    return out


class Edges:
    """Edges of the graph that were told before: who tells them again every minute says nothing new about the past."""

    def __init__(self, most: int = EDGES_MAX) -> None:
        self._told: OrderedDict[int, None] = OrderedDict()
        self._most = most

    def spans(self, read: Read, columns: Mapping[str, object], now_ns: int) -> list[tuple[int, int]]:
        """The spans of time in which rows that hold for a while change what is known, told at `now_ns`; none overlap.

        An edge is news from its begin to its end; one that was told before only if it is closed, and then from its
        end on (up to its end it held before as it holds now).
        """
        rows = columns.get("rows")
        if not isinstance(rows, pa.Table):
            return []
        begin, end = Chosen(read.table, (), 0, 0, valid=True).span
        begins = rows[begin].to_pylist()
        ends = rows[end].to_pylist() if end else [None] * rows.num_rows
        known = self._known(rows) if read.table is RELATION else [False] * rows.num_rows
        out: list[tuple[int, int]] = []
        for since, until, before in zip(begins, ends, known, strict=True):
            if not before:
                out.append((since, now_ns if until is None else until))
            elif until is not None:
                out.append((until, now_ns))
        return united(out)

    def _known(self, rows: pa.Table) -> list[bool]:
        """Whether each edge was told before; all of them are remembered."""
        names = [*(name for name in ("tenant", "cluster") if name in rows.column_names), *RELATION_KEY]
        out = []
        for key in zip(*(rows[name].to_pylist() for name in names), strict=True):
            number = hash(key)
            out.append(number in self._told)
            self._told[number] = None
            self._told.move_to_end(number)
            if len(self._told) > self._most:
                self._told.popitem(last=False)
        return out
