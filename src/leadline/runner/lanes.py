"""One analysis while the runner runs, and how it does; and whether the runner itself lives."""

from __future__ import annotations

from dataclasses import dataclass, field

from leadline.analysis import Analysis
from leadline.model.units import S
from leadline.runner.arrivals import Lateness
from leadline.runner.behind import Behind
from leadline.runner.calls.flights import Flight
from leadline.runner.windows import Schedule, Why

# A runner that neither ends a window nor looks for one for so long makes no progress: twice what one query may take by
# default (store.load_seconds_max, 300 s), as a window is loaded by several.
STUCK_S = 600.0
FAILING_MAX = 5  # failures in a row, 15 s and more of waits between them: whatever it is, it does not pass by itself
BEHIND_WINDOWS = 3


@dataclass(frozen=True, slots=True)
class AnalysisState:
    """How one analysis does. `state`: ok, behind, failed (its last window), idle (nothing analysed yet), clock (the
    clock of this machine was set, and nothing is judged until that is settled)."""

    name: str
    version: int
    doc: str
    state: str
    judged_to_ns: int | None  # windows up to here are judged, or have no rows, but for those of the past that wait
    lag_s: float | None  # how long ago that was; less than 0: it lies ahead of the clock, which was set back
    windows: int  # judged since the start
    failures: int
    revisions: int  # verdicts that late rows changed
    late_rows: int  # rows that came after their window was judged
    waiting: int  # windows
    past: int  # of which those of the past, that are judged when there is time
    last_error: str  # of the last window, empty if that was judged well
    last_took_s: float | None
    rows_in: int
    rows_out: int


@dataclass(frozen=True, slots=True)
class Life:
    """Whether the thread of the runner lives and comes on."""

    runs: bool  # it is meant to: it was started, was not stopped, and there are analyses
    alive: bool
    quiet_s: float  # since it last did anything
    failing: int  # attempts in a row that failed
    last_error: str

    @property
    def well(self) -> bool:
        """Whether verdicts can be expected."""
        return not self.runs or (self.alive and self.quiet_s < STUCK_S and self.failing < FAILING_MAX)


@dataclass(slots=True)
class Lane:
    """One analysis while the runner runs."""

    analysis: Analysis
    schedule: Schedule
    fed_by: list[Lane] = field(default_factory=list)  # that judge jobs, and whose verdicts it reads without waiting
    behind: Behind | None = None  # of one that judges jobs
    # Where it reads samples and follows live data: of what senders hold back; and of steps and calls, which have the
    # time at which they began and are told when they are over. Events come as they happen.
    held_back: Lateness | None = None
    over_later: Lateness | None = None
    flight: Flight | None = None  # the window that is being judged
    back_ns: int | None = None  # from here on it is judged again: jobs that were behind show symptoms there
    back_after_ns: int = 0  # not before
    store_failed: int = 0  # times in a row that the store did not answer it
    aside_s: float = 0.0  # monotonic; not judged before
    windows: int = 0
    failures: int = 0
    revisions: int = 0
    late_rows: int = 0
    last_error: str = ""
    last_took_s: float | None = None
    rows_in: int = 0
    rows_out: int = 0

    @property
    def read_to_ns(self) -> int:
        """Up to here windows of all jobs are judged, or being judged from rows that were read."""
        flight, judged_to_ns = self.flight, self.schedule.judged_to_ns
        live = flight is not None and flight.due.why is Why.LIVE
        return max(judged_to_ns, flight.due.end_ns) if flight is not None and live else judged_to_ns


def state_of(lane: Lane, now_ns: int, ended_ns: int | None, follows: bool, in_doubt: bool) -> AnalysisState:
    """How an analysis does at a time. `follows`: live data, no recording; `in_doubt`: our clock was just set."""
    schedule, rhythm = lane.schedule, lane.schedule.rhythm
    lag_ns = now_ns - schedule.judged_to_ns
    in_doubt = follows and (lag_ns < 0 or in_doubt)
    if not follows:  # at its end all of a recording is judged, though its time stands at the last row
        lag_ns = max(0, lag_ns)
    behind = lag_ns > BEHIND_WINDOWS * rhythm.window_ns + rhythm.grace_ns
    state = "clock" if in_doubt else "behind" if behind else "ok" if lane.windows else "idle"
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
        past=schedule.asked,
        last_error=lane.last_error,
        last_took_s=lane.last_took_s,
        rows_in=lane.rows_in,
        rows_out=lane.rows_out,
    )
