"""The runner: a thread that judges windows as they close, and again when rows come late.

    ingest ── touched ──> schedules ── next window ──> load ──> executor ──> keep: verdicts, then analysis_run
                              ^                                                        |
                              └───────────── touched: whoever reads those verdicts <───┘

Jobs are judged as far as their data has come (`watermarks`): a job whose senders are late waits, alone, and is judged
in order when they have caught up (`behind`). Where nobody says how far it has come, the clock decides.

What an analysis does wrong fails its window and is told; what the store cannot do is tried again. Neither stops what
takes telemetry in: nothing here is called by it but `touched`, which takes microseconds and never raises.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress

import pyarrow as pa

from leadline.analysis import ANALYSES, Analysis
from leadline.model.counters import Counter, counter
from leadline.model.errors import BusyError, RefusedError, StoreError, UsageError
from leadline.model.tables import BY_NAME, Table
from leadline.model.tables.fabric import CLOCK_FIT, WATERMARK
from leadline.model.tables.verdicts import ANALYSIS_RUN, EVENT
from leadline.model.units import S
from leadline.runner.arrivals import known_times
from leadline.runner.calls.flights import SHORT_NS, Flight, Order, Traffic, order_of, readers, room
from leadline.runner.calls.ray_executor import RayExecutor
from leadline.runner.clock.own import OwnClock, set_right
from leadline.runner.clock.steps import ClockStep, ClockSteps, boot_ns
from leadline.runner.config import RunnerConfig
from leadline.runner.execute import Executor, WorkerProcesses
from leadline.runner.following import TOGETHER_NS, Following
from leadline.runner.judge import Calls, Judged
from leadline.runner.lanes import AnalysisState, Lane, Life, state_of
from leadline.runner.load import StoreRows
from leadline.runner.parts import next_row_ns
from leadline.runner.plan import beside, concluded, rhythms, upstream
from leadline.runner.readers import Readers
from leadline.runner.recent import Recent
from leadline.runner.store_verdicts import (
    VerdictStore,
    as_before,
    judged_to_ns,
    revision_of,
    run_before,
    runs_before,
    unjudged,
)
from leadline.runner.unwatched import close_unwatched
from leadline.runner.watermarks import LATE_NS, Job, SenderState, Watermarks
from leadline.runner.watermarks_stored import keep_rows, keep_states, newest_watermarks
from leadline.runner.windows import SETTLE_NS, TIME_MAX_NS, Due, Schedule, Why, resumed
from leadline.runner.worker import CRASHED, DONE, TIMEOUT
from leadline.store import Store

log = logging.getLogger("leadline.runner")

LOOK_EVERY_S = 0.25
CLOSE_EVERY_NS = 300 * S  # so often spans that nobody tells any more are looked for
UNTOLD_NS = 600 * S  # a span that was not told for so long, and longer than late rows change windows, is not watched
RETRY_S_MAX = 30.0  # between looks at a store that does not answer
RESUME_TRIES = 3  # what fails so often for another reason than the store is left out: the present matters more
# Rows that were under way when a clock went wrong: windows before that are judged again too, if only for nothing.
CLOCK_BACK_NS = 60 * S
# An analysis that the store failed so often in a row steps aside for RETRY_S_MAX, so that those which read other tables
# go on: one table that cannot be read must not stop all verdicts.
ASIDE_AFTER = 4
STOP_S_MAX = 10.0
SENDERS_EVERY_NS = 5 * S  # so often it is stored how each sender is: the windows of `telemetry`

Count = Callable[[Counter, int], None]


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
        settle_ns: int | None = None,
        elapsed_ns: Callable[[], int] | None = None,
        waited_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`now_ns`: event time ("now" of a replay is the recorded time that is reached). `from_ns`: windows are judged
        from this one on; None: go on where the store says that judging ended. `ended`: the end of the rows, once no
        more come. `settle_ns`: how long after they are told it may take until rows are seen in the store; None: as the
        store is, for the embedded one tells rows that are seen.
        `elapsed_ns`: a clock that nobody sets, against which steps of the other are told; the machine's own where
        `now_ns` is, else none. `waited_s`: the clock by which an analysis that the store failed steps aside.

        Errors: UsageError if the configuration disables an analysis that does not exist, or asks for Ray where that is
        not installed.
        """
        self._config, self._store, self._count, self._now_ns = config, store, count, now_ns
        self._from_ns, self._ended = from_ns, ended
        self._settle_ns = (SETTLE_NS if store.config.url else 0) if settle_ns is None else settle_ns
        self._waited_s = waited_s
        _require_known(config.disabled, analyses, "runner.disabled")
        self._analyses = [each for each in analyses if config.enabled and each.name not in config.disabled]
        self._workers = config.calls_max
        self._executor = executor or _executor_of(config)
        self._recent = None if store.config.url else Recent(store)  # others may write to a server
        self._rows = StoreRows(store, self._recent)
        self._verdicts = VerdictStore(store)
        self._lock = threading.RLock()  # schedules and figures
        self._lanes: list[Lane] = []
        self._above = upstream(self._analyses)  # places of the analyses whose verdicts each reads
        self._below = readers(self._above)
        self._beside = beside(self._analyses)
        self._following = Following(self._lanes)
        self._readers = Readers(self._lock, now_ns, recorded=from_ns is not None)
        self._follows = from_ns is None  # of a recording the time of each row says when it was known
        self.watermarks = Watermarks()
        if elapsed_ns is None and now_ns is time.time_ns:
            elapsed_ns = boot_ns
        self._clock = OwnClock(ClockSteps(now_ns, elapsed_ns) if elapsed_ns is not None and self._follows else None)
        self._closed: tuple[int, int] | None = (
            None  # when spans that nobody tells were looked for, and those told before
        )
        self._beat_s, self._failing, self._fell_of = time.monotonic(), 0, ""
        self._resume_failed = 0
        # Jobs that are behind have every other turn: where more is due than can be judged, they would have none.
        self._held_next = False
        # The span that closed while Leadline was down, too long ago to be judged unless it is asked for; None: none.
        self.not_judged: tuple[int, int] | None = None
        self._stop = threading.Event()
        self._news = threading.Event()  # a call is answered, or it is to stop
        self._thread = threading.Thread(target=self._run, name="runner", daemon=True)
        self._senders_thread = threading.Thread(target=self._keep_senders, name="runner-senders", daemon=True)

    @property
    def concludes(self) -> set[str]:
        """Names of the tables that it writes; empty if no analysis runs."""
        return concluded(self._analyses) | {ANALYSIS_RUN.name} if self._analyses else set()

    # --- life ---

    def start(self) -> None:
        """Begin to judge, in a thread. Without analyses there is none."""
        self.prepare()
        self._beat_s = time.monotonic()
        if self._lanes:
            self._thread.start()
            if self._follows:
                self._senders_thread.start()

    def life(self) -> Life:
        """Whether its thread lives and does something."""
        runs = bool(self._lanes) and self._thread.ident is not None and not self._stop.is_set()
        quiet_s = time.monotonic() - self._beat_s
        return Life(runs, self._thread.is_alive(), quiet_s, self._failing, self._fell_of)

    def prepare(self) -> None:
        """Make the schedules, so that rows which come from now on are heard of; `start` does it where nobody did."""
        if self._lanes:
            return
        now_ns = self._now_ns()
        for analysis, rhythm in zip(self._analyses, rhythms(self._analyses), strict=True):
            from_ns = now_ns - rhythm.grace_ns if self._from_ns is None else self._from_ns
            recorded = self._from_ns is not None
            schedule = Schedule(rhythm, from_ns, self._settle_ns, nothing_before=recorded)
            lane = Lane(analysis, schedule)
            self._lanes.append(lane)
            self._readers.add(lane)
        if self._follows:
            self._following.begin()

    def stop(self) -> None:
        """Judge no more. Windows that are being judged are given up; they are judged at the next start."""
        self._stop.set()
        self._news.set()
        self._executor.close()
        for thread in (self._thread, self._senders_thread):
            if thread.is_alive():
                thread.join(STOP_S_MAX)
        if self._recent:
            self._recent.close()

    def forget(self) -> None:
        """Let go of the rows that are held for analyses; they are read from the store again."""
        if self._recent:
            self._recent.forget()

    # --- what others say ---

    def touched(self, tenant: str, cluster: str, table: Table, columns: Mapping[str, object], rows: int) -> None:
        """Hear of rows that were stored: windows that were judged without them are judged again. Never raises."""
        told = columns.get("rows")
        try:
            if rows:
                too_late = self._readers.hear(table, columns, counted=True)
                self._count(counter("analysis_late", "too_late"), too_late)
            if rows and self._follows and isinstance(told, pa.Table):
                if table is WATERMARK:
                    self.watermarks.take(told, self._now_ns())
                elif self._following.reads(table):
                    times_N = known_times(table, told)
                    with self._lock:
                        self._following.set_back(table, told, times_N, self._now_ns(), self.watermarks.jobs_on)
        except Exception:
            log.exception("rows of %s were missed; windows analysed before they arrived stay as they are", table.name)

    def senders(self) -> list[SenderState]:
        """How far the data of each sender has come, the worst first."""
        return self.watermarks.senders(self._now_ns())

    def late_jobs(self) -> list[Job]:
        """Jobs whose data is late: how they are now is not known yet."""
        now_ns = self._now_ns()
        return [job for job, to_ns in self.watermarks.all(now_ns).items() if now_ns - to_ns > LATE_NS]

    def backfill(self, from_ns: int, to_ns: int, names: Sequence[str] = ()) -> int:
        """Judge the closed windows of a span again, or for the first time. Returns: how many wait for that.

        Windows that turn out to have no rows are passed over, those from before the age at which the rows would have
        been dropped are left out. Errors: UsageError for an empty span or a name that no
        analysis has, BusyError if too many spans wait already.
        """
        if from_ns >= to_ns:
            raise UsageError(f"from_ns must be before to_ns, got {from_ns} and {to_ns}")
        _require_known(names, self._analyses, "analyses")
        with self._lock:
            lanes = [lane for lane in self._lanes if not names or lane.analysis.name in names]
            if self.not_judged and not names and from_ns <= self.not_judged[0] and self.not_judged[1] <= to_ns:
                self.not_judged = None
            try:
                now_ns = self._now_ns()
                return sum(
                    lane.schedule.backfill(max(from_ns, now_ns - kept_ns(lane.analysis)), to_ns) for lane in lanes
                )
            except OverflowError as error:
                raise BusyError(f"{error}; ask again when some are done", 60) from error

    def waiting(self) -> int:
        """How many windows are closed and not judged, or are to be judged again."""
        return sum(state.waiting for state in self.states())

    def states(self) -> list[AnalysisState]:
        """How each analysis does, in the order in which they run."""
        now_ns, ended_ns = self._now_ns(), self._ended()
        with self._lock:
            return [state_of(lane, now_ns, ended_ns, self._follows, self._clock.in_doubt) for lane in self._lanes]

    # --- the thread ---

    def _run(self) -> None:
        """Judge until stopped. Nothing that goes wrong ends it: without this thread nobody would judge any more."""
        resumed_yet, started = self._from_ns is not None, False
        while not self._stop.is_set():
            self._beat_s = self._beat_s if self.judging else time.monotonic()
            try:
                if not started:
                    self._executor.start()
                    started = True
                resumed_yet = resumed_yet or self._resumed()
                self.look_at_clock()
                self._news.clear()
                judged = not self._stop.is_set() and self.step()
                if judged:
                    self._beat_s = time.monotonic()
                elif self._from_ns is None and not self.judging and not self._clock.in_doubt:
                    self.close_unwatched()  # of a recording what lasts at its end lasts
                self._failing = 0
            except Exception as error:
                self._failing += 1
                self._fell(error)
                self._stop.wait(min(RETRY_S_MAX, 0.5 * 2 ** min(self._failing, 10)))
                continue
            if not judged:
                self._news.wait(LOOK_EVERY_S)
        self._store_runs()

    def _store_runs(self) -> None:
        """Store at the end what would be judged again at the next start."""
        with suppress(StoreError):
            self._verdicts.store_runs()

    def _fell(self, error: Exception) -> None:
        """Count and tell what went wrong outside of any window."""
        self._fell_of = f"{type(error).__name__}: {error}"
        if isinstance(error, StoreError | RefusedError):  # a limit that no user asked into is a store that cannot
            self._count(counter("store_failed", "analysis"), 1)
            log.warning("the store does not answer the analyses, which try again: %s", error)
            return
        self._count(counter("background_failed", "runner"), 1)
        log.error("the runner failed and goes on: %s", self._fell_of, exc_info=error)

    def _resumed(self) -> bool:
        """Look for what closed while nobody judged. Returns: whether that is over: done, or failed so often that what
        closes now is judged without it. Errors: StoreError, as nothing can be judged then; what it failed with."""
        try:
            self._resume()
        except StoreError:
            raise
        except Exception as error:
            self._resume_failed += 1
            if self._resume_failed < RESUME_TRIES:
                raise
            self._fell(error)
            log.error("windows that closed before the start are not analysed; run `leadline backfill`")
        return True

    def _resume(self) -> None:
        """Have the windows judged that closed while nobody judged them. Errors: StoreError."""
        before = judged_to_ns(self._store)
        now_ns = self._now_ns()
        gaps = unjudged(self._store, now_ns - self._config.backfill_s_max * S)
        until_ns: dict[str, int] = {}
        self.watermarks.take(newest_watermarks(self._store, now_ns), now_ns, fresh=False)
        waiting = self.watermarks.all(now_ns)
        with self._lock:
            for lane in self._lanes:
                rhythm = lane.schedule.rhythm
                last_ns = before.get(lane.analysis.name)
                if lane.behind is not None and last_ns is not None:
                    for job in waiting:  # what its agents kept meanwhile is still to come
                        lane.behind.hold(job, max(rhythm.begin(last_ns), lane.schedule.oldest_ns(now_ns)))
                _, (from_ns, to_ns), skipped_ns = resumed(rhythm, now_ns, last_ns, self._config.backfill_s_max * S)
                until_ns[lane.analysis.name] = from_ns - UNTOLD_NS
                for begin_ns, end_ns in gaps.get(lane.analysis.name, ()):
                    lane.schedule.backfill(begin_ns, end_ns - rhythm.window_ns)
                if from_ns < to_ns:
                    lane.schedule.backfill(from_ns, to_ns)
                self._count(counter("analysis_late", "not_backfilled"), skipped_ns // rhythm.window_ns)
                if skipped_ns >= rhythm.window_ns:
                    begin_ns, end_ns = self.not_judged or (from_ns, from_ns)
                    self.not_judged = min(begin_ns, from_ns - skipped_ns), max(end_ns, from_ns)
        self._close(until_ns)  # first, for what seems to last is read by every window of those that were missed

    def close_unwatched(self) -> int:
        """Close the spans that no window will tell any more, if it is time to look for them; when nothing is due, so
        that all that was missed has been judged. Returns: how many were closed. Errors: StoreError."""
        now_ns = self._now_ns()
        if self._closed is not None and 0 <= now_ns - self._closed[0] < CLOSE_EVERY_NS:
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

    def _keep_senders(self) -> None:
        """Store how far each sender has come and when it was heard, from which `telemetry` says who is lost.

        In a thread of its own: a judgement may take minutes (kernels that are compiled the first time), and a silence
        of which no state was stored meanwhile was never told.
        """
        while not self._stop.wait(SENDERS_EVERY_NS / S):
            if self._clock.in_doubt:
                continue
            now_ns = self._now_ns()
            try:
                keep_states(self._store, self.watermarks.senders(now_ns), now_ns)
            except StoreError as error:
                self._count(counter("store_failed", "analysis"), 1)
                log.warning("the store does not take how the senders are; this is tried again: %s", error)
            except Exception:
                log.exception("how the senders are was not stored")

    def step(self) -> bool:
        """Store the verdicts of a window that is judged, else load one call that is due, if a worker is free. Returns:
        whether anything was done. Errors: StoreError."""
        if self._clock.in_doubt:
            return False
        now_ns, ended_ns = self._now_ns(), self._ended()
        keep_rows(self._store, CLOCK_FIT, self.watermarks.clock_fits())
        come = self.watermarks.all(now_ns) if self._follows else {}
        if self._follows:
            with self._lock:
                put_off = self._following.put_off(now_ns, come, self._above)
            self._count(counter("analysis_late", "put_off"), put_off)
        due = self._due(now_ns, ended_ns, come)
        flights = {place: lane.flight for place, lane in enumerate(self._lanes) if lane.flight is not None}
        first = {place: min(order_of(each, self._lanes[place].schedule.rhythm, place) for each in found)
                 for place, found in due.items()}  # fmt: skip
        patient_ns = now_ns - TOGETHER_NS if self._follows else -TIME_MAX_NS
        traffic = Traffic(flights, first, self._above, self._below, self._beside, patient_ns)
        over = [each for each in flights.values() if each.answered and traffic.may_store(each)]
        if self._stop.is_set():  # what is answered may be that the workers were stopped
            return False
        if over:
            self._end(self._lane_of(min(over, key=lambda each: each.order)))
            return True
        for_short, for_long = room(flights, self._workers)
        if for_short:
            loading = [each.order for each in flights.values() if not each.loaded]
            orders = loading + self._may_begin(traffic, due)
            orders = [each for each in orders if for_long or self._analyses[each[-1]].window_ns <= SHORT_NS]
            if orders:
                order = min(orders)
                lane = self._lanes[order[-1]]
                if lane.flight is None:
                    self._held_next = order[0] is not Why.HELD
                    self._begin(lane, order, now_ns, ended_ns, come)
                self._load(lane)
                return True
        self._verdicts.store_runs(all_of_them=not flights)
        return False

    def _may_begin(self, traffic: Traffic, due: Mapping[int, Sequence[Due]]) -> list[Order]:
        """The windows that may be begun. If it is the turn of jobs that are behind, the first of theirs; and until it
        may, nothing that would keep it waiting."""
        held = [
            order_of(each, self._lanes[place].schedule.rhythm, place)
            for place, found in due.items()
            for each in found
            if each.why is Why.HELD
        ]
        waiting = [order for order in traffic.due.values() if traffic.may_begin(order)]
        if not (held and self._held_next):
            return waiting
        turn = min(held)
        if traffic.may_take_turn(turn):
            return [turn]
        live = [flight.order for flight in traffic.flights.values() if flight.due.why is Why.LIVE]
        # A live window that is being judged may have to wait for those before it, and the turn would wait for it.
        return [order for order in waiting if (live and order < max(live)) or not traffic.near(turn, order)]

    @property
    def judging(self) -> int:
        """How many windows are being judged."""
        return sum(lane.flight is not None for lane in self._lanes)

    def _due(self, now_ns: int, ended_ns: int | None, come: Mapping[Job, int]) -> dict[int, list[Due]]:
        """The windows that are due, of each analysis the first live, late or asked for one and the first that was held
        back, by its place; those that are being judged left out."""
        found: dict[int, list[Due]] = {}
        with self._lock:
            here = [(place, lane) for place, lane in enumerate(self._lanes) if lane.aside_s <= self._waited_s()]
            for place, lane in here:
                held = self._following.held(lane, now_ns, come)
                if held is not None:
                    found.setdefault(place, []).append(held)
            if not found:
                self._following.go_back(now_ns)
            for place, lane in here:
                due = lane.schedule.next(now_ns, ended_ns)
                waits = (
                    due is not None and due.why is Why.LIVE and self._following.waits(lane, due.end_ns, now_ns, come)
                )
                if due is not None and not waits:
                    found.setdefault(place, []).append(due)
        for place, lane in here:
            if lane.flight is not None and lane.flight.due in found.get(place, ()):
                found[place].remove(lane.flight.due)
        return {place: each for place, each in found.items() if each}

    def _lane_of(self, flight: Flight) -> Lane:
        return self._lanes[flight.order[-1]]

    def _begin(self, lane: Lane, order: Order, now_ns: int, ended_ns: int | None, come: Mapping[Job, int]) -> None:
        """Begin to judge a window."""
        rhythm, (why, closes_ns, _) = lane.schedule.rhythm, order
        due = Due(why, closes_ns - rhythm.grace_ns)
        with self._lock:
            wanted = self._following.parts(lane, due, now_ns, come)
            lane.schedule.begin()
            lane.flight = Flight(due, order, rhythm.window_ns, wanted, now_ns, ended_ns, time.monotonic_ns())

    def _load(self, lane: Lane) -> None:
        """Load the next call of a window that is being judged, and have it run. Errors: StoreError."""
        flight = lane.flight
        assert flight is not None
        with self._trying(lane, flight):
            if flight.calls is None:
                flight.calls = Calls(
                    lane.analysis, flight.due.end_ns, self._rows, self._config.provider,
                    lambda window: flight.wanted(Job(window.tenant, window.cluster, window.job)),
                )  # fmt: skip
            call = flight.calls.load() if flight.calls.left else None
            if call is not None:
                answer = self._executor.submit(call.task)
                flight.running.append((call, answer))
                answer.add_done_callback(lambda _: self._news.set())

    def _end(self, lane: Lane) -> None:
        """Store the verdicts of a window whose calls are answered, and go on behind it. Errors: StoreError."""
        flight = lane.flight
        assert flight is not None
        any_rows = False
        with self._trying(lane, flight):
            any_rows = self._keep(lane, flight)
            lane.store_failed = 0
        if lane.flight is flight:
            self._over(lane, flight, any_rows)

    @contextmanager
    def _trying(self, lane: Lane, flight: Flight) -> Iterator[None]:
        """What goes wrong with a window: if it is the store, it is given up and judged another time (StoreError); if it
        is anything else, the window has failed and is over."""
        try:
            yield
        except RefusedError as error:  # more rows than the store may load at once
            self._failed(lane, str(error))
            self._over(lane, flight, any_rows=True)
        except StoreError:
            lane.flight = None
            lane.store_failed += 1
            if lane.store_failed >= ASIDE_AFTER:
                lane.aside_s = self._waited_s() + RETRY_S_MAX
            raise
        except Exception as error:
            log.exception("%s, window that ends at %d ns", lane.analysis.name, flight.due.end_ns)
            self._failed(lane, f"{type(error).__name__}: {error}; this is a bug of Leadline")
            self._over(lane, flight, any_rows=True)

    def _over(self, lane: Lane, flight: Flight, any_rows: bool) -> None:
        """A window is judged, or nothing comes of it. Errors: StoreError; it is judged another time then."""
        if flight.due.why is Why.HELD or any_rows:
            self._done(lane, flight)
            return
        try:
            self._pass_over(lane, flight)
        except StoreError:
            lane.flight = None
            raise
        except Exception as error:  # where the next row is cannot be asked: window by window it goes on all the same
            self._fell(error)
            self._done(lane, flight)

    def _done(self, lane: Lane, flight: Flight) -> None:
        with self._lock:  # rows that come are told of to the flight, or to what is judged: at no time to neither
            if flight.due.why is not Why.HELD:
                lane.schedule.done(flight.due, flight.now_ns)
            self._following.done(lane, flight, self._now_ns())
            lane.flight = None

    def _give_up(self) -> None:
        """Forget what comes of the windows that are being judged; they are judged anew."""
        for lane in self._lanes:
            lane.flight = None

    # --- this machine's own clock ---

    @property
    def clock_steps(self) -> tuple[ClockStep, ...]:
        """What the clock was set by, the last ones, oldest first."""
        return self._clock.steps

    def look_at_clock(self) -> ClockStep | None:
        """Look whether the clock was set, and go on from where it is now: what was judged ahead of it is to be judged
        when its time comes, and what came while it was wrong is judged again. Errors: StoreError, if a step that it
        found before cannot be stored."""
        step = self._clock.look()
        if step is not None:
            self._count(counter("clock_steps", "server"), 1)
        if step is not None and step.by_ns < 0:
            self.watermarks.clock_stepped(step.at_ns)
            with self._lock:
                self._give_up()
                set_right(self._lanes, step, min(step.wrong_ns + CLOCK_BACK_NS, self._config.backfill_s_max * S))
        rows = self._clock.untold(self._config.provider)
        if rows is not None:
            self._store.append(EVENT, rows)
            self.touched(self._config.provider, rows["cluster"][0].as_py(), EVENT, {"rows": rows}, rows.num_rows)
            self._clock.told()
        return step

    def _pass_over(self, lane: Lane, flight: Flight) -> None:
        """Go on behind a window without rows, at the next one that has some."""
        due, rhythm = flight.due, lane.schedule.rhythm
        following_ns = next_row_ns(lane.analysis, due.end_ns, self._rows)
        with self._lock:
            known_ns = [self._lanes[at].schedule.judged_to_ns for at in self._above[flight.order[-1]]]
            known_ns.append(rhythm.closed(flight.now_ns, flight.ended_ns))
            lane.schedule.empty(due, following_ns, flight.now_ns, min(known_ns))
            self._following.done(lane, flight, self._now_ns())
            lane.flight = None

    def _keep(self, lane: Lane, flight: Flight) -> bool:
        """Keep the verdicts of a window. Returns: whether it had rows. Errors: StoreError."""
        analysis, found = lane.analysis, flight.judged()
        if not found:
            return False
        before = runs_before(self._rows, analysis, flight.due.end_ns)
        before |= self._verdicts.runs_waiting(analysis, flight.due.end_ns)
        revised, error = 0, ""
        self._verdicts.begin_window()
        for each in found:
            judged = as_before(each, before)
            earlier = run_before(judged, before)
            revision = revision_of(analysis, judged, earlier)
            if revision is not None:
                self._verdicts.store(analysis, judged, revision, earlier)
                # Before the run: where the store has kept that and says that it failed, the window is judged once more,
                # says the same, and nobody who has read its earlier verdicts would hear of these.
                self._tell(lane, judged)
                self._verdicts.add_run(analysis, judged, revision)
            revised += bool(revision)
            error = judged.outcome.error or error
            self._count_failure(lane, judged)
        self._verdicts.end_window()
        self._count(counter("analysis_late", "judged_again"), int(flight.due.why is Why.LATE))
        with self._lock:
            lane.windows, lane.revisions = lane.windows + 1, lane.revisions + revised
            lane.failures += bool(error)
            lane.last_error = error
            lane.last_took_s = (time.monotonic_ns() - flight.began_ns) / 1e9
            lane.rows_in += sum(each.rows_in for each in found)
            lane.rows_out += sum(each.outcome.rows for each in found)
        return True

    def _tell(self, lane: Lane, judged: Judged) -> None:
        """Verdicts are rows that others read: who has judged without them judges again. The analysis itself only
        later windows: what it concluded from a window is no news to that one, nor to those before it."""
        for name, rows in judged.outcome.tables.items():
            self._readers.hear(BY_NAME[name], {"rows": rows}, counted=False, own=(lane, judged.window.to_ns))
        if any(rows.num_rows for rows in judged.outcome.tables.values()):
            with self._lock:
                self._following.told(lane, judged.window.to_ns)

    def _count_failure(self, lane: Lane, judged: Judged) -> None:
        state = judged.outcome.state
        if state == DONE:
            return
        if state == TIMEOUT:
            self._count(counter("analysis_failed", "timeout"), 1)
        elif state == CRASHED:
            self._count(counter("analysis_failed", "crashed"), 1)
        else:
            self._count(counter("analysis_failed", "error"), 1)
        window = judged.window
        log.error(
            "analysis %s failed on the window of %s%s that ends at %d ns: %s", lane.analysis.name, window.cluster,
            f", job {window.job}" if window.job else "", window.to_ns, judged.outcome.error,
        )  # fmt: skip

    def _failed(self, lane: Lane, error: str) -> None:
        """A window could not be judged at all."""
        self._count(counter("analysis_failed", "not_loaded"), 1)
        with self._lock:
            lane.windows, lane.failures, lane.last_error = lane.windows + 1, lane.failures + 1, error


def _executor_of(config: RunnerConfig) -> Executor:
    """Where the configuration has calls run."""
    if config.executor == "ray":
        return RayExecutor(config.ray_address, workers=config.calls_max)
    return WorkerProcesses(workers=config.calls_max, nice=config.nice)


def kept_ns(analysis: Analysis) -> int:
    """How long the rows that an analysis reads are kept: before that there is nothing to judge."""
    return max((read.table.keep_hours for read in analysis.reads), default=0) * 3600 * S


def _require_known(names: Sequence[str], analyses: Sequence[Analysis], where: str) -> None:
    known = [each.name for each in analyses]
    for name in names:
        if name not in known:
            raise UsageError(f"{where}: there is no analysis {name!r}; there are: {', '.join(known) or 'none'}")
