"""Windows judged from rows in memory, in the order in which a live run closes them; rows may go on coming.

    add(rows of a minute) ── until(now) ── every window whose end and grace are over, the first closed first
                          └─ forget ────── rows that no window looks back to any more

An analysis that fails says nothing of that window, and the others go on, as in a live run.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator, Mapping, Sequence

import pyarrow as pa

from leadline.analysis.spec import Analysis, Window
from leadline.model.errors import LeadlineError
from leadline.model.principal import DEFAULT_TENANT
from leadline.model.tables import BY_NAME as TABLES
from leadline.model.tables import Identity
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.model.units import S
from leadline.runner.execute import Executor, InProcess
from leadline.runner.held import HeldRows
from leadline.runner.judge import Judged, judge
from leadline.runner.parts import next_row_ns
from leadline.runner.plan import rhythms, upstream
from leadline.runner.store_verdicts import run_row
from leadline.runner.verdicts import effective_rows, of_last_judgements
from leadline.runner.windows import Due, Schedule, closing
from leadline.runner.worker import DONE, FAILED, Outcome
from leadline.store.bundle_rows import LASTING, in_order

log = logging.getLogger("leadline.runner")

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
        self._rows = HeldRows({})
        self._told: dict[str, list[pa.Table]] = {}
        self.windows = 0  # that had rows

    def add(self, tables: Mapping[str, pa.Table]) -> None:
        """Take rows, by table name."""
        for name, rows in tables.items():
            self._rows.add(TABLES[name], rows)

    def until(self, now_ns: int, ended: bool = False, reached: Callable[[int], None] | None = None) -> None:
        """Judge every window that is closed by now; `ended`: nothing comes any more.

        `reached(end_ns)` is called before each window: what ends earlier is judged.
        """
        ended_ns = now_ns if ended else None
        while (chosen := self._next(now_ns, ended_ns)) is not None:
            if reached is not None:
                reached(chosen[1].end_ns)
            self._judge(*chosen, now_ns, ended_ns)

    def told(self) -> dict[str, pa.Table]:
        """The verdicts so far, by table name, each in the order of its key; of what many windows tell, the newest.

        `analysis_run` has the windows that could not be judged, and why; it is not there if there are none.
        """
        found = {}
        for name, parts in sorted(self._told.items()):
            table, rows = TABLES[name], pa.concat_tables(parts).unify_dictionaries().combine_chunks()
            found[name] = in_order(table, effective_rows(table, rows) if table.newest else rows)
        return found

    def forget(self, now_ns: int) -> None:
        """Let go of rows that no window from here on looks back to."""
        for name in self._rows.names:
            since_ns = now_ns - self._looked_back_ns(name) - KEPT_BEYOND_NS
            table = TABLES[name]
            begin, end = LASTING.get(name, (table.time, ""))
            self._rows.forget(table, end or begin, since_ns)

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
            (*closing(due, each.rhythm), place, due)
            for place, each in enumerate(self._schedules)
            if (due := each.next(now_ns, ended_ns)) is not None
        ]
        return min(left)[-2:] if left else None

    def _judge(self, place: int, due: Due, now_ns: int, ended_ns: int | None) -> None:
        analysis, schedule, rows = self._analyses[place], self._schedules[place], self._rows
        any_rows = False
        for judged in self._judged(analysis, due.end_ns):
            any_rows = True
            for name, verdicts in judged.outcome.tables.items():
                self._told.setdefault(name, []).append(verdicts)
                rows.add(TABLES[name], verdicts)
            if judged.outcome.state != DONE:
                log.error("%s, window that ends at %d ns: %s", analysis.name, due.end_ns, judged.outcome.error)
                self._told.setdefault(ANALYSIS_RUN.name, []).append(run_row(analysis, judged, 0, 0))
        self.windows += any_rows
        if any_rows:
            schedule.done(due, now_ns)
            return
        known_ns = [self._schedules[at].judged_to_ns for at in self._above[place]]
        known_ns.append(schedule.rhythm.closed(now_ns, ended_ns))
        schedule.empty(due, next_row_ns(analysis, due.end_ns, rows), now_ns, min(known_ns))

    def _judged(self, analysis: Analysis, end_ns: int) -> Iterator[Judged]:
        try:
            yield from judge(analysis, end_ns, self._rows, self._executor, self._provider)
        except LeadlineError:
            raise
        except Exception as error:  # rows that could not be loaded: as a live run, the others go on
            text = f"{type(error).__name__}: {error}; this is a bug of Leadline"
            window = Window(end_ns - analysis.window_ns, end_ns, self._provider)
            yield Judged(window, Outcome(FAILED, {}, error=text), 0, 0)


def failures(told: Mapping[str, pa.Table]) -> Iterator[str]:
    """A sentence for each window that could not be judged, of what `Judging.told` says."""
    if ANALYSIS_RUN.name in told:
        for row in told[ANALYSIS_RUN.name].to_pylist():
            part = f" of {row['part']}" if row["part"] else ""
            yield f"{row['analysis']}, window{part} that ends at {row['end_ns']} ns: {row['error']}"


def rows_that_count(tables: Mapping[str, pa.Table]) -> dict[str, pa.Table]:
    """Rows of a recording: of verdicts in it those of the last judgement of each window."""
    return {
        name: of_last_judgements(TABLES[name], rows) if TABLES[name].identity is Identity.REVISION else rows
        for name, rows in tables.items()
    }
