"""Whether an answer ends an item, and when to try again. Pure: time and chance are arguments.

2xx                      it is stored: take it off
400 404 405 413 415 422  the server will never take it: take it off, count it, keep the server's words
all else, or no answer   try again, after a wait that doubles and is spread by chance
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FIRST_WAIT_S = 0.25
POISON = frozenset({400, 404, 405, 406, 411, 413, 414, 415, 422, 431})


class Verdict(StrEnum):
    """What becomes of the item."""

    STORED = "stored"
    POISON = "poison"
    AGAIN = "again"


@dataclass(frozen=True, slots=True)
class Outcome:
    """What came of one try. `status` 0: no answer; `words` then say why, else what the server said."""

    status: int
    words: str = ""
    retry_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Delivery:
    """How delivery goes. `failures` in a row; `wait_s` before the next try; `words` of the last failure."""

    failures: int = 0
    wait_s: float = 0.0
    words: str = ""

    @property
    def health(self) -> str:
        """`ok`, or `retrying`: the last try failed."""
        return "retrying" if self.failures else "ok"


def judge(before: Delivery, outcome: Outcome, wait_s_max: float, chance: float) -> tuple[Delivery, Verdict]:
    """The state after a try, and what becomes of the item.

    Inputs: `chance` from 0 to 1 spreads the waits of many agents over half to all of the wait, so that a server that
    comes back is not met by all of them at once. A `Retry-After` of the server is kept, up to `wait_s_max`.
    """
    if 200 <= outcome.status < 300:
        return Delivery(), Verdict.STORED
    if outcome.status in POISON:
        return Delivery(words=outcome.words), Verdict.POISON
    failures = before.failures + 1
    wait_s = min(wait_s_max, FIRST_WAIT_S * 2 ** min(failures - 1, 20))
    wait_s = max(wait_s * (0.5 + chance / 2), min(outcome.retry_after_s, wait_s_max))
    return Delivery(failures, wait_s, outcome.words), Verdict.AGAIN
