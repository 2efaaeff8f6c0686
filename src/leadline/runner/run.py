"""The runner: a thread that judges windows as they close, and again when rows come late.

    ingest ── touched ──> schedules ── next window ──> load ──> executor ──> keep: verdicts, then analysis_run
                              ^                                                        |
                              └───────────── touched: whoever reads those verdicts <───┘

What an analysis does wrong fails its window and is told; what the store cannot do is tried again. Neither stops what
takes telemetry in: nothing here is called by it but `touched`, which takes microseconds and never raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis import ANALYSES, Analysis
from leadline.analysis.spec import Read
from leadline.model.counters import Counter, counter
from leadline.model.errors import BusyError, RefusedError, StoreError, UsageError
from leadline.model.tables import BY_NAME, Table
from leadline.model.tables.verdicts import ANALYSIS_RUN
from leadline.runner.arrivals import Edges, times_of
from leadline.runner.clocks import is_clocked
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import Executor, WorkerProcesses
from leadline.runner.judge import Judged, StoppedError, judge
from leadline.runner.keep import judged_to_ns, keep, revision_of, runs_before
from leadline.runner.load import StoreRows, next_row_ns
from leadline.runner.plan import concluded, rhythms, upstream
from leadline.runner.recent import Recent
from leadline.runner.unwatched import close_unwatched
from leadline.runner.windows import SETTLE_NS, TIME_MAX_NS, Due, S, Schedule, Why, closing, resumed
from leadline.runner.worker import CRASHED, DONE, TIMEOUT
from leadline.store import Store

log = logging.getLogger("leadline.runner")

LOOK_EVERY_S = 0.25
CLOSE_EVERY_NS = 300 * S  # so often spans that nobody tells any more are looked for
UNTOLD_NS = 600 * S  # a span that was not told for so long, and longer than late rows change windows, is not watched
RETRY_S_MAX = 30.0  # between looks at a store that does not answer
STOP_S_MAX = 10.0
BEHIND_WINDOWS = 3
# Host clocks may be off: rows of theirs may belong to windows this far from what they say.
CLOCK_MARGIN_NS = S

Count = Callable[[Counter, int], None]


@dataclass(frozen=True, slots=True)
class AnalysisState:
    """How one analysis does. `state`: ok, behind, failed (its last window), idle (nothing was judged yet)."""

    name: str
    version: int
    doc: str
    state: str
    judged_to_ns: int | None  # windows up to here are judged, or have no rows
    lag_s: float | None  # how long ago that was
    windows: int  # judged since the start
    failures: int
    revisions: int  # verdicts that late rows changed
    late_rows: int  # rows that came after their window was judged
    waiting: int  # windows
    last_error: str  # of the last window, empty if that was judged well
    last_took_s: float | None
    rows_in: int
    rows_out: int


@dataclass(slots=True)
class _Lane:
    """One analysis while the runner runs."""

    analysis: Analysis
    schedule: Schedule
    above: list[int]  # places of the analyses whose verdicts it reads
    windows: int = 0
    failures: int = 0
    revisions: int = 0
    late_rows: int = 0
    last_error: str = ""
    last_took_s: float | None = None
    rows_in: int = 0
    rows_out: int = 0


class Runner:
    """Runs analyses over a store. Construction is inert; `start` begins, `stop` ends in a bounded time."""

    def __init__(
        self,
        config: RunnerConfig,
        store: Store,
        count: Count,
        now_ns: Callable[[], int] = time.time_ns,
        analyses: Sequence[Analysis] = ANALYSES,
        executor: Executor | None = None,
        *,
        from_ns: int | None = None,
        ended: Callable[[], int | None] = lambda: None,
        settle_ns: int = SETTLE_NS,
    ) -> None:
        """`now_ns`: event time ("now" of a replay is the recorded time that is reached). `from_ns`: windows are judged
        from this one on; None: go on where the store says that judging ended. `ended`: the end of the rows, once no
        more come. `settle_ns`: how long after they are told it may take until rows are seen in the store.

        Errors: UsageError if the configuration disables an analysis that does not exist.
        """
        self._config, self._store, self._count, self._now_ns = config, store, count, now_ns
        self._from_ns, self._ended, self._settle_ns = from_ns, ended, settle_ns
        _require_known(config.disabled, analyses, "runner.disabled")
        self._analyses = [each for each in analyses if config.enabled and each.name not in config.disabled]
        self._executor = executor or WorkerProcesses(workers=config.workers, nice=config.nice)
        self._recent = None if store.config.url else Recent(store)  # others may write to a server
        self._rows = StoreRows(store, self._recent)
        self._lock = threading.RLock()  # schedules and figures
        self._lanes: list[_Lane] = []
        self._readers: dict[str, list[tuple[_Lane, Read]]] = {}
        self._edges: dict[str, Edges] = {}  # by table that is read as valid
        self._closed: tuple[int, int] | None = (
            None  # when spans that nobody tells were looked for, and those told before
        )
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)

    @property
    def concludes(self) -> set[str]:
        """Names of the tables that it writes; empty if no analysis runs."""
        return concluded(self._analyses) | {ANALYSIS_RUN.name} if self._analyses else set()

    # --- life ---

    def start(self) -> None:
        """Begin to judge, in a thread. Without analyses there is none."""
        self.prepare()
        if self._lanes:
            self._thread.start()

    def prepare(self) -> None:
        """Make the schedules, so that rows which come from now on are heard of; `start` does this."""
        now_ns = self._now_ns()
        above = upstream(self._analyses)
        for place, (analysis, rhythm) in enumerate(zip(self._analyses, rhythms(self._analyses), strict=True)):
            from_ns = now_ns - rhythm.grace_ns if self._from_ns is None else self._from_ns
            recorded = self._from_ns is not None
            schedule = Schedule(rhythm, from_ns, self._settle_ns, nothing_before=recorded)
            lane = _Lane(analysis, schedule, above[place])
            self._lanes.append(lane)
            for read in analysis.reads:
                if not read.waits:
                    continue
                self._readers.setdefault(read.table.name, []).append((lane, read))
                if read.valid:
                    self._edges[read.table.name] = Edges()

    def stop(self) -> None:
        """Judge no more. A window that is being judged is given up; it is judged at the next start."""
        self._stop.set()
        self._executor.close()
        if self._thread.is_alive():
            self._thread.join(STOP_S_MAX)
        if self._recent:
            self._recent.close()

    # --- what others say ---

    def touched(self, tenant: str, cluster: str, table: Table, columns: Mapping[str, object], rows: int) -> None:
        """Hear of rows that were stored: windows that were judged without them are judged again. Never raises."""
        readers = self._readers.get(table.name)
        if not readers or not rows:
            return
        try:
            self._hear(readers, table, columns, counted=True)
        except Exception:
            log.exception("rows of %s were not heard of; windows judged before they came stay as they are", table.name)

    def backfill(self, from_ns: int, to_ns: int, names: Sequence[str] = ()) -> int:
        """Judge the closed windows of a span again, or for the first time. Returns: how many wait for that.

        Windows that turn out to have no rows are passed over. Errors: UsageError for an empty span or a name that no
        analysis has, BusyError if too many spans wait already.
        """
        if from_ns >= to_ns:
            raise UsageError(f"from_ns must be before to_ns, got {from_ns} and {to_ns}")
        _require_known(names, self._analyses, "analyses")
        with self._lock:
            lanes = [lane for lane in self._lanes if not names or lane.analysis.name in names]
            try:
                return sum(lane.schedule.backfill(from_ns, to_ns) for lane in lanes)
            except OverflowError as error:
                raise BusyError(f"{error}; ask again when some are done", 60) from error

    def waiting(self) -> int:
        """How many windows are closed and not judged, or are to be judged again."""
        return sum(state.waiting for state in self.states())

    def states(self) -> list[AnalysisState]:
        """How each analysis does, in the order in which they run."""
        now_ns, ended_ns = self._now_ns(), self._ended()
        with self._lock:
            return [self._state(lane, now_ns, ended_ns) for lane in self._lanes]

    def _state(self, lane: _Lane, now_ns: int, ended_ns: int | None) -> AnalysisState:
        schedule, rhythm = lane.schedule, lane.schedule.rhythm
        lag_ns = max(0, now_ns - schedule.judged_to_ns)
        behind = lag_ns > BEHIND_WINDOWS * rhythm.window_ns + rhythm.grace_ns
        state = "behind" if behind else "ok" if lane.windows else "idle"
        return AnalysisState(
            name=lane.analysis.name,
            version=lane.analysis.version,
            doc=lane.analysis.doc,
            state="failed" if lane.last_error else state,
            judged_to_ns=schedule.judged_to_ns,
            lag_s=lag_ns / S,
            windows=lane.windows,
            failures=lane.failures,
            revisions=lane.revisions,
            late_rows=lane.late_rows,
            waiting=schedule.waiting(now_ns, ended_ns),
            last_error=lane.last_error,
            last_took_s=lane.last_took_s,
            rows_in=lane.rows_in,
            rows_out=lane.rows_out,
        )

    def _hear(
        self,
        readers: list[tuple[_Lane, Read]],
        table: Table,
        columns: Mapping[str, object],
        *,
        counted: bool,
        own: tuple[_Lane | None, int] = (None, 0),
    ) -> None:
        """`own`: who concluded the rows, and the end of the window that they were concluded from."""
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
                if counted and first_ns < schedule.judged_to_ns:
                    oldest_ns = schedule.oldest_ns(now_ns)
                    late = int(np.count_nonzero(times < schedule.judged_to_ns))
                    gone = int(np.count_nonzero(times < oldest_ns)) if self._from_ns is None else 0
                    lane.late_rows += late - gone
                    too_late = max(too_late, gone)
        self._count(counter("analysis_late", "too_late"), too_late)

    # --- the thread ---

    def _run(self) -> None:
        if self._lanes:
            self._executor.start()
        failed = 0
        resumed_yet = self._from_ns is not None
        while not self._stop.is_set():
            try:
                if not resumed_yet:
                    self._resume()
                    resumed_yet = True
                judged = self.step()
                if not judged and self._from_ns is None:  # of a recording what lasts at its end lasts
                    self.close_unwatched()
                failed = 0
            except StoppedError:
                return
            except StoreError as error:
                failed += 1
                self._count(counter("store_failed", "analysis"), 1)
                log.warning("the store does not answer the analyses, which try again: %s", error)
                self._stop.wait(min(RETRY_S_MAX, 0.5 * 2**failed))
                continue
            if not judged:
                self._stop.wait(LOOK_EVERY_S)

    def _resume(self) -> None:
        """Have the windows judged that closed while nobody judged them. Errors: StoreError."""
        before = judged_to_ns(self._store)
        now_ns = self._now_ns()
        until_ns: dict[str, int] = {}
        with self._lock:
            for lane in self._lanes:
                rhythm = lane.schedule.rhythm
                last_ns = before.get(lane.analysis.name)
                _, (from_ns, to_ns), skipped_ns = resumed(rhythm, now_ns, last_ns, self._config.backfill_s_max * S)
                until_ns[lane.analysis.name] = from_ns - UNTOLD_NS
                if from_ns < to_ns:
                    lane.schedule.backfill(from_ns, to_ns)
                self._count(counter("analysis_late", "not_backfilled"), skipped_ns // rhythm.window_ns)
        self._close(until_ns)  # first, for what seems to last is read by every window of those that were missed

    def close_unwatched(self) -> int:
        """Close the spans that no window will tell any more, if it is time to look for them; when nothing is due, so
        that all that was missed has been judged. Returns: how many were closed. Errors: StoreError."""
        now_ns = self._now_ns()
        if self._closed is not None and now_ns < self._closed[0] + CLOSE_EVERY_NS:
            return 0
        with self._lock:
            until_ns = {
                lane.analysis.name: min(lane.schedule.oldest_ns(now_ns), lane.schedule.judged_to_ns - UNTOLD_NS)
                for lane in self._lanes
            }
        closed = self._close(until_ns, since_ns=0 if self._closed is None else self._closed[1])
        self._closed = now_ns, min([now_ns - UNTOLD_NS, *until_ns.values()])
        return closed

    def _close(self, until_ns: Mapping[str, int], since_ns: int = 0) -> int:
        """Close open spans told last from `since_ns` on and before `until_ns` of their analysis."""
        nobody_ns = self._now_ns() - UNTOLD_NS  # of analyses that do not run (any more)
        closed = close_unwatched(self._store, lambda name: until_ns.get(name, nobody_ns), since_ns)
        self._count(counter("analysis_late", "unwatched"), closed)
        return closed

    def step(self) -> bool:
        """Judge the next window, if one is due. Returns: whether one was. Errors: StoreError, StoppedError."""
        now_ns, ended_ns = self._now_ns(), self._ended()
        with self._lock:
            found = [
                (*closing(due, lane.schedule.rhythm), place, due)
                for place, lane in enumerate(self._lanes)
                if (due := lane.schedule.next(now_ns, ended_ns)) is not None
            ]
        if not found:
            return False
        *_, place, due = min(found)
        lane = self._lanes[place]
        try:
            any_rows = self._judge(lane, due)
        except RefusedError as error:  # more rows than the store may load at once
            any_rows = self._failed(lane, str(error))
        except (StoreError, StoppedError):
            raise
        except Exception as error:
            log.exception("%s, window that ends at %d ns", lane.analysis.name, due.end_ns)
            any_rows = self._failed(lane, f"{type(error).__name__}: {error}; this is a bug of Leadline")
        with self._lock:
            if any_rows:
                lane.schedule.done(due, now_ns)
                return True
        self._pass_over(lane, due, now_ns, ended_ns)
        return True

    def _pass_over(self, lane: _Lane, due: Due, now_ns: int, ended_ns: int | None) -> None:
        """Go on behind a window without rows, at the next one that has some."""
        following_ns = next_row_ns(lane.analysis, due.end_ns, self._rows)
        with self._lock:
            known_ns = [self._lanes[at].schedule.judged_to_ns for at in lane.above]
            known_ns.append(lane.schedule.rhythm.closed(now_ns, ended_ns))
            lane.schedule.empty(due, following_ns, now_ns, min(known_ns))

    def _judge(self, lane: _Lane, due: Due) -> bool:
        """Judge a window and keep the verdicts. Returns: whether it had rows. Errors: StoreError, RefusedError."""
        analysis, began_ns = lane.analysis, time.monotonic_ns()
        before = None
        found = judge(
            analysis,
            due.end_ns,
            self._rows,
            self._executor,
            self._config.provider,
            at_once=self._config.workers,
            stopping=self._stop.is_set,
        )
        parts = rows_in = rows_out = revised = 0
        error = ""
        for judged in found:
            before = runs_before(self._rows, analysis, due.end_ns) if before is None else before
            window = judged.window
            earlier = before.get((window.tenant, window.cluster, window.job))
            revision = revision_of(analysis, judged, earlier)
            if revision is not None:
                keep(self._store, analysis, judged, revision)
                self._tell(lane, judged)
            revised += bool(revision)
            error = judged.outcome.error or error
            self._count_failure(judged)
            parts, rows_in, rows_out = parts + 1, rows_in + judged.rows_in, rows_out + judged.outcome.rows
        if parts:
            self._count(counter("analysis_late", "judged_again"), int(due.why is Why.LATE))
            with self._lock:
                lane.windows, lane.revisions = lane.windows + 1, lane.revisions + revised
                lane.failures += bool(error)
                lane.last_error = error
                lane.last_took_s = (time.monotonic_ns() - began_ns) / 1e9
                lane.rows_in, lane.rows_out = lane.rows_in + rows_in, lane.rows_out + rows_out
        return parts > 0

    def _tell(self, lane: _Lane, judged: Judged) -> None:
        """Verdicts are rows that others read: who has judged without them judges again. The analysis itself only
        later windows: what it concluded from a window is no news to that one, nor to those before it."""
        for name, rows in judged.outcome.tables.items():
            if readers := self._readers.get(name):
                self._hear(readers, BY_NAME[name], {"rows": rows}, counted=False, own=(lane, judged.window.to_ns))

    def _count_failure(self, judged: Judged) -> None:
        state = judged.outcome.state
        if state == DONE:
            return
        if state == TIMEOUT:
            self._count(counter("analysis_failed", "timeout"), 1)
        elif state == CRASHED:
            self._count(counter("analysis_failed", "crashed"), 1)
        else:
            self._count(counter("analysis_failed", "error"), 1)
        log.error("an analysis failed on the window that ends at %d ns: %s", judged.window.to_ns, judged.outcome.error)

    def _failed(self, lane: _Lane, error: str) -> bool:
        """A window could not be judged at all. Returns: True, it is over."""
        self._count(counter("analysis_failed", "not_loaded"), 1)
        with self._lock:
            lane.windows, lane.failures, lane.last_error = lane.windows + 1, lane.failures + 1, error
        return True


def _spans(
    times: np.ndarray[tuple[int], np.dtype[np.int64]], first_ns: int, last_ns: int, schedule: Schedule
) -> list[tuple[int, int]]:
    """Spans of time that the rows touch: one, unless some are late: then one for each window that has any."""
    window_ns = schedule.rhythm.window_ns
    if first_ns >= schedule.judged_to_ns or last_ns - first_ns <= window_ns:
        return [(first_ns, last_ns)]
    begins = np.unique(times // window_ns) * window_ns
    return [(int(begin), int(begin) + window_ns - 1) for begin in begins]


def _require_known(names: Sequence[str], analyses: Sequence[Analysis], where: str) -> None:
    known = [each.name for each in analyses]
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: there is no analysis {name!r}; there are: {', '.join(known) or 'none'}")
