"""Kernels of the edge fit: hulls, the walk over slopes, and the soft margin by order statistics.

u, upper points   o    o  o      lower hull of u ──┐
                    o o                            ├─> the widest strip between both: slope, offset, half width
l, lower points    x   x x       upper hull of l ──┘
                 x    x
"""
# Numba's types are unknown to mypy.
# mypy: disable-error-code="no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.compiled import compiled

OFFSET, MID, RATE, HALF, LOW, HIGH, SPREAD = 0, 1, 2, 3, 4, 5, 6
"""Columns of what is found of an edge, ns and ratio; offsets are above the base of the edge."""
FIELDS = 7  # number of these columns, for arrays that hold them. Source: definition.
# Steps of the golden section, so that the slope is known to 0.3 % of where it was sought. Source: definition.
_STEPS = 12
# Golden ratio less one, as each step keeps one of the last two points. Source: textbook (Kiefer 1953).
_GOLDEN = 0.6180339887498949
# Number of usual spacings beyond which a point stands apart; by chance a gap is longer once in 400. Source: measured
# (4, 5 and 8 on simulated traces, docs/log.md: 4 costs a fifth, 8 keeps late stamps).
_APART = 6.0
# Values that are kept to find the margin: twice 2 % of 1,600 points, which is more than a window holds. Source: bound.
_RANK_MAX = 64


@compiled()
def _lower_hull(t: Floats, y: Floats, hull: Ints) -> int:
    """Vertices of the lower hull of points in the order of t, into `hull`; how many (monotone chain, Andrew 1979)."""
    size = 0
    for k in range(len(t)):
        if size and t[hull[size - 1]] == t[k]:  # of points above each other only the lowest counts
            if y[hull[size - 1]] <= y[k]:
                continue
            size -= 1
        while size >= 2:
            a, b = hull[size - 2], hull[size - 1]
            if (y[b] - y[a]) * (t[k] - t[a]) >= (y[k] - y[a]) * (t[b] - t[a]):
                size -= 1
            else:
                break
        hull[size] = k
        size += 1
    return size


@compiled()
def _next_slope(t: Floats, y: Floats, hull: Ints, at: int, step: int, last: int) -> float:
    if at == last:
        return np.inf
    here, there = hull[at], hull[at + step]
    return (y[there] - y[here]) / (t[there] - t[here])


@compiled()
def _strip(
    tu: Floats, u: Floats, hull_u: Ints, size_u: int, tv: Floats, v: Floats, hull_v: Ints, size_v: int, end: float
) -> tuple[float, float, float, float]:
    """Slope and half width of the widest strip; the lowest and highest value at `end` of any line within the bounds.

    `v` is minus the lower points. The width is concave in the slope, and linear between slopes of hull edges: walk
    these from the smallest. Both hulls are walked at once, that of `u` from the left, that of `v` from the right.
    """
    iu, iv = 0, size_v - 1
    best, half, low, high = 0.0, -np.inf, np.nan, np.nan
    slope = -np.inf
    inside = False
    if tv[hull_v[iv]] <= tu[hull_u[0]]:
        return best, np.nan, low, high  # one direction ends before the other begins: any slope will do
    while True:
        pu, pv = hull_u[iu], hull_v[iv]
        to_u = _next_slope(tu, u, hull_u, iu, 1, size_u - 1)
        to_v = np.inf
        if iv > 0:
            to_v = -(v[hull_v[iv - 1]] - v[pv]) / (tv[hull_v[iv - 1]] - tv[pv])
        then = min(to_u, to_v)
        # Within (slope, then) the width is (u + v) + a (tv - tu).
        lean, level = tv[pv] - tu[pu], u[pu] + v[pv]
        if lean > 0:
            if not inside and (np.isinf(then) or level + then * lean >= 0):
                start = -level / lean
                low = -(v[pv] + start * tv[pv]) + start * end
                inside = True
        elif lean < 0 and inside and (np.isinf(then) or level + then * lean < 0):
            stop = -level / lean
            high = u[pu] - stop * tu[pu] + stop * end
            if half == -np.inf:
                best, half = slope, (level + slope * lean) / 2
            break
        if np.isinf(then):
            break
        width = (level + then * lean) / 2
        if width > half:
            best, half = then, width
        elif not inside and lean <= 0:
            break  # it only becomes narrower, and was never positive
        slope = then
        if to_u <= to_v:
            iu += 1
        else:
            iv -= 1
    return best, half, low, high


