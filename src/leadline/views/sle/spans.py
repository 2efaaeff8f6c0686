"""Which rows of `sle` speak for a span of time: hours where they are summed and lie wholly within, minutes elsewhere.

    from                                                     end: newest minute that was judged
     |--- minutes ---|---- hour ----|---- hour ----|-- minutes --|
                     summed by `sle-hours`          hours not summed yet

A month is 720 hours and the minutes of two, however many entities there are; and every second counts once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

MINUTE_NS = 60 * 10**9
HOUR_NS = 3600 * 10**9
SPANS_S = {"5m": 300, "1h": 3600, "24h": 86_400, "30d": 30 * 86_400}


@dataclass(frozen=True, slots=True)
class Sources:
    """The rows of several spans that end together: `end_ns` the end, `from_by_name` their begins, `summed` ends of the
    hours that have rows of their own, in order."""

    end_ns: int
    from_by_name: dict[str, int]
    summed: tuple[int, ...]

    @property
    def first_ns(self) -> int:
        """Where the longest span begins."""
        return min(self.from_by_name.values())

    def counts(self, name: str) -> str:
        """SQL: whether a row that `minutes` or `hours` chose counts for the span of that name."""
        from_ns = self.from_by_name[name]
        hour = f"(intDiv(end_ns + {HOUR_NS - 1}, {HOUR_NS}) * {HOUR_NS})"
        summed = [end_ns for end_ns in self.summed if end_ns - HOUR_NS >= from_ns]
        apart = f" AND {hour} NOT IN ({_listed(summed)})" if summed else ""
        return (
            f"((window_ns = {HOUR_NS} AND end_ns >= {from_ns + HOUR_NS})"
            f" OR (window_ns = {MINUTE_NS} AND end_ns > {from_ns}{apart}))"
        )

    def minutes(self) -> str:
        """SQL: the rows on minutes that any span needs. Ranges, so that the engine passes over what lies between."""
        needed: set[int] = set()
        for from_ns in self.from_by_name.values():
            whole = {end_ns for end_ns in self.summed if end_ns - HOUR_NS >= from_ns}
            needed |= set(range(_hour(from_ns + 1), _hour(self.end_ns) + 1, HOUR_NS)) - whole
        ranges = " OR ".join(
            f"(end_ns > {max(low, self.first_ns)} AND end_ns <= {min(high, self.end_ns)})"
            for low, high in _merged(sorted(needed))
        )
        return f"window_ns = {MINUTE_NS} AND ({ranges or '0'})"

    def hours(self) -> str:
        """SQL: the rows on hours that any span needs."""
        return f"window_ns = {HOUR_NS} AND end_ns >= {self.first_ns + HOUR_NS} AND end_ns <= {self.end_ns}"


def sources(end_ns: int, names: Iterable[str], summed: Sequence[int]) -> Sources:
    """The rows of the named spans that end at `end_ns`; `summed`: ends of hours that were summed, ns."""
    begins = {name: end_ns - SPANS_S[name] * 10**9 for name in names}
    return Sources(end_ns, begins, tuple(sorted(summed)))


def _hour(time_ns: int) -> int:
    """End of the hour that a window which ends then is of."""
    return -(-time_ns // HOUR_NS) * HOUR_NS


def _merged(ends: Sequence[int]) -> list[tuple[int, int]]:
    """Hours, by their ends in order, as spans (after, up to) without gaps."""
    found: list[tuple[int, int]] = []
    for end_ns in ends:
        if found and found[-1][1] == end_ns - HOUR_NS:
            found[-1] = (found[-1][0], end_ns)
        else:
            found.append((end_ns - HOUR_NS, end_ns))
    return found


def _listed(ends: Sequence[int]) -> str:
    return ", ".join(str(end_ns) for end_ns in ends)
