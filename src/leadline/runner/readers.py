"""Which lanes read a table, and which of their windows rows that were just stored set back: what was judged without
them is judged again."""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.spec import Read
from leadline.model.tables import Table
from leadline.model.units import S
from leadline.runner.arrivals import Edges, times_of
from leadline.runner.clock.clocks import is_clocked
from leadline.runner.lanes import Lane
from leadline.runner.windows import TIME_MAX_NS, Schedule

# Host clocks may be off: rows of theirs may belong to windows this far from what they say.
CLOCK_MARGIN_NS = S


class Readers:
    """The lanes that wait for rows of each table. `lock` is that of the schedules."""

    def __init__(self, lock: threading.RLock, now_ns: Callable[[], int], *, recorded: bool) -> None:
        """`recorded`: a recording is judged, in which nothing is too old."""
        self._lock, self._now_ns, self._recorded = lock, now_ns, recorded
        self._of: dict[str, list[tuple[Lane, Read]]] = {}
        self._edges: dict[str, Edges] = {}  # by table that is read as valid

    def add(self, lane: Lane) -> None:
        """A lane, with all tables that it waits for."""
        for read in lane.analysis.reads:
            if not read.waits:
                continue
            self._of.setdefault(read.table.name, []).append((lane, read))
            if read.valid:
                self._edges[read.table.name] = Edges()

    def hear(
        self,
        table: Table,
        columns: Mapping[str, object],
        *,
        counted: bool,
        own: tuple[Lane | None, int] = (None, 0),
    ) -> int:
        """Set back the windows that rows belong to. Returns: how many came too late for any.

        `counted`: rows that come late are counted. `own`: who concluded the rows, and the end of the window that they
        were concluded from.
        """
        readers = self._of.get(table.name)
        if not readers:
            return 0
        now_ns = self._now_ns()
        times = times_of(table, columns)
        first_ns, last_ns = int(times.min()), int(times.max())
        margin_ns = CLOCK_MARGIN_NS if is_clocked(table) else 0
        too_late = 0
        with self._lock:
            holding = next((read for _, read in readers if read.valid), None)
            news = self._edges[table.name].spans(holding, columns, now_ns) if holding else []
            for lane, read in readers:
                schedule, back_ns = lane.schedule, read.look_back_ns
                after_ns = own[1] if lane is own[0] else -TIME_MAX_NS
                if read.valid:
                    for begin_ns, end_ns in news:
                        schedule.touched(max(begin_ns, after_ns), end_ns + back_ns, now_ns)
                    continue
                for begin_ns, end_ns in _spans(times, first_ns, last_ns, schedule):
                    schedule.touched(max(begin_ns - margin_ns, after_ns), end_ns + back_ns + margin_ns, now_ns)
                for lateness in (lane.held_back, lane.over_later):
                    if counted and lateness is not None and table in lateness.tables:
                        lateness.hear(first_ns, now_ns)
                if counted and first_ns < schedule.judged_to_ns:
                    oldest_ns = schedule.oldest_ns(now_ns)
                    late = int(np.count_nonzero(times < schedule.judged_to_ns))
                    gone = 0 if self._recorded else int(np.count_nonzero(times < oldest_ns))
                    lane.late_rows += late - gone
                    too_late = max(too_late, gone)
        return too_late


def _spans(times: NDArray[np.int64], first_ns: int, last_ns: int, schedule: Schedule) -> list[tuple[int, int]]:
    """Spans of time that the rows touch: one, unless some are late: then one for each window that has any."""
    window_ns = schedule.rhythm.window_ns
    if first_ns >= schedule.judged_to_ns or last_ns - first_ns <= window_ns:
        return [(first_ns, last_ns)]
    begins = np.unique(times // window_ns) * window_ns
    return [(int(begin), int(begin) + window_ns - 1) for begin in begins]