@compiled()
def _smallest(values: Floats, rank: int, kept: Floats) -> int:
    """The `rank` smallest values, sorted, into `kept`; how many."""
    size = 0
    for k in range(len(values)):
        value = values[k]
        if size < rank:
            at = size
            size += 1
        elif value < kept[size - 1]:
            at = size - 1
        else:
            continue
        while at > 0 and kept[at - 1] > value:
            kept[at] = kept[at - 1]
            at -= 1
        kept[at] = value
    return size


@compiled()
def _ranked(values: Floats, share: float, free_ns: float, kept: Floats) -> tuple[int, int, float, float]:
    """Order statistics for the margin: the largest that may be taken, the one to take, its value, the spacing there.

    Values are residuals. The share is of points that found no queue, those within `free_ns` of the smallest: what was
    held up says nothing. Up to that many points may be wrong, and are so only if they stand apart: downwards from there
    the margin goes on to the next point as long as that is no farther than `_APART` spacings. The smallest: `kept[0]`.
    """
    least = values.min()
    free = 0
    for k in range(len(values)):
        free += values[k] <= least + free_ns
    most = min(max(1, round(share * free)), _RANK_MAX // 2)
    size = _smallest(values, min(2 * most + 2, _RANK_MAX), kept)
    most = min(most, size)
    spacing = (kept[size - 1] - kept[most - 1]) / max(size - most, 1)
    rank = most
    while rank > 1 and kept[rank - 1] - kept[rank - 2] <= _APART * spacing:
        rank -= 1
    return most, rank, kept[rank - 1], spacing


@compiled()
def _near(t: Floats, y: Floats, slope: float, most: float, near_t: Floats, near_y: Floats) -> int:
    """Points whose residual is at most `most`: no other can be at the margin."""
    size = 0
    for k in range(len(t)):
        if y[k] - slope * t[k] <= most:
            near_t[size], near_y[size] = t[k], y[k]
            size += 1
    return size


@compiled()
def _margin(t: Floats, y: Floats, slope: float, rank: int, values: Floats, kept: Floats) -> float:
    for k in range(len(t)):
        values[k] = y[k] - slope * t[k]
    size = _smallest(values[: len(t)], rank, kept)
    return kept[size - 1]


@compiled()
def _best_slope(
    tu: Floats, u: Floats, tv: Floats, v: Floats, rank_u: int, rank_v: int, slope: float, reach: float, steps: int,
    values: Floats, kept: Floats,
) -> float:  # fmt: skip
    """The slope of the widest strip between two order statistics, by golden section."""
    low, high = slope - reach, slope + reach
    left, right = high - _GOLDEN * (high - low), low + _GOLDEN * (high - low)
    at_left = _margin(tu, u, left, rank_u, values, kept) + _margin(tv, v, -left, rank_v, values, kept)
    at_right = _margin(tu, u, right, rank_u, values, kept) + _margin(tv, v, -right, rank_v, values, kept)
    for _ in range(steps):
        if at_left > at_right:
            high, right, at_right = right, left, at_left
            left = high - _GOLDEN * (high - low)
            at_left = _margin(tu, u, left, rank_u, values, kept) + _margin(tv, v, -left, rank_v, values, kept)
        else:
            low, left, at_left = left, right, at_right
            right = low + _GOLDEN * (high - low)
            at_right = _margin(tu, u, right, rank_u, values, kept) + _margin(tv, v, -right, rank_v, values, kept)
    return (low + high) / 2


@compiled()
def _soft(
    tu: Floats, u: Floats, tv: Floats, v: Floats, hard: float, span: float, share: float, free_ns: float
) -> tuple[float, float, float, float]:
    """Slope, margins of both sides at t = 0, and the spread of the offset, for the soft margin.

    Where no point stands apart at the hard slope, that is it. Else the slope is sought with the largest order
    statistics, which late stamps hardly reach; there points that stand apart are told from those that do not, and the
    slope is sought again with all but them.
    """
    kept = np.empty(_RANK_MAX)
    most_u, rank_u, at_u, space_u = _ranked(u - hard * tu, share, free_ns, kept)
    apart = kept[most_u - 1] - kept[0]
    most_v, rank_v, at_v, space_v = _ranked(v + hard * tv, share, free_ns, kept)
    apart = max(apart, kept[most_v - 1] - kept[0])
    slope = hard
    if rank_u > 1 or rank_v > 1:
        # The slope moves by what margins are apart from the hard ones, and by their spacings, over half the span.
        move = 2.0 * apart + 4.0 * max(space_u, space_v) + 1.0
        values = np.empty(max(len(tu), len(tv)))
        near_u = np.empty((2, len(tu)))
        near_v = np.empty((2, len(tv)))
        size_u = _near(tu, u, hard, at_u + apart + 2.0 * move, near_u[0], near_u[1])
        size_v = _near(tv, v, -hard, at_v + apart + 2.0 * move, near_v[0], near_v[1])
        near = (near_u[0, :size_u], near_u[1, :size_u], near_v[0, :size_v], near_v[1, :size_v])
        slope = _best_slope(*near, most_u, most_v, hard, 2 * move / span, _STEPS, values, kept)
        _, rank_u, at_u, space_u = _ranked(u - slope * tu, share, free_ns, kept)
        _, rank_v, at_v, space_v = _ranked(v + slope * tv, share, free_ns, kept)
        move = 4.0 * max(space_u * most_u, space_v * most_v)
        slope = _best_slope(*near, rank_u, rank_v, slope, 2 * move / span, _STEPS, values, kept)
        _, rank_u, at_u, space_u = _ranked(u - slope * tu, share, free_ns, kept)
        _, rank_v, at_v, space_v = _ranked(v + slope * tv, share, free_ns, kept)
    # Rejected: margins less k spacings, as an estimate of the delay's floor. Its noise costs more than the bias does.
    return slope, at_u, -at_v, np.sqrt(rank_u * space_u**2 + rank_v * space_v**2) / 2


@compiled()
def _put_in_order(t: Floats, y: Floats) -> None:
    """By t, in place. Points come nearly in order, so each moves a few places at most; if they do not, by merging."""
    moves = 0
    for k in range(1, len(t)):
        here, there, at = t[k], y[k], k
        while at > 0 and t[at - 1] > here:
            t[at], y[at] = t[at - 1], y[at - 1]
            at -= 1
        t[at], y[at] = here, there
        moves += k - at
        if moves > 20 * len(t):
            order = np.argsort(t, kind="mergesort")
            t[:], y[:] = t[order], y[order]
            return


@compiled()
def _sorted(t: Ints, y: Ints, t_base: int, y_base: int, sign: float) -> Floats:
    """Points above their bases as floats, in the order of t."""
    rows = len(t)
    out = np.empty((2, rows))
    rising = True
    for k in range(rows):
        out[0, k] = t[k] - t_base
        out[1, k] = sign * (y[k] - y_base)
        rising = rising and (k == 0 or out[0, k] >= out[0, k - 1])
    if not rising:
        _put_in_order(out[0], out[1])
    return out


@compiled()
def fit_edges(
    begin_U: Ints, t_U: Ints, u_U: Ints, begin_L: Ints, t_L: Ints, l_L: Ints, end_E: Ints, share: float,
    free_ns: float, points_min: int, vertices_min: int, span_min_E: Floats,
) -> tuple[Floats, Ints, Ints, Bools]:  # fmt: skip
    """Fits of all edges: what is found (E, FIELDS), base of offsets, middle of the points (both E), whether valid.

    Middle: abscissa, ns. The rate is a ratio. Half width, lowest and highest: see `_strip`. Without points: NaN.
    """
    edges = len(end_E)
    found = np.full((edges, FIELDS), np.nan)
    base_E, middle_E, valid_E = np.zeros(edges, np.int64), end_E.copy(), np.zeros(edges, np.bool_)
    for e in range(edges):
        rows_u, rows_l = slice(begin_U[e], begin_U[e + 1]), slice(begin_L[e], begin_L[e + 1])
        count_u, count_l = begin_U[e + 1] - begin_U[e], begin_L[e + 1] - begin_L[e]
        if count_u < 2 or count_l < 2:
            continue
        base_E[e] = u_U[begin_U[e]]
        first = min(t_U[rows_u].min(), t_L[rows_l].min())
        last = max(t_U[rows_u].max(), t_L[rows_l].max())
        middle_E[e] = first + (last - first) // 2
        up = _sorted(t_U[rows_u], u_U[rows_u], middle_E[e], base_E[e], 1.0)
        down = _sorted(t_L[rows_l], l_L[rows_l], middle_E[e], base_E[e], -1.0)
        tu, u, tv, v = up[0], up[1], down[0], down[1]
        hull_u, hull_v = np.empty(count_u, np.int64), np.empty(count_l, np.int64)
        size_u, size_v = _lower_hull(tu, u, hull_u), _lower_hull(tv, v, hull_v)
        end, span = float(end_E[e] - middle_E[e]), float(last - first)
        if size_u < 2 or size_v < 2:
            continue
        slope, half, low, high = _strip(tu, u, hull_u, size_u, tv, v, hull_v, size_v, end)
        found[e, HALF], found[e, LOW], found[e, HIGH] = half, low, high
        if share > 0:
            slope, upper, lower, spread = _soft(tu, u, tv, v, slope, span, share, free_ns)
        else:
            kept = np.empty(_RANK_MAX)
            _, _, upper, space_u = _ranked(u - slope * tu, 0.0, free_ns, kept)
            _, _, lower, space_v = _ranked(v + slope * tv, 0.0, free_ns, kept)
            lower, spread = -lower, np.sqrt(space_u**2 + space_v**2) / 2
        found[e, MID], found[e, RATE], found[e, SPREAD] = (upper + lower) / 2, slope, spread
        found[e, OFFSET] = found[e, MID] + slope * end
        span_u, span_v = tu[hull_u[size_u - 1]] - tu[hull_u[0]], tv[hull_v[size_v - 1]] - tv[hull_v[0]]
        valid_E[e] = (
            min(count_u, count_l) >= points_min
            and min(size_u, size_v) >= vertices_min
            and min(span_u, span_v) >= span_min_E[e]
        )
    return found, base_E, middle_E, valid_E


@compiled()
def crossings(
    begin_N: Ints, t_N: Ints, y_N: Ints, sign: int, at_E: Ints, base_E: Ints, offset_E: Floats, rate_E: Floats,
    margin_E: Floats,
) -> Ints:  # fmt: skip
    """Points of each edge on the wrong side of its line by more than a margin.

    sign: 1 for upper points (wrong: below), -1 for lower ones. Of a line that is not known (NaN) none is wrong.
    """
    count_E = np.zeros(len(at_E), np.int64)
    for e in range(len(at_E)):
        for k in range(begin_N[e], begin_N[e + 1]):
            line = offset_E[e] + rate_E[e] * (t_N[k] - at_E[e])
            count_E[e] += sign * ((y_N[k] - base_E[e]) - line) < -margin_E[e]
    return count_E


@compiled()
def margins(
    begin_N: Ints, t_N: Ints, y_N: Ints, sign: int, at_E: Ints, base_E: Ints, offset_E: Floats, rate_E: Floats
) -> Floats:
    """Least distance of each edge's points from its line, to the side where they should be; inf without points."""
    least_E = np.full(len(at_E), np.inf)
    for e in range(len(at_E)):
        for k in range(begin_N[e], begin_N[e + 1]):
            line = offset_E[e] + rate_E[e] * (t_N[k] - at_E[e])
            least_E[e] = min(least_E[e], sign * ((y_N[k] - base_E[e]) - line))
    return least_E
