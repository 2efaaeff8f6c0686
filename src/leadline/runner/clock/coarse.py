"""Host clocks that are plainly wrong, told by when their words were heard; a coarse fit for each. Pure.

A word is stamped by the host when it is sent and by us when it is stored, so `told - heard` is the clock's offset minus
the time that the word was under way. That is a few tenths of a second, so this tells minutes from nothing, and never
which of two ranks came first: what collectives say of clocks (`analysis.ledger.clocks`) is finer by far.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from leadline.model.units import S

OFF_NS = 2 * S
"""A clock that differs less is taken as it is: words take up to a second, NTP keeps clocks right to within 0.1 s."""
AGREE_NS = S // 2
"""The last words must agree so far: one that was held up by the network looks like a clock that is behind."""
COARSE = "coarse-clock"  # what their rows are told by
WORDS = 3  # words that must agree
MOVED_NS = S  # an offset is kept until the clock has moved so far: noise shall not move a host's times
BACK_NS = 3000 * S  # a fit holds for an hour (`clocks.FIT_AGE_NS`): the first one also for what was sent before it
AGAIN_NS = 600 * S
BOUND_NS = S


class Clock(NamedTuple):
    """A host's clock."""

    tenant: str
    cluster: str
    host: str
    clock: str


@dataclass(slots=True)
class _Heard:
    off_ns: deque[int] = field(default_factory=lambda: deque(maxlen=WORDS))
    # Where words take long, those that are all held up for as long (a time-out) would agree.
    took_ns: deque[int] = field(default_factory=lambda: deque(maxlen=WORDS))
    known_ns: int = 0  # the offset that its fits say
    fitted_ns: int = 0  # end of the newest fit, 0: it has none


class CoarseClocks:
    """What is known of each clock. Not thread-safe."""

    def __init__(self) -> None:
        self._clocks: dict[Clock, _Heard] = {}
        self._news: list[dict[str, Any]] = []

    def clock_stepped(self) -> None:
        """Our clock was set: what words said of other clocks by the old time is forgotten, unless it was stored."""
        self._news = []
        for one in self._clocks.values():
            one.off_ns.clear()
            one.took_ns.clear()

    def heard(self, clock: Clock, reported_ns: int, heard_ns: int, took_ns: int = 0) -> None:
        """A word of a host came. `took_ns`: how long the word before it took, by the host."""
        one = self._clocks.setdefault(clock, _Heard())
        one.off_ns.append(reported_ns - heard_ns)
        one.took_ns.append(took_ns)
        if len(one.off_ns) < WORDS or max(one.off_ns) - min(one.off_ns) > AGREE_NS or max(one.took_ns) > OFF_NS:
            return
        off_ns = max(one.off_ns)  # the one that was under way for the shortest time
        if abs(off_ns) <= OFF_NS:
            off_ns = 0
        moved = abs(off_ns - one.known_ns) > MOVED_NS
        if moved or (one.known_ns and heard_ns - one.fitted_ns > AGAIN_NS):
            first = not one.fitted_ns
            one.known_ns = off_ns if moved else one.known_ns
            one.fitted_ns = heard_ns
            self._news.append(_fit(clock, one.known_ns, heard_ns - (BACK_NS if first else 0)))

    def offset_ns(self, clock: Clock) -> int:
        """What a clock is ahead of ours; 0 where it is not known to be wrong."""
        one = self._clocks.get(clock)
        return one.known_ns if one is not None else 0

    def fits(self) -> list[dict[str, Any]]:
        """Rows of `clock_fit` that are new."""
        news, self._news = self._news, []
        return news


def less_way(off_ns: int, took_ns: int) -> int:
    """What a word says of a clock, ns: where words take so long, one that comes late makes the clock look behind."""
    return off_ns if off_ns >= 0 else min(0, off_ns + took_ns)


def _fit(clock: Clock, offset_ns: int, end_ns: int) -> dict[str, Any]:
    return {
        "tenant": clock.tenant, "cluster": clock.cluster, "host": clock.host, "clock": clock.clock, "end_ns": end_ns,
        "offset_ns": offset_ns, "rate_ppb": 0.0, "bound_ns": BOUND_NS, "noise_ns": 0.0, "island": 0,
        "state": "fitted", "analysis": COARSE, "version": 1, "revision": 0,
    }  # fmt: skip
