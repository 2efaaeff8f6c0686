"""How far readings are from what is usual for them, in their own unit, on a scale that outliers do not stretch.

Up is bad: whoever calls turns what is bad when it falls (availability, free memory) into its opposite first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.robust import IQR_TO_SIGMA, MAD_TO_SIGMA

Matrix = NDArray[np.float64]
Row = NDArray[np.float64]

# Standard deviations above the middle below which a reading is usual, whatever was learned: of normal noise one reading
# in 740 lies above. Source: textbook: Shewhart (1931), three-sigma limits.
SPREADS = 3.0
# Prior of what goes wrong monthly, nats: ln(1/4) below COMMON would be -1.4 less, rounded to -1. Which rules have it
# was changed while looking at recordings, its value was not. Source: judgement.
RARE = 0.05
# learned readings below which nothing is known to be usual: quartiles of fewer are single readings. Source: judgement.
LEAST = 8
# Least spread, as share of the middle, because a series that happened to stand still has none of its own. Chosen with
# the rest of the method while looking at PetShop and Nezha. Source: recordings (docs/analyses/rootcause-evals.md).
FLOOR_RATIO = 0.02
# Share of a resource that counts as free where it has always been nearly full, so that a small rise of it is not the
# whole. Source: judgement.
FREE_MIN = 0.1


@dataclass(frozen=True, slots=True)
class Baseline:
    """What is usual for N series: the middle, the spread and the highest reading that is still usual; NaN: unknown."""

    middle_N: Row
    spread_N: Row
    baseline_N: Row  # above the middle, in the unit of the series
    count_N: NDArray[np.int64]


def baseline(learned_TN: Matrix, *, floor_ratio: float = FLOOR_RATIO, floor: float | Row = 0.0) -> Baseline:
    """What is usual for N series, from T learned readings.

    Inputs: float (T, N), NaN where a reading is missing. `floor_ratio`, `floor`: the spread is at least this share of
    the middle and at least this much, because a series that happened to stand still has no spread of its own.
    Returns: `Baseline`, (N,) each; NaN where fewer than `LEAST` readings were learned.
    Accuracy: up to half of the learned readings may be foul without moving the middle beyond the good ones; the
    highest usual reading tolerates `RARE` of them.
    Source: Huber and Ronchetti, Robust Statistics (2009), sections 1.3 and 5.1. We take the larger of the median and
    the quartile estimates of the spread: the first is zero where more than half of the readings are equal.
    """
    count_N = np.isfinite(learned_TN).sum(axis=0)
    known_N = count_N >= LEAST
    middle_N, low_N, high_N, rare_N = (_quantile(learned_TN, known_N, share) for share in (0.5, 0.25, 0.75, 1.0 - RARE))
    mad_N = _quantile(np.abs(learned_TN - middle_N), known_N, 0.5)
    own_N = np.maximum(mad_N * MAD_TO_SIGMA, (high_N - low_N) * IQR_TO_SIGMA)
    spread_N = np.maximum(own_N, np.maximum(np.abs(middle_N) * floor_ratio, floor))
    return Baseline(middle_N, spread_N, np.maximum(rare_N - middle_N, SPREADS * spread_N), count_N)


def rise(values_TN: Matrix, of: Baseline) -> Matrix:
    """How far readings are above the middle, in their own unit, where that is more than usual; else 0.

    Inputs: float (T, N), NaN where a reading is missing; the baseline of the same N series.
    Returns: float (T, N) >= 0; NaN where the reading or what is usual is unknown.
    """
    above_TN = values_TN - of.middle_N
    known_TN = np.isfinite(above_TN)
    return np.where(known_TN, np.where(above_TN > of.baseline_N, above_TN, 0.0), np.nan)


def excess(values_TN: Matrix, of: Baseline) -> Matrix:
    """How far readings are above the highest usual one, in their own unit; else 0.

    Less than `rise` by what is usual: for a series that goes up and down between two levels, the upper one is no
    deviation at all, and a little more is a little. `rise` is what adds up along calls.
    Returns: float (T, N) >= 0; NaN where the reading or what is usual is unknown.
    """
    return np.maximum(values_TN - (of.middle_N + of.baseline_N), 0.0)


def headroom_eaten(values_TN: Matrix, of: Baseline, full: float) -> Matrix:
    """The share of what is always free of a resource that is now in use: 0 as usual, 1 nothing is left.

    Inputs: use (T, N), in the unit of `full`, the most there is. Returns: (T, N), 0 to 1; 0 within what is usual; NaN
    where unknown. A resource that has always been nearly full counts as having a tenth free, so that a small rise of
    it is not the whole.
    Source: utilisation before saturation, Gregg, Thinking Methodically about Performance, CACM 56 (2013).
    """
    free_N = np.maximum(full - of.middle_N - of.baseline_N, FREE_MIN * full)
    return np.clip(excess(values_TN, of) / free_N, 0.0, 1.0)


def _quantile(values_TN: Matrix, known_N: NDArray[np.bool_], share: float) -> Row:
    out_N = np.full(values_TN.shape[1], np.nan)
    if known_N.any():
        out_N[known_N] = np.nanquantile(values_TN[:, known_N], share, axis=0)
    return out_N
