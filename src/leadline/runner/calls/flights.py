"""Windows that are judged at the same time, and which may be: so that verdicts are those of one after another
(of causes on a full server: of what was known in time).

    due ── may_begin ──> loaded, call by call ──> in workers ──> all answered ── may_store ──> verdicts stored

In order (`closing`) each window would see what those before it concluded, and nothing of those after it. Beside each
other two rules keep that, which are those of a processor that executes out of order:

    read after write    a window is loaded when all before it, of analyses whose verdicts it reads, are stored
    write after read    its verdicts are stored when all before it, of analyses that read them, are loaded

Verdicts of causes shall not be as late as the slowest analysis that speaks for them: a live window that closed long ago
(`patient_ns`) does not wait for those whose verdicts it reads `beside`, without waiting, and whose windows are longer.
It takes what there is; the next window has the rest. For the same reason one worker is left to short windows.

Jobs that are behind take turns with what is due, so that they come on where more is due than can be judged: theirs is
when nothing that reads their verdicts, or whose they read, is being judged.

An analysis judges one window at a time, so its own stay in order. Live windows may be judged before they may be stored
(`stalls` of the next window, while `cause` of this one waits for `anomaly`); others are begun only if they might be
stored, so that nothing which is due waits for them but on their own analysis. Each rule waits for windows that are
earlier in one order, so no two wait for each other.

Source: the hazards and their names are those of Tomasulo, "An Efficient Algorithm for Exploiting Multiple Arithmetic
Units" (IBM Journal 11(1), 1967), as told by Hennessy, Patterson, "Computer Architecture", section 3.4. There is no
renaming: the store keeps one state of a row.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

from leadline.model.units import S
from leadline.runner.judge import Call, Calls, Judged
from leadline.runner.watermarks import Job
from leadline.runner.windows import Due, Rhythm, Why, closing
from leadline.runner.worker import Outcome

# Windows of the analyses that an alert waits for (`stalls`, `slowdowns`, `cause`) are no longer. Source: definition.
SHORT_NS = 2 * S

Order = tuple[Why, int, int]  # why, when it closes (ns), place of the analysis: the smaller is judged before


def order_of(due: Due, rhythm: Rhythm, place: int) -> Order:
    """Where a window stands among all that are due."""
    return (*closing(due, rhythm), place)


@dataclass(slots=True)
class Flight:
    """A window that is being judged. `now_ns`, `ended_ns`: event time when that began."""

    due: Due
    order: Order
    window_ns: int
    wanted: Callable[[Job], bool]  # which jobs of it
    now_ns: int
    ended_ns: int | None
    began_ns: int  # a monotonic clock
    calls: Calls | None = None  # None: not looked for yet
    running: list[tuple[Call, Future[Outcome]]] = field(default_factory=list)  # in their order, answered or not
    missed: dict[Job, int] = field(default_factory=dict)  # jobs that rows came of meanwhile, and from where on, ns

    @property
    def loaded(self) -> bool:
        """Whether all that it reads was read."""
        return self.calls is not None and not self.calls.left

    @property
    def busy(self) -> int:
        """Calls that are not answered."""
        return sum(not future.done() for _, future in self.running)

    @property
    def answered(self) -> bool:
        """Whether nothing is left to do but to store what came of it."""
        return self.loaded and not self.busy

    def judged(self) -> list[Judged]:
        """What came of its calls, once all are answered."""
        return [call.judged(future.result()) for call, future in self.running]

    @property
    def following(self) -> Order | None:
        """Where the next live window of the same analysis will stand; None: this is no live one."""
        why, closes_ns, place = self.order
        return (why, closes_ns + self.window_ns, place) if why is Why.LIVE else None


@dataclass(frozen=True, slots=True)
class Traffic:
    """Which of the windows that are due may be begun, and which of those in flight may be stored.

    By place of their analysis: the windows in flight, where the first one that is due stands, and the places of those
    whose verdicts it reads (`above`) and of those who read its own (`below`).
    """

    flights: Mapping[int, Flight]
    due: Mapping[int, Order]
    above: Sequence[Sequence[int]]
    below: Sequence[Sequence[int]]
    beside: Sequence[Sequence[int]]
    patient_ns: int  # windows that closed before then wait no longer for those

    def may_begin(self, order: Order) -> bool:
        """Whether a window that is due may be loaded."""
        why, closes_ns, place = order
        waived = self.beside[place] if closes_ns < self.patient_ns else ()
        awaited = [each for each in self.above[place] if each not in waived]
        if place in self.flights or any(self._before(order, each) for each in awaited):
            return False
        return why is Why.LIVE or not any(self._before(order, each) for each in self.below[place])

    def may_take_turn(self, order: Order) -> bool:
        """Whether jobs that are behind may be judged before what is due, as nothing near them is being judged."""
        return not any(self.near(order, flight.order) for flight in self.flights.values())

    def near(self, order: Order, other: Order) -> bool:
        """Whether two windows are of one analysis, or of two of which one reads the other's verdicts."""
        place = order[-1]
        return other[-1] in (place, *self.above[place], *self.below[place])

    def may_store(self, flight: Flight) -> bool:
        """Whether the verdicts of a window, all of whose calls are answered, may be stored."""
        why, _, place = flight.order
        return why is not Why.LIVE or not any(self._unread(flight.order, each) for each in self.below[place])

    def _before(self, order: Order, place: int) -> bool:
        """Whether an analysis has a window before this one that is not stored."""
        flight, due = self.flights.get(place), self.due.get(place)
        return (flight is not None and flight.order < order) or (due is not None and due < order)

    def _unread(self, order: Order, place: int) -> bool:
        """Whether an analysis has a window before this one that is not loaded."""
        flight, due = self.flights.get(place), self.due.get(place)
        if due is not None and due < order:
            return True
        if flight is None or flight.order > order:
            return False
        return not flight.loaded or (flight.following is not None and flight.following < order)


def room(flights: Mapping[int, Flight], workers: int) -> tuple[bool, bool]:
    """Whether a worker is free for a short window, and for a long one: of several workers one is left to short ones."""
    busy = sum(each.busy for each in flights.values())
    long = sum(each.busy for each in flights.values() if each.window_ns > SHORT_NS)
    return busy < workers, busy < workers and long < max(1, workers - 1)


def readers(above: Sequence[Sequence[int]]) -> list[list[int]]:
    """For each analysis the places of those that read its verdicts."""
    return [[place for place, each in enumerate(above) if at in each] for at in range(len(above))]
