"""The clock of a peer against ours from the probes of one edge and window, in plain Python. Pure.

The same method as native/prober/fit.c, whose head has the picture and the sources; there a fit takes microseconds, here
milliseconds. Times are int64 ns; floats are only ever of what is left after a base of the window was subtracted.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

RATE_MAX = 1e-3  # five times the drift that production systems allow for
POINTS_MIN = 30
CORNERS_MIN = 3
STEPS = 12
ROUNDING_NS = 1e-3  # of floats; stamps are whole ns
AT_END = 8  # from the density of points to the error at the window's end; fit.c says how it was found
_GOLDEN = (math.sqrt(5) - 1) / 2
_NEAR_MIN = 4

Point = tuple[float, float]  # (time, difference), less their bases


class Fitted(NamedTuple):
    """The fields of struct fit. `state` as in lines.STATES; but for "no-overlap" there is a line."""

    state: str
    upper_corners: int
    lower_corners: int
    offset_ns: int = 0
    rate_ppb: float = 0.0
    bound_ns: float = math.inf
    width_ns: float = -math.inf
    noise_ns: float = math.inf


def fit_edge(
    upper: Sequence[tuple[int, int]], lower: Sequence[tuple[int, int]], end_ns: int, window_ns: int, soft: float
) -> Fitted:
    """Fit one window.

    Inputs: points (t, d) in ascending order of t, ns: t on our clock, d theirs less ours; `upper` from probes of ours,
    `lower` from theirs. `soft`: share of points of each direction that the margin may leave out.
    """
    if not upper or not lower:
        return Fitted("few-points", 0, 0)
    middle, base = end_ns - window_ns // 2, upper[0][1]
    above, below = ([(float(t - middle), float(d - base)) for t, d in points] for points in (upper, lower))
    roof, floor = _hull(above, 1), _hull(below, -1)
    corners = len(roof), len(floor)
    strip = _widest(roof, floor)
    if strip is None:
        return Fitted("no-overlap", *corners)
    hard, width, least, greatest = strip
    skips = [min(int(soft * len(points)), len(points) - 1) for points in (above, below)]
    sides = ((above, 1, skips[0]), (below, -1, skips[1]))

    def edges_at(slope: float, more: Sequence[int] = (0, 0)) -> tuple[float, float]:
        found = (
            sign * _kth(points, slope, sign, min(skip + extra, len(points) - 1))
            for (points, sign, skip), extra in zip(sides, more, strict=True)
        )
        return next(found), next(found)

    def soft_width(slope: float) -> float:
        high, low = edges_at(slope)
        return (high - low) / 2

    gap = sum(_kth(points, hard, sign, skip) - _kth(points, hard, sign, 0) for points, sign, skip in sides)
    half_span = max(abs(t) for points in (above, below) for t in (points[0][0], points[-1][0]))
    slope = _refine(soft_width, hard, gap / half_span) if gap > 0 < half_span else hard
    high, low = edges_at(slope)
    more = [_NEAR_MIN + len(points) // 50 for points in (above, below)]
    high_past, low_past = edges_at(slope, more)
    spreads = [
        (past - at) / max(1, min(extra, len(points) - 1 - skip)) * math.sqrt(1 + skip)
        for past, at, extra, (points, _, skip) in zip((high_past, -low_past), (high, -low), more, sides, strict=True)
    ]
    to_end = float(end_ns - middle)
    offset = round((high + low) / 2 + slope * to_end)
    highest = min(d + greatest * (to_end - t) for t, d in roof)
    lowest = max(d + least * (to_end - t) for t, d in floor)
    return Fitted(
        _state(width, len(above), len(below), roof, floor, window_ns),
        *corners,
        base + offset,
        slope * 1e9,
        math.inf if width < -ROUNDING_NS else max(highest - offset, offset - lowest),
        width,
        AT_END * math.hypot(*spreads) / 2,
    )


def _state(width: float, uppers: int, lowers: int, roof: list[Point], floor: list[Point], window_ns: int) -> str:
    if width < -ROUNDING_NS:
        return "torn"
    if min(uppers, lowers) < POINTS_MIN:
        return "few-points"
    spans = all(len(hull) >= CORNERS_MIN and hull[-1][0] - hull[0][0] >= window_ns / 2 for hull in (roof, floor))
    return "valid" if spans else "few-corners"


def _hull(points: Sequence[Point], sign: int) -> list[Point]:
    """The side that faces the strip: below for sign 1, above for -1."""
    hull: list[Point] = []
    for t, d in points:
        if hull and hull[-1][0] == t:
            if sign * (hull[-1][1] - d) <= 0:
                continue
            hull.pop()
        while len(hull) >= 2 and sign * _cross(hull[-2], hull[-1], (t, d)) <= 0:
            hull.pop()
        hull.append((t, d))
    return hull


def _cross(a: Point, b: Point, c: Point) -> float:
    return (b[0] - a[0]) * (c[1] - a[1]) - (c[0] - a[0]) * (b[1] - a[1])


def _slopes(hull: list[Point]) -> list[float]:
    return [(d1 - d0) / (t1 - t0) for (t0, d0), (t1, d1) in itertools.pairwise(hull)]


def _segments(roof: list[Point], floor: list[Point]) -> Iterator[tuple[float, float, float, float, float]]:
    """(slope, next slope, width, width there, gain of width per slope) from -RATE_MAX to RATE_MAX."""
    of_roof, of_floor = _slopes(roof), _slopes(floor)
    u, low, slope = 0, len(floor) - 1, -RATE_MAX
    while slope < RATE_MAX:
        while u < len(of_roof) and of_roof[u] <= slope:
            u += 1
        while low > 0 and of_floor[low - 1] <= slope:
            low -= 1
        apart, rise = roof[u][0] - floor[low][0], roof[u][1] - floor[low][1]
        following = min(
            [RATE_MAX, *of_roof[u : u + 1], *of_floor[low - 1 : low]] if low else [RATE_MAX, *of_roof[u : u + 1]]
        )
        yield slope, following, (rise - slope * apart) / 2, (rise - following * apart) / 2, -apart / 2
        slope = following


def _widest(roof: list[Point], floor: list[Point]) -> tuple[float, float, float, float] | None:
    """(slope, width) of the widest strip, and the slopes between which there is one; None: none within RATE_MAX."""
    best: tuple[float, float] | None = None
    least = greatest = None
    for slope, following, width, there, gain in _segments(roof, floor):
        if gain <= 0 and best is None:
            on_edge = slope == -RATE_MAX or (gain == 0 and following >= RATE_MAX)
            if on_edge:
                return None
            best = (slope / 2 + following / 2 if gain == 0 else slope), width
        if least is None and width >= 0:
            least = slope
        if width < 0 <= there:
            least = slope + (following - slope) * width / (width - there)
        if there < 0 <= width:
            greatest = slope + (following - slope) * width / (width - there)
        elif there >= 0 and following >= RATE_MAX:
            greatest = following
    if best is None:
        return None
    slope, width = best
    return slope, width, slope if least is None else least, slope if greatest is None else greatest


def _kth(points: Sequence[Point], slope: float, sign: int, k: int) -> float:
    return sorted(sign * (d - slope * t) for t, d in points)[k]


def _refine(width: Callable[[float], float], middle: float, reach: float) -> float:
    left, right = middle - reach, middle + reach
    a, b = right - _GOLDEN * (right - left), left + _GOLDEN * (right - left)
    at_a, at_b = width(a), width(b)
    best, best_width = middle, width(middle)
    for _ in range(STEPS):
        for slope, found in ((a, at_a), (b, at_b)):
            if found > best_width:
                best, best_width = slope, found
        if at_a < at_b:
            left, a, at_a = a, b, at_b
            b = left + _GOLDEN * (right - left)
            at_b = width(b)
        else:
            right, b, at_b = b, a, at_a
            a = right - _GOLDEN * (right - left)
            at_a = width(a)
    return best
