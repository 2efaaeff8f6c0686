"""Parts that run for as long as the server does: one that ends, however it ends, is counted and begun again.

    keep(counter, run) ──> run() ──ended or raised──> count, log, wait 1 s, 2 s ... 60 s ──> run() ...
    step(counter, do)  ──> do() in a thread ──raised──> count, log; the next round does it again

The server takes telemetry in whether or not it can look after itself for a while. Only what cannot start ends it,
before it is ready. Source of the shape: "let it crash" under a supervisor (Armstrong, "Making reliable distributed
systems in the presence of software errors", 2003, section 4), here within the process, since its other parts are fine.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass

from leadline.model.counters import Counter
from leadline.model.errors import LeadlineError

log = logging.getLogger(__name__)

Count = Callable[[Counter, int], None]

FIRST_WAIT_S = 1.0  # a part that failed once is back within this
WAIT_S_MAX = (
    60.0  # and one that always fails costs one attempt a minute, so that it is back soon after its cause is gone
)
RECENT_S = 600.0  # a failure that long ago is history: the same age as the errors of senders in `doctor`


@dataclass(frozen=True, slots=True)
class PartState:
    """How one background part does. `waiting`: it failed and is not running now."""

    name: str
    failures: int
    last_error: str
    failed_s: float  # since the last failure
    waiting: bool


@dataclass(slots=True)
class _Part:
    failures: int = 0
    last_error: str = ""
    failed_at_s: float = 0.0
    waiting: bool = False


class Background:
    """The background parts of a server, by the reason of the counter that each fails under. Used on one event loop;
    `states` by any thread."""

    def __init__(self, count: Count, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._count, self._clock_s = count, clock_s
        self._parts: dict[str, _Part] = {}

    async def keep(
        self, counted: Counter, run: Callable[[], Awaitable[None]], first_wait_s: float = FIRST_WAIT_S
    ) -> None:
        """Run a part until cancelled. It is meant never to end; where it does, it runs again after a wait that doubles
        up to WAIT_S_MAX, and is short again once it ran for longer than that."""
        wait_s = first_wait_s
        while True:
            began_s = self._clock_s()
            try:
                await run()
                error: Exception = RuntimeError("it ended by itself")
            except Exception as raised:
                error = raised
            if self._clock_s() - began_s > WAIT_S_MAX:
                wait_s = first_wait_s
            part = self._failed(counted, error, f"begins again in {wait_s:g} s")
            part.waiting = True
            await asyncio.sleep(wait_s)
            part.waiting = False
            wait_s = min(2 * wait_s, WAIT_S_MAX)

    async def step(self, counted: Counter, do: Callable[[], object]) -> bool:
        """Do one thing in a thread. Returns: whether it was done; what it raised is counted and told."""
        part = self._parts.setdefault(counted.reason, _Part())
        try:
            await asyncio.get_running_loop().run_in_executor(None, do)
        except Exception as error:
            part = self._failed(counted, error, "is tried again")
            part.waiting = True
            return False
        part.waiting = False
        return True

    def states(self) -> list[PartState]:
        """How each part does that failed or was seen so far."""
        now_s = self._clock_s()
        return [
            PartState(name, part.failures, part.last_error, now_s - part.failed_at_s, part.waiting)
            for name, part in list(self._parts.items())
        ]

    def _failed(self, counted: Counter, error: Exception, then: str) -> _Part:
        part = self._parts.setdefault(counted.reason, _Part())
        part.failures += 1
        part.last_error, part.failed_at_s = f"{type(error).__name__}: {error}", self._clock_s()
        self._count(counted, 1)
        # What Leadline raises on purpose says itself what is wrong; of anything else the place matters.
        trace = None if isinstance(error, LeadlineError) else error
        log.error("background part %s failed and %s: %s", counted.reason, then, part.last_error, exc_info=trace)
        return part


async def in_order(steps: Sequence[tuple[str, Callable[[], object]]]) -> list[Exception]:
    """Stop parts one after the other, each in a thread: what one raises is logged, and the next is stopped too.

    Returns: what was raised.
    """
    raised: list[Exception] = []
    for name, stop in steps:
        try:
            await asyncio.get_running_loop().run_in_executor(None, stop)
        except Exception as error:
            log.exception("stopping %s failed; the others are stopped all the same", name)
            raised.append(error)
    return raised


def findings(states: Sequence[PartState]) -> Iterator[dict[str, str]]:
    """What is wrong with background parts, for `leadline doctor`."""
    for each in states:
        if each.waiting:
            yield {
                "state": "critical",
                "text": f"background part {each.name} does not run: {each.last_error} ({each.failures} failures)",
                "do": "It is begun again by itself; if this stays, read the server's log and report it.",
            }
        elif each.failures and each.failed_s < RECENT_S:
            yield {
                "state": "warning",
                "text": f"background part {each.name} failed {each.failed_s:.0f} s ago, and runs again: "
                f"{each.last_error}",
                "do": "Read the server's log; report it where the error is not about the machine.",
            }
