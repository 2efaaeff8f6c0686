"""Windows judged from rows in memory, in the order in which a live run closes them; rows may go on coming.

    add(rows of a minute) ── until(now) ── every window whose end and grace are over, the first closed first
                          └─ forget ────── rows that no window looks back to any more

`runner.offline` judges a recording by the ends of windows: what does not wait for a slower analysis then sees its
verdicts earlier than in a live run, so times until a verdict would be told too short. Where everything waits, the two
conclude the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.spec import Analysis
from leadline.model.principal import DEFAULT_TENANT
from leadline.model.tables import BY_NAME as TABLES
from leadline.model.tables import Identity
from leadline.runner.execute import Executor, InProcess
from leadline.runner.judge import judge
from leadline.runner.load import HeldRows, next_row_ns
from leadline.runner.plan import rhythms, upstream
from leadline.runner.verdicts import latest_rows
from leadline.runner.windows import Due, Schedule
from leadline.store.bundle_rows import LASTING, in_order

S = 10**9
KEPT_BEYOND_NS = 120 * S  # of what is looked back to: clocks of hosts may be off


class Judging:
    """Not thread-safe."""

    def __init__(
        self,
        analyses: Sequence[Analysis],
        from_ns: int,
        executor: Executor | None = None,
        provider: str = DEFAULT_TENANT,
    ) -> None:
        self._analyses = analyses
        self._executor, self._provider = executor or InProcess(), provider
        self._schedules = [Schedule(rhythm, from_ns, settle_ns=0) for rhythm in rhythms(analyses)]
        self._above = upstream(analyses)
        self._held: dict[str, pa.Table] = {}
        self._told: dict[str, list[pa.Table]] = {}
        self.windows = 0  # that had rows
        self.failures: list[str] = []  # windows in which an analysis failed: it says nothing of them, as in a live run

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Take rows, by table name."""
        for name, rows in tables.items():
            held = self._held.get(name)
            self._held[name] = rows if held is None else pa.concat_tables([held, rows])

    def until(self, now_ns: int, ended: bool = False) -> None:
        """Judge every window that is closed by now; `ended`: nothing comes any more."""
        ended_ns = now_ns if ended else None
        rows = HeldRows(self._held)
        while (chosen := self._next(now_ns, ended_ns)) is not None:
            self._judge(*chosen, rows, now_ns, ended_ns)

    def told(self) -> dict[str, pa.Table]:
        """The verdicts so far, by table name; of what many windows tell, the newest."""
        found = {}
        for name, parts in sorted(self._told.items()):
            table, rows = TABLES[name], pa.concat_tables(parts).unify_dictionaries().combine_chunks()
            found[name] = in_order(table, latest_rows(table, rows) if table.newest else rows)
        return found

    def forget(self, now_ns: int) -> None:
        """Let go of rows that no window from here on looks back to."""
        for name, rows in self._held.items():
            since_ns = now_ns - self._looked_back_ns(name) - KEPT_BEYOND_NS
            table = TABLES[name]
            begin, end = LASTING.get(name, (table.time, ""))
            keep = pc.greater_equal(rows[end or begin], since_ns)
            self._held[name] = rows.filter(pc.fill_null(keep, True)).combine_chunks()

    def _looked_back_ns(self, name: str) -> int:
        return max(
            (
                read.look_back_ns + rhythm.window_ns + rhythm.grace_ns
                for analysis, rhythm in zip(self._analyses, rhythms(self._analyses), strict=True)
                for read in analysis.reads
                if read.table.name == name
            ),
            default=0,
        )

    def _next(self, now_ns: int, ended_ns: int | None) -> tuple[int, Due] | None:
        """The window that closed first, of those that are left; of several, of the analysis that comes first."""
        left = [
            (due.end_ns + each.rhythm.grace_ns, place, due)
            for place, each in enumerate(self._schedules)
            if (due := each.next(now_ns, ended_ns)) is not None
        ]
        if not left:
            return None
        _, place, due = min(left)
        return place, due

    def _judge(self, place: int, due: Due, rows: HeldRows, now_ns: int, ended_ns: int | None) -> None:
        analysis, schedule = self._analyses[place], self._schedules[place]
        any_rows = False
        for judged in judge(analysis, due.end_ns, rows, self._executor, self._provider):
            any_rows = True
            if judged.outcome.error:
                self.failures.append(f"{analysis.name}, window that ends at {due.end_ns} ns: {judged.outcome.error}")
            for name, verdicts in judged.outcome.tables.items():
                self._told.setdefault(name, []).append(verdicts)
                self.add({name: verdicts})
                rows.add(TABLES[name], verdicts)
        self.windows += any_rows
        if any_rows:
            schedule.done(due, now_ns)
            return
        known_ns = [self._schedules[at].judged_to_ns for at in self._above[place]]
        known_ns.append(schedule.rhythm.closed(now_ns, ended_ns))
        schedule.empty(due, next_row_ns(analysis, due.end_ns, rows), now_ns, min(known_ns))


def rows_that_count(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Rows of a recording: of verdicts in it those whose revision counts."""
    return {
        name: latest_rows(TABLES[name], rows) if TABLES[name].identity is Identity.REVISION else rows
        for name, rows in tables.items()
    }
