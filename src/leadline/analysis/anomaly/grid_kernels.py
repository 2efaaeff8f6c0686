"""Kernels over streams: rates, bins of time, what the others of a group do, medians of pasts. One pass each."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.robust import MAD_TO_SIGMA

FEW = 64  # values that are put in order where they are, without making an array


@compiled()
def rates(begin_R: Ints, time_N: Ints, value_N: Floats, counter_R: Bools, gap_ns: int) -> tuple[Floats, Ints]:
    """What each sample says: (x_N, since_N). Of a gauge its value; of a counter its increase per second since the
    sample before, NaN for the first, after a reset and after more than `gap_ns`. `since_N`: the sample before it; its
    own time where there is none."""
    x_N, since_N = np.empty(len(value_N)), np.empty(len(value_N), np.int64)
    for r in range(len(begin_R) - 1):
        for n in range(begin_R[r], begin_R[r + 1]):
            first = n == begin_R[r]
            since_N[n] = time_N[n] if first else time_N[n - 1]
            if not counter_R[r]:
                x_N[n] = value_N[n]
                continue
            x_N[n] = np.nan
            if not first:
                length_ns = time_N[n] - time_N[n - 1]
                more = value_N[n] - value_N[n - 1]
                if more >= 0.0 and length_ns <= gap_ns:
                    x_N[n] = more / (length_ns / 1e9)
    return x_N, since_N


@compiled()
def binned(
    rows_K: Ints, begin_R: Ints, time_N: Ints, since_N: Ints, x_N: Floats, counter_R: Bools,
    width_ns: int, to_ns: int, bins: int, hold: int,
) -> Floats:  # fmt: skip
    """The mean of each stream in each bin, (K, bins), NaN where there is none; bin 0 is [to - width, to).

    Rates weigh as long as they lasted. An empty bin has the value of the one before it, up to `hold` times: samples
    come a little early or late.
    """
    grid_KB = np.full((len(rows_K), bins), np.nan)
    weight_B = np.empty(bins)
    for k in range(len(rows_K)):
        r = rows_K[k]
        weight_B[:] = 0.0
        for n in range(begin_R[r], begin_R[r + 1]):
            b = (to_ns - 1 - time_N[n]) // width_ns
            if b < 0 or b >= bins or np.isnan(x_N[n]):
                continue
            weight = float(time_N[n] - since_N[n]) if counter_R[r] else 1.0
            if weight_B[b] == 0.0:
                grid_KB[k, b] = 0.0
            grid_KB[k, b] += x_N[n] * weight
            weight_B[b] += weight
        held = 0
        for b in range(bins - 1, -1, -1):
            if weight_B[b] > 0.0:
                grid_KB[k, b] /= weight_B[b]
                held = 0
            elif b + 1 < bins and held < hold:
                grid_KB[k, b] = grid_KB[k, b + 1]
                held += 1
    return grid_KB


@compiled()
def of_others(begin_G: Ints, grid_KB: Floats, least: int) -> Floats:
    """The median of the others of its group in each bin, (K, bins); NaN with fewer than `least` others. Of two others
    the nearer one: either of them may be the odd one, and their mean is nobody's."""
    rows, bins = grid_KB.shape
    out_KB = np.full((rows, bins), np.nan)
    for g in range(len(begin_G) - 1):
        begin, end = begin_G[g], begin_G[g + 1]
        if end - begin <= least:
            continue
        value_I = np.empty(end - begin)
        for b in range(bins):
            count = 0
            for k in range(begin, end):
                if not np.isnan(grid_KB[k, b]):
                    value_I[count] = grid_KB[k, b]
                    count += 1
            if count - 1 < least:
                continue
            low, high = (count - 2) // 2, (count - 1) // 2  # places of the middle among the others
            ordered = np.partition(value_I[:count], low)
            at_low, next_low, after = ordered[low], np.inf, np.inf  # the values at low, low + 1, low + 2
            for i in range(low + 1, count):
                if ordered[i] < next_low:
                    next_low, after = ordered[i], next_low
                elif ordered[i] < after:
                    after = ordered[i]
            for k in range(begin, end):
                own = grid_KB[k, b]
                if np.isnan(own):
                    continue
                below = next_low if own <= at_low else at_low
                above = below
                if high > low:
                    above = after if own <= next_low else next_low
                if count == 3:
                    out_KB[k, b] = below if abs(own - below) < abs(above - own) else above
                else:
                    out_KB[k, b] = below / 2 + above / 2
    return out_KB


