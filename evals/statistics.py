"""Shares with their intervals, for scores."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

Z = 1.959963984540054  # of a 95 % interval


@dataclass(frozen=True, slots=True)
class Share:
    """So many of so many, with the 95 % Wilson interval. Without any, nothing is known: 0 to 1."""

    hits: int
    count: int

    @property
    def value(self) -> float | None:
        """The share; None without any."""
        return self.hits / self.count if self.count else None

    @property
    def interval(self) -> tuple[float, float]:
        """Stays within 0 and 1 and holds for few cases and rare misses. Source: Wilson, JASA 22 (1927), 209-212."""
        if not self.count:
            return 0.0, 1.0
        share, n = self.hits / self.count, self.count
        middle = (share + Z * Z / (2 * n)) / (1 + Z * Z / n)
        half = Z / (1 + Z * Z / n) * math.sqrt(share * (1 - share) / n + Z * Z / (4 * n * n))
        return max(0.0, middle - half), min(1.0, middle + half)


def share_of(hits: Sequence[bool]) -> Share:
    """The share of those that are true."""
    return Share(sum(hits), len(hits))


def quantile(values: Sequence[float], share: float) -> float | None:
    """The value that so many of them do not exceed, the nearest one; None without any."""
    if not values:
        return None
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, math.ceil(share * len(ordered)) - 1)] if share > 0 else ordered[0]
