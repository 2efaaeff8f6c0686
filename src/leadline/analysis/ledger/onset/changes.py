"""Change points of many series at once: where the level of each one changes, on noise that wanders.

Optimal partitioning: the segmentation of least squared error plus a penalty for each segment. The penalty is counted in
units of the *long-run* variance, so that series whose neighbouring values hang together do not fall into pieces.
"""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.collectives.arrival_kernels import in_parts
from leadline.analysis.ledger.onset.changes_kernels import last_begins
from leadline.analysis.robust import MAD_TO_SIGMA

# Lengths of blocks, in values, from whose sums the long-run variance is taken: each twice the one before, because noise
# that hangs together over more is a change of level. Source: judgement.
LONG_RUN_BLOCKS = (1, 2, 4, 8)
# Standard deviations beyond a running median to which single spikes are cut down, so that a heavy tail makes no
# segments; of normal noise one value in 370 is cut. Source: textbook: Shewhart (1931), three-sigma limits.
SPIKE_SIGMAS = 3.0
# values of the partition, since its cost grows with the square; longer series are taken in blocks. Source: bound.
POINTS_MAX = 600

Matrix = NDArray[np.float64]


def segments(series_WT: Matrix, *, length_min: int, penalty: float) -> list[Ints]:
    """The change points of W series of T values.

    Inputs: float (W, T), NaN where a value is missing. `length_min` >= 2: shortest segment, in values. `penalty`:
    what a segment must explain, in long-run variances per log(T).
    Returns: for each series the first place of every segment, int (S,), ascending, beginning with 0. Series without
    values have the one segment [0].
    Accuracy: a step of d sigma in white noise is placed to within about 10 / d**2 values.
    Source: Jackson et al., An algorithm for optimal partitioning, IEEE SPL 12 (2005); Killick et al., PELT, JASA 107
    (2012), section 2, without the pruning, which arrays do not gain from. We add: single spikes are cut down to
    `SPIKE_SIGMAS` beyond a running median first, so that a heavy tail makes no segments; long-run variance.
    """
    count, length = series_WT.shape
    if not count or length < 2 * length_min:
        return [np.zeros(1, np.int64)] * count
    block = -(-length // POINTS_MAX)
    coarse_WT = block_medians(series_WT, block)
    shortest = max(2, -(-length_min // block))
    sigma_W = np.sqrt(short_run_variance(coarse_WT))
    calm_WT = without_spikes(coarse_WT, sigma_W, shortest)
    scale_W = long_run_variance(calm_WT)
    cost_W = penalty * np.log(max(coarse_WT.shape[1], 3)) * scale_W
    found = _partition(calm_WT, cost_W, shortest)
    reach = max(block, length_min)
    return [_refined(series_WT[each], places * block, reach, length_min) for each, places in enumerate(found)]


def block_medians(series_WT: Matrix, block: int) -> Matrix:
    """Medians of consecutive blocks, the last one maybe shorter; NaN where a block has no value."""
    if block <= 1:
        return series_WT
    count, length = series_WT.shape
    padded = np.full((count, -(-length // block) * block), np.nan)
    padded[:, :length] = series_WT
    return medians(padded.reshape(count, -1, block), 2)


def short_run_variance(series_WT: Matrix) -> Floats:
    """Variance of the noise from differences of neighbours, so that levels do not matter; (W,), > 0."""
    return np.asarray(_difference_variance(series_WT, 1))


def long_run_variance(series_WT: Matrix) -> Floats:
    """Variance that the mean of n values has, times n, for n up to the longest of `LONG_RUN_BLOCKS`; (W,), > 0.

    For white noise it is the variance; for noise that hangs together it is greater. From robust differences of
    neighbouring block means: a few steps of the level do not raise it.
    """
    fitting = [block for block in LONG_RUN_BLOCKS if series_WT.shape[1] // block >= 8] or [1]
    return np.asarray(np.max([block * _difference_variance(series_WT, block) for block in fitting], axis=0))


def medians(values: NDArray[np.float64], axis: int) -> NDArray[np.float64]:
    """Medians along an axis without the NaN; NaN where there is nothing else."""
    ordered = np.sort(values, axis=axis)  # NaN last; ten times as fast as np.nanmedian along a short axis
    count = (~np.isnan(values)).sum(axis=axis, keepdims=True)
    low, high = (np.take_along_axis(ordered, np.maximum(place, 0), axis) for place in ((count - 1) // 2, count // 2))
    high = np.where(count > 0, high, np.nan)
    return np.asarray(((low + high) / 2).squeeze(axis), np.float64)


def _difference_variance(series_WT: Matrix, block: int) -> Floats:
    kept = series_WT.shape[1] // block * block
    blocks = series_WT[:, :kept].reshape(len(series_WT), -1, block)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a block without values: NaN, as said
        means = np.nanmean(blocks, axis=2)
    sigma_W = MAD_TO_SIGMA * medians(np.abs(np.diff(means, axis=1)), 1) / np.sqrt(2.0)
    # Values that are rounded may not differ at all: the noise is then below what is told.
    return np.asarray(np.maximum(np.nan_to_num(sigma_W) ** 2, 1e-12))


def without_spikes(series_WT: Matrix, sigma_W: Floats, length_min: int) -> Matrix:
    """The series with what lies further than `SPIKE_SIGMAS` from its running median moved to there.

    The median runs over an odd number of values of which a segment of `length_min` is a majority.
    """
    half = length_min - 1
    padded = np.pad(series_WT, ((0, 0), (half, half)), mode="reflect")
    running_WT = medians(np.lib.stride_tricks.sliding_window_view(padded, 2 * half + 1, axis=1), 2)
    reach_W = SPIKE_SIGMAS * sigma_W[:, None]
    return np.clip(series_WT, running_WT - reach_W, running_WT + reach_W)


def _partition(series_WT: Matrix, cost_W: Floats, length_min: int) -> list[Ints]:
    """First places of the segments of each series, by dynamic programming over all series at once: O(W T**2)."""
    count, length = series_WT.shape
    weight_WT = np.isfinite(series_WT).astype(np.float64)
    middle_W = np.nan_to_num(medians(series_WT, 1))  # sums of squares of small numbers lose nothing
    value_WT = np.where(weight_WT > 0, series_WT - middle_W[:, None], 0.0)
    sums = [np.pad(np.cumsum(each, axis=1), ((0, 0), (1, 0))) for each in (weight_WT, value_WT, value_WT**2)]
    from_WT = np.zeros((count, length + 1), np.int64)
    in_parts(last_begins, count, *sums, cost_W, length_min, from_WT, each=length**2)
    return [_traced(from_WT[each]) for each in range(count)]


def _traced(from_T: Ints) -> Ints:
    places = []
    end = len(from_T) - 1
    while end > 0:
        end = int(from_T[end])
        places.append(end)
    return np.array(places[::-1], np.int64)


def _refined(series_T: Floats, places: Ints, reach: int, length_min: int) -> Ints:
    """Change points moved, by up to `reach`, to where they split their surroundings best.

    On the values as they are: cutting down spikes blurs an edge by half of the running median.
    """
    found = [0]
    ends = [*places[1:].tolist(), len(series_T)]
    for place, after in itertools.pairwise(ends):
        first, last = max(found[-1], place - 2 * reach), min(after, place + 2 * reach)
        low, high = max(found[-1] + length_min, place - reach), min(after - length_min, place + reach)
        found.append(
            first + _best_split(series_T[first:last], range(low - first, high - first + 1)) if low < high else place
        )
    return np.array(sorted(set(found)), np.int64)


def _best_split(values: Floats, among: range) -> int:
    """Where, of places in ascending order, to cut so that two medians leave the least absolute error."""
    return min(among, key=lambda place: _absolute_error(values[:place]) + _absolute_error(values[place:]))


def _absolute_error(values: Floats) -> float:
    seen = values[np.isfinite(values)]
    return float(np.sum(np.abs(seen - np.median(seen)))) if len(seen) else 0.0