@compiled()
def middle(value_I: Floats, count: int) -> float:
    """The median of the first `count` values, which are put in another order; NaN of none."""
    if count == 0:
        return np.nan
    low = (count - 1) // 2
    if count <= FEW:
        for i in range(1, count):
            value, at = value_I[i], i
            while at > 0 and value_I[at - 1] > value:
                value_I[at] = value_I[at - 1]
                at -= 1
            value_I[at] = value
        few: float = value_I[low] / 2 + value_I[count // 2] / 2
        return few
    ordered = np.partition(value_I[:count], low)
    above = ordered[low] if count % 2 else ordered[low + 1 :].min()
    found: float = ordered[low] / 2 + above / 2
    return found


@compiled()
def pasts(y_KB: Floats, from_bin: int) -> tuple[Floats, Floats, Ints]:
    """Median, scaled median absolute deviation and number of values of each row's bins from `from_bin` on."""
    rows, bins = y_KB.shape
    level_K, scale_K, count_K = np.full(rows, np.nan), np.full(rows, np.nan), np.zeros(rows, np.int64)
    value_I = np.empty(bins)
    for k in range(rows):
        count = 0
        for b in range(from_bin, bins):
            if not np.isnan(y_KB[k, b]):
                value_I[count] = y_KB[k, b]
                count += 1
        level_K[k], count_K[k] = middle(value_I, count), count
        for i in range(count):
            value_I[i] = abs(value_I[i] - level_K[k])
        scale_K[k] = MAD_TO_SIGMA * middle(value_I, count)
    return level_K, scale_K, count_K


@compiled()
def pooled(begin_G: Ints, y_KB: Floats) -> Floats:
    """MAD_TO_SIGMA times the median size of all values of each group, (G,); NaN of none."""
    out_G = np.full(len(begin_G) - 1, np.nan)
    for g in range(len(begin_G) - 1):
        part = y_KB[begin_G[g] : begin_G[g + 1]]
        value_I = np.empty(part.size)
        count = 0
        for k in range(part.shape[0]):
            for b in range(part.shape[1]):
                if not np.isnan(part[k, b]):
                    value_I[count] = abs(part[k, b])
                    count += 1
        out_G[g] = MAD_TO_SIGMA * middle(value_I, count)
    return out_G


@compiled()
def tails(begin_G: Ints, z_KB: Floats, left_out_K: Bools, from_bin: int, share: float) -> tuple[Floats, Floats, Ints]:
    """The tail of |z| in each group: (q_G, beyond_G, count_G), its (1 - share) quantile, the mean of what is beyond it
    (0 of nothing), and how many values there are. Rows that are left out, and bins before `from_bin`, do not count."""
    groups = len(begin_G) - 1
    q_G, beyond_G, count_G = np.zeros(groups), np.zeros(groups), np.zeros(groups, np.int64)
    for g in range(groups):
        begin, end = begin_G[g], begin_G[g + 1]
        size_I = np.empty((end - begin) * max(z_KB.shape[1] - from_bin, 0))
        count = 0
        for k in range(begin, end):
            if left_out_K[k]:
                continue
            for b in range(from_bin, z_KB.shape[1]):
                if not np.isnan(z_KB[k, b]):
                    size_I[count] = abs(z_KB[k, b])
                    count += 1
        count_G[g] = count
        if count == 0:
            continue
        at = max(int(np.ceil(count * (1.0 - share))) - 1, 0)
        ordered = np.partition(size_I[:count], at)
        q_G[g] = ordered[at]
        if count - 1 > at:
            beyond_G[g] = (ordered[at + 1 :] - q_G[g]).sum() / (count - 1 - at)
    return q_G, beyond_G, count_G


@compiled()
def onsets(
    row_O: Ints, from_O: Ints, until_O: Ints, to_ns: int, expected_O: Floats, seen_O: Floats,
    begin_R: Ints, time_N: Ints, since_N: Ints, x_N: Floats,
) -> tuple[Ints, Ints]:  # fmt: skip
    """Of each of O deviations the first sample after `from` that is at least half as far from what was expected as
    what was seen: (time, time of the sample before it). (until, from) where there is none."""
    start_O, earliest_O = until_O.copy(), from_O.copy()
    for o in range(len(row_O)):
        r = row_O[o]
        for n in range(begin_R[r], begin_R[r + 1]):
            if time_N[n] <= from_O[o] or time_N[n] >= to_ns or np.isnan(x_N[n]):
                continue
            if (x_N[n] - expected_O[o]) * (seen_O[o] - expected_O[o]) >= 0.5 * (seen_O[o] - expected_O[o]) ** 2:
                start_O[o], earliest_O[o] = time_N[n], since_N[n]
                break
    return start_O, earliest_O
