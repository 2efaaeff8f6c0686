"""How tight memory is. Pure.

held <  85 % of the budget    easy    what is kept for speed is kept
held >= 85 %                  tight   caches are let go, allocators give back what they keep
held >= 100 %                 full    also: no new bodies, no new queries
"""

from __future__ import annotations

from enum import IntEnum

TIGHT_SHARE = 0.85  # a second of 1,000,000 samples, a merge and a query together are 150 MB of the least budget
# Less is wanted to come out of a state than to fall into it, so that it does not change with every batch.
CALM_SHARE = 0.05


class Pressure(IntEnum):
    """How tight memory is; the larger, the tighter."""

    EASY = 0
    TIGHT = 1
    FULL = 2

    @property
    def word(self) -> str:
        """As people and counters read it."""
        return ("easy", "tight", "full")[self]


def pressure(held_bytes: int, bytes_max: int, before: Pressure) -> Pressure:
    """How tight memory is with so much held of a budget, after it was `before`."""
    calm = CALM_SHARE * bytes_max
    full = bytes_max - (calm if before is Pressure.FULL else 0)
    tight = TIGHT_SHARE * bytes_max - (calm if before is not Pressure.EASY else 0)
    return Pressure.FULL if held_bytes >= full else Pressure.TIGHT if held_bytes >= tight else Pressure.EASY
