"""Kernels of the cumulative sum: what blocks usually take, and since when they take more. Axes: B = block.

Each block that is no trouble makes the level anew, of all such blocks before it: hundreds of medians a window.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Floats
from leadline.analysis.compiled import compiled
from leadline.analysis.robust import MAD_TO_SIGMA

# Blocks before any can be held against them: three are the fewest with a median that one odd block does not move.
# Source: definition.
KNOWN_MIN = 3
# Blocks below which their scatter is not known well: below eight, the standard error of a scatter is more than a
# quarter of it, and their 90 % quantile is their highest. Source: definition.
FEW = 8
# Least scatter of few blocks and of more, as share of the usual, since steps of real jobs differ by at least so much:
# healthy steps of the lab vary by 5 to 8 % (docs/analyses/ledger-evals.md). Source: recordings
# (docs/analyses/slowdowns.md).
SCATTER_FEW, SCATTER_MIN = 0.08, 0.04
# Largest scatter, as share of the usual: a job that comes up with uneven steps does not make everything usual. Source:
# recordings (docs/analyses/slowdowns.md).
SCATTER_MAX = 0.25
# The cumulative sum (Page 1954), in scatters. By Siegmund's formula, normal and independent blocks of known scatter
# pass it once in 2e11 blocks, and a slow-down by d scatters takes 8 / (d - 1.5) blocks, two at least. The run length is
# that long because blocks of real jobs are neither: see docs/analyses/slowdowns.md for what heavy tails, runs and the
# learned scatter leave of it. Source: recordings (docs/analyses/slowdowns.md).
SLACK = 1.5  # scatters beyond usual that are nothing: half of the smallest slow-down looked for, as in textbooks
TOLD = 8.0  # sum of scatters from which it is told
# Blocks as usual in a row after which the sum starts anew, because what comes then is something else; one alone may be
# chance. Source: recordings (docs/analyses/slowdowns.md).
CALM = 2
# Scatters that one block can add: SLACK and half of TOLD, so that it takes two blocks, and one long pause is no
# slow-down. Source: definition.
ONCE_MAX = 5.5
# quantile of blocks that their scatter is told by as well, since a median does not see a long tail. Source: judgement.
HIGH_SHARE = 0.9
# Standard deviations that this quantile of a normal distribution lies above its middle, to four digits. Source:
# definition.
HIGH_SIGMAS = 1.2816


@compiled(nogil=True)
def middle(value_B: Floats) -> float:
    """Median of values in order, (B,), B > 0."""
    half = len(value_B) // 2
    return float(value_B[half] if len(value_B) % 2 else (value_B[half - 1] + value_B[half]) / 2)


@compiled(nogil=True)
def quantile(value_B: Floats, share: float) -> float:
    """Quantile of values in order, (B,), B > 0, between neighbours by their distance: numpy's, to the bit."""
    place = (len(value_B) - 1) * share
    low = int(np.floor(place))
    if low >= len(value_B) - 1:
        return float(value_B[-1])
    part, rise = place - low, value_B[low + 1] - value_B[low]
    return float(value_B[low + 1] - rise * (1 - part) if part >= 0.5 else value_B[low] + rise * part)


@compiled(nogil=True)
def baseline_level(unit_s_B: Floats) -> tuple[float, float]:
    """Median and scatter of blocks in order of their length, (B,), B > 0."""
    median = middle(unit_s_B)
    if not median > 0:
        return median, SCATTER_MAX
    ratio_B = unit_s_B / median
    spread = MAD_TO_SIGMA * middle(np.sort(np.abs(ratio_B - 1)))
    high = (quantile(ratio_B, HIGH_SHARE) - 1) / HIGH_SIGMAS if len(ratio_B) >= FEW else 0.0
    least = SCATTER_MIN if len(ratio_B) >= FEW else SCATTER_FEW
    return median, min(max(spread, high, least), SCATTER_MAX)


@compiled(nogil=True)
def peaks(gain_B: Floats) -> Floats:
    """How high each rise of a cumulative sum from 0 came before it was back at 0, (rises,): the last one may go on."""
    found_B, count, total, high = np.empty(len(gain_B)), 0, 0.0, 0.0
    for gain in gain_B:
        total = max(0.0, total + gain)
        high = max(high, total)
        if total == 0.0 and high > 0.0:
            found_B[count] = high
            count, high = count + 1, 0.0
    if high > 0.0:
        found_B[count] = high
        count += 1
    return found_B[:count]


@compiled(nogil=True)
def put(sorted_B: Floats, count: int, value: float) -> None:
    """Put a value where it belongs among the `count` first, which are in order."""
    while count > 0 and sorted_B[count - 1] > value:
        sorted_B[count] = sorted_B[count - 1]
        count -= 1
    sorted_B[count] = value


@compiled(nogil=True)
def risen(unit_s_B: Floats) -> tuple[int, float, float]:
    """The block that a cumulative sum left 0 at and did not come back from until it was told, and the level before it.

    -1: there is none. See `excursions.excursion`.
    """
    count = len(unit_s_B)
    if count < KNOWN_MIN:
        return -1, 0.0, 0.0
    known_B, known = np.empty(count), 0
    for place in range(KNOWN_MIN):
        put(known_B, known, unit_s_B[place])
        known += 1
    baseline_s, scatter = baseline_level(known_B[:known])
    total, first, calm, is_told, added = 0.0, -1, 0, False, KNOWN_MIN
    for place in range(KNOWN_MIN, count):
        if not baseline_s > 0:
            return -1, 0.0, 0.0
        far = (unit_s_B[place] / baseline_s - 1) / scatter
        calm = calm + 1 if far < SLACK else 0
        total = max(0.0, total + min(far, ONCE_MAX) - SLACK) if calm < CALM else 0.0
        if total == 0.0:
            # One long pause that passed is what this job does, and makes its scatter.
            while added <= place:
                put(known_B, known, unit_s_B[added])
                known, added = known + 1, added + 1
            first, is_told = -1, False
            baseline_s, scatter = baseline_level(known_B[:known])
            continue
        first = place if first < 0 else first
        if total >= TOLD:
            is_told, total = True, TOLD
    return (first if is_told else -1), baseline_s, scatter
