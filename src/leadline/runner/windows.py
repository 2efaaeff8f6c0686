"""Which window of an analysis is to be judged next. Pure: the caller brings the time and does the judging.

    closed windows ── LIVE ──┐
    windows that late rows ──┼──> next(now) ──> judged or found empty ──> done
    fell into ────── LATE ───┤
    asked for ── BACKFILL ───┘        live before late before back-fill; oldest first

Windows are aligned: window k covers [k * window_ns, (k + 1) * window_ns), and is named by its end. It is closed when
`now - grace` has reached its end: by event time, so a replay closes the windows that a live run closed.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

from leadline.model.units import S

# A window that late rows fell into is judged again after this: rows that are late seldom come alone. Each time that it
# was judged again doubles the wait up to the larger, so that a trickle of late rows costs each window about one
# judgement a minute, not one every two seconds; the last of them is never missed.
DEBOUNCE_NS = 2 * S
DEBOUNCE_NS_MAX = 64 * S
# Rows are told when they are stored, however long that took. A replica of a store of several servers may show them a
# little later: a window that was loaded within this of rows being told may have missed them and is judged again; if
# nothing changed that makes no new revision.
SETTLE_NS = S
TIME_MAX_NS = 2**63 - 1


class Why(IntEnum):
    """Why a window is judged; the smaller goes first."""

    LIVE = 0
    HELD = 1  # of jobs whose data came later than that of others (`behind`)
    LATE = 2
    BACKFILL = 3


@dataclass(frozen=True, slots=True, order=True)
class Due:
    """A window that is to be judged."""

    why: Why
    end_ns: int


@dataclass(frozen=True, slots=True)
class Rhythm:
    """The times of an analysis that windows depend on, ns."""

    window_ns: int
    grace_ns: int
    late_ns: int

    def begin(self, time_ns: int) -> int:
        """Begin of the window that a time lies in."""
        return time_ns // self.window_ns * self.window_ns

    def up(self, time_ns: int) -> int:
        """The first end of a window that is not before a time."""
        return -(-time_ns // self.window_ns) * self.window_ns

    def closed(self, now_ns: int, ended_ns: int | None) -> int:
        """End of the newest closed window. `ended_ns`: nothing comes any more, and rows reached up to there."""
        if ended_ns is not None:
            # A window whose end is no time any more cannot be stored.
            return min(self.up(ended_ns), self.begin(TIME_MAX_NS))
        return self.begin(now_ns - self.grace_ns)


def closing(due: Due, rhythm: Rhythm) -> tuple[Why, int]:
    """The order in which the windows of several analyses are judged: as they close, whatever their length. Who sees
    what then is the same whether they are judged as time passes or all at once."""
    return due.why, due.end_ns + rhythm.grace_ns


class Schedule:
    """The windows of one analysis: judged, closed, touched by late rows, asked for. Not thread-safe.

    Bounded: windows with late rows by `late_ns / window_ns`, spans to back-fill by `SPANS_MAX`.
    """

    SPANS_MAX = 100

    def __init__(
        self, rhythm: Rhythm, live_from_ns: int, settle_ns: int = SETTLE_NS, *, nothing_before: bool = False
    ) -> None:
        """Windows from the one that `live_from_ns` lies in are judged as they close; earlier ones if they are asked
        for or rows come late, or never (`nothing_before`: a recording begins there)."""
        self.rhythm = rhythm
        self.judged_to_ns = rhythm.begin(live_from_ns)
        self._floor_ns = self.judged_to_ns if nothing_before else -TIME_MAX_NS
        self._settle_ns = settle_ns
        self._heard: dict[int, int] = {}  # window -> when rows of it were told last, while that may matter
        self._late: dict[int, int] = {}  # window -> when it may be judged again
        self._again: dict[int, int] = {}  # window -> how long it waited the last time, ns
        # To back-fill, oldest first asked for: (end of the next window, end of the last).
        self._spans: list[tuple[int, int]] = []
        self._meanwhile: dict[int, int] | None = None  # what `_late` will have of rows told since a window was begun

    # --- what happens ---

    def oldest_ns(self, now_ns: int) -> int:
        """Begin of the oldest window that is judged again if rows of it come now (`late_ns`)."""
        return max(self.rhythm.up(now_ns - self.rhythm.late_ns) - self.rhythm.window_ns, self._floor_ns)

    def touched(self, first_ns: int, last_ns: int, now_ns: int) -> None:
        """Rows came that windows covering any time in [first_ns, last_ns] read; of these, those that are not too old
        are judged again if they were judged without the rows."""
        rhythm = self.rhythm
        oldest = self.oldest_ns(now_ns) + rhythm.window_ns
        first = rhythm.begin(first_ns) + rhythm.window_ns
        # A window that closes only after the rows have reached the store is judged with them anyway.
        newest = max(self.judged_to_ns, rhythm.closed(now_ns + self._settle_ns, None))
        end_ns = max(first, oldest)
        while end_ns <= min(rhythm.begin(last_ns) + rhythm.window_ns, newest):
            self._heard[end_ns] = now_ns
            due_ns = now_ns + self._debounce(end_ns)
            if self._meanwhile is not None:
                self._meanwhile[end_ns] = min(self._meanwhile.get(end_ns, TIME_MAX_NS), due_ns)
            if end_ns <= self.judged_to_ns and not self.is_asked(end_ns):  # what is still to come reads them
                # Not later than this: a clock that was set back must not make it wait for the old time.
                self._late[end_ns] = min(self._late.get(end_ns, TIME_MAX_NS), due_ns)
            end_ns += rhythm.window_ns

    def set_back(self, from_ns: int, now_ns: int) -> None:
        """What windows from this time on read has changed as a whole: they are judged again in order, as if they had
        just closed. Not farther back than late rows change windows."""
        self.judged_to_ns = min(self.judged_to_ns, max(self.rhythm.begin(from_ns), self.oldest_ns(now_ns)))

    def clock_stepped(self, now_ns: int) -> None:
        """The clock was set: nothing that was judged, heard of or put off lies ahead of it any more."""
        self.judged_to_ns = min(self.judged_to_ns, self.rhythm.closed(now_ns, None))
        self._meanwhile = None
        to_ns, latest_ns = self.judged_to_ns, now_ns + DEBOUNCE_NS_MAX
        self._heard = {end_ns: min(reported_ns, now_ns) for end_ns, reported_ns in self._heard.items()}
        self._late = {end_ns: min(due_ns, latest_ns) for end_ns, due_ns in self._late.items() if end_ns <= to_ns}
        self._again = {end_ns: wait_ns for end_ns, wait_ns in self._again.items() if end_ns <= to_ns}
        self._spans = [(first, min(last, to_ns)) for first, last in self._spans if first <= to_ns]

    def backfill(self, from_ns: int, to_ns: int) -> int:
        """Judge the windows again that lie in [from_ns, to_ns), as far as they were closed. Returns: how many.

        Errors: OverflowError if too many spans wait already.
        """
        rhythm = self.rhythm
        first = rhythm.begin(max(from_ns, self._floor_ns)) + rhythm.window_ns
        last = min(rhythm.up(to_ns), self.judged_to_ns)
        if first > last:
            return 0
        self._ask(first, last)
        return (last - first) // rhythm.window_ns + 1

    def put_off(self, from_ns: int, to_ns: int) -> int:
        """More closed than could be judged: windows from `from_ns` on that end by `to_ns` are judged when there is
        time, later ones as they close. Returns: how many were put off."""
        rhythm = self.rhythm
        first, last = rhythm.begin(max(from_ns, self._floor_ns)) + rhythm.window_ns, rhythm.begin(to_ns)
        if first > last:
            return 0
        if len(self._spans) >= self.SPANS_MAX:  # what was judged in between is judged again
            first = min(first, self._spans.pop()[0])
        self._ask(first, last)
        self.judged_to_ns = max(self.judged_to_ns, last)
        return (last - first) // rhythm.window_ns + 1

    def is_asked(self, end_ns: int) -> bool:
        """Whether a window is still to be judged as one of the past."""
        return any(first <= end_ns <= last for first, last in self._spans)

    @property
    def spans(self) -> list[tuple[int, int]]:
        """The past that is still to be judged: (begin, end), ns."""
        return [(first - self.rhythm.window_ns, last) for first, last in self._spans]

    @property
    def asked(self) -> int:
        """How many windows of the past are to be judged when there is time."""
        return sum((last - first) // self.rhythm.window_ns + 1 for first, last in self._spans)

    # --- what is next ---

    def next(self, now_ns: int, ended_ns: int | None = None) -> Due | None:
        """The window to judge now, or None."""
        if self.judged_to_ns + self.rhythm.window_ns <= self.rhythm.closed(now_ns, ended_ns):
            return Due(Why.LIVE, self.judged_to_ns + self.rhythm.window_ns)
        late = min((end for end, due in self._late.items() if due <= now_ns or ended_ns is not None), default=None)
        if late is not None:
            return Due(Why.LATE, late)
        return Due(Why.BACKFILL, self._spans[0][0]) if self._spans else None

    def begin(self) -> None:
        """From here on a window is loaded and judged, beside whatever is told: rows that come meanwhile may be in it
        or not. The one before it is over, or was given up and is still to be judged."""
        self._meanwhile = {}

    def done(self, due: Due, began_ns: int) -> None:
        """A window was judged or found empty, from what was stored when that began."""
        if due.why is Why.LIVE:
            self.judged_to_ns = max(self.judged_to_ns, due.end_ns)
        elif due.why is Why.BACKFILL and self._spans and self._spans[0][0] == due.end_ns:
            self._to_backfill(due.end_ns + self.rhythm.window_ns)
        self._late.pop(due.end_ns, None)
        if due.why is Why.LATE:
            self._again[due.end_ns] = self._debounce(due.end_ns)
            oldest_ns = self.oldest_ns(began_ns)  # nothing touches older windows any more
            self._again = {end_ns: wait_ns for end_ns, wait_ns in self._again.items() if end_ns > oldest_ns}
        self._settled(due.end_ns, began_ns)
        for end_ns, due_ns in (self._meanwhile or {}).items():
            if end_ns <= self.judged_to_ns:
                self._late[end_ns] = min(self._late.get(end_ns, TIME_MAX_NS), due_ns)
        self._meanwhile = None

    def empty(self, due: Due, next_row_ns: int | None, began_ns: int, known_to_ns: int) -> None:
        """A window was found without rows, and none come before `next_row_ns` (None: ever): pass over those windows.

        `known_to_ns`: no farther than this, for what comes later was not known when that was looked up.
        """
        reach_ns = TIME_MAX_NS if next_row_ns is None else next_row_ns
        reach_ns = self.rhythm.begin(min(reach_ns, known_to_ns))
        if due.why is Why.LIVE:
            self.judged_to_ns = max(self.judged_to_ns, due.end_ns, reach_ns)
            for end_ns in [end for end in self._heard if end <= self.judged_to_ns]:
                self._settled(end_ns, began_ns)
        elif due.why is Why.BACKFILL:
            self._to_backfill(max(due.end_ns, reach_ns) + self.rhythm.window_ns)
        self.done(due, began_ns)

    def waiting(self, now_ns: int, ended_ns: int | None = None) -> int:
        """How many windows are to be judged now or soon."""
        window_ns = self.rhythm.window_ns
        live = max(0, self.rhythm.closed(now_ns, ended_ns) - self.judged_to_ns) // window_ns
        return live + len(self._late) + self.asked

    def _ask(self, first: int, last: int) -> None:
        """Errors: OverflowError if too many spans wait already."""
        window_ns = self.rhythm.window_ns
        for at, (begin, end) in enumerate(self._spans):
            if begin <= first <= end + window_ns:  # one that goes on where another ends is no further one
                self._spans[at] = begin, max(end, last)
                return
        if len(self._spans) >= self.SPANS_MAX:
            raise OverflowError(f"{self.SPANS_MAX} time spans wait to be analysed again")
        self._spans.append((first, last))

    def _debounce(self, end_ns: int) -> int:
        """How long a window waits for more late rows, ns: twice as long as the last time."""
        return min(2 * self._again[end_ns], DEBOUNCE_NS_MAX) if end_ns in self._again else DEBOUNCE_NS

    def _to_backfill(self, next_end_ns: int) -> None:
        """Go on with the first span from this window; a span that is over is let go."""
        _, last = self._spans[0]
        self._spans[:1] = [(next_end_ns, last)] if next_end_ns <= last else []

    def _settled(self, end_ns: int, began_ns: int) -> None:
        """Judge a window again if rows of it were told so shortly before that they may not have been stored."""
        reported_ns = self._heard.get(end_ns)
        if reported_ns is None:
            return
        if reported_ns + self._settle_ns > began_ns:
            self._late.setdefault(end_ns, reported_ns + self._settle_ns)
        elif end_ns not in self._late:
            del self._heard[end_ns]


def resumed(
    rhythm: Rhythm, now_ns: int, judged_to_ns: int | None, backfill_ns: int
) -> tuple[int, tuple[int, int], int]:
    """Where to go on after a start, when windows up to `judged_to_ns` were judged before (None: none were).

    Returns: (live from, span to back-fill, ns that are too old and not back-filled unless that is asked for).
    """
    live_ns = rhythm.begin(now_ns - rhythm.grace_ns)
    oldest_ns = rhythm.begin(now_ns - rhythm.grace_ns - backfill_ns)
    if judged_to_ns is None:
        return live_ns, (oldest_ns, live_ns), 0
    from_ns = min(max(judged_to_ns, oldest_ns), live_ns)
    return live_ns, (from_ns, live_ns), max(0, oldest_ns - judged_to_ns)
