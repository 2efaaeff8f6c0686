"""What recent windows reported about spans, in memory: where a window takes its word back, that of the one before it
holds."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterator
from typing import Any

import pyarrow as pa

from leadline.model.tables import Table
from leadline.model.units import S

KEPT_NS = 900 * S  # rows that come 10 minutes late are judged again, and their windows some time after that
ROWS_MAX = 200_000  # of all; some 60 MB. Beyond that the windows that were judged longest ago are forgotten

Key = tuple[Any, ...]
Whose = tuple[str, str, str, str, str]  # table, analysis, tenant, cluster, job


def keys_of(table: Table, rows: pa.Table) -> list[Key]:
    """The key of each row."""
    columns = [rows[name] for name in table.key]
    plain = [each.cast(pa.string()) if pa.types.is_dictionary(each.type) else each for each in columns]
    return list(zip(*(each.to_pylist() for each in plain), strict=True))


class Words:
    """By table, analysis and part: the rows of each window that was judged of late. Not thread-safe."""

    def __init__(self) -> None:
        self._by_window: OrderedDict[tuple[Whose, int], pa.Table | None] = OrderedDict()
        self._ends: dict[Whose, set[int]] = {}
        self._rows = 0

    def remember(self, whose: Whose, end_ns: int, rows: pa.Table | None) -> None:
        """The rows of a window's last judgement."""
        self._forget((whose, end_ns))
        self._by_window[whose, end_ns] = rows
        self._ends.setdefault(whose, set()).add(end_ns)
        self._rows += rows.num_rows if rows is not None else 0
        newest_ns = max(self._ends[whose])
        for old_ns in [each for each in self._ends[whose] if each < newest_ns - KEPT_NS]:
            self._forget((whose, old_ns))
        while self._rows > ROWS_MAX and len(self._by_window) > 1:
            self._forget(next(iter(self._by_window)))

    def newest_ns(self, whose: Whose) -> int:
        """End of the newest window of a part; 0: none is known."""
        return max(self._ends.get(whose, ()), default=0)

    def before(self, table: Table, whose: Whose, end_ns: int, key: Key) -> pa.Table | None:
        """The row of a span as the last window before a time reported it; None: none did, or it is forgotten."""
        for rows in self._back_from(whose, end_ns):
            for place, each in enumerate(keys_of(table, rows)):
                if each == key:
                    return rows.slice(place, 1)
        return None

    def _back_from(self, whose: Whose, end_ns: int) -> Iterator[pa.Table]:
        for end in sorted((each for each in self._ends.get(whose, ()) if each < end_ns), reverse=True):
            rows = self._by_window[whose, end]
            if rows is not None:
                yield rows

    def _forget(self, window: tuple[Whose, int]) -> None:
        if window not in self._by_window:
            return
        rows = self._by_window.pop(window)
        self._rows -= rows.num_rows if rows is not None else 0
        ends = self._ends[window[0]]
        ends.discard(window[1])
        if not ends:
            del self._ends[window[0]]
