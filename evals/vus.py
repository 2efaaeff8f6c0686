"""VUS-PR, as TSB-AD computes it: the area under the curve of precision over recall, with labels that have soft edges,
averaged over all widths of the edges from 0 to the period of the series. No point adjustment.

Sources: Paparrizos, Boniol, Palpanas, Tsay, Elmore, Franklin: Volume Under the Surface (PVLDB 15, 2022), sections 3 and
4; Liu, Paparrizos: The Elephant in the Room (TSB-AD, NeurIPS 2024), and the public repository TheDatumOrg/TSB-AD, file
`TSB_AD/evaluation/basic_metrics.py`, for what the papers leave open: which thresholds, how edges overlap, what counts
as found. Our own implementation: O(widths x samples) instead of O(widths x thresholds x samples).
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints

THRESHOLDS = 250
PERIOD_USUAL = 125  # where a series has none
_LAGS = 400
_LAG_FIRST = 3
_PERIOD_SAMPLES = 20_000


def period_of(value_N: Floats) -> int:
    """The period of a series in samples: the lag of the largest maximum of its autocorrelation, 6 to 303; else 125.

    Source: `find_length_rank` of TSB-AD, rank 1. Of a series with several metrics it is that of the first.
    """
    seen_N = value_N[:_PERIOD_SAMPLES] - np.mean(value_N[:_PERIOD_SAMPLES])
    power = np.abs(np.fft.rfft(seen_N, 2 * len(seen_N))) ** 2
    product_L = np.fft.irfft(power)[: min(_LAGS + 1, len(seen_N))]
    if not product_L[0] > 0:
        return PERIOD_USUAL
    correlation_L = (product_L / product_L[0])[_LAG_FIRST:]
    inner_L = correlation_L[1:-1]
    peak_L = 1 + np.flatnonzero((inner_L > correlation_L[:-2]) & (inner_L > correlation_L[2:]))
    if not len(peak_L):
        return PERIOD_USUAL
    lag = int(peak_L[np.argmax(correlation_L[peak_L])])
    return lag + _LAG_FIRST if 3 <= lag <= 300 else PERIOD_USUAL


def vus_pr(label_N: Bools, score_N: Floats, width_max: int, thresholds: int = THRESHOLDS) -> float:
    """Volume under the surface of precision, recall and width of the edges.

    Inputs: label_N, true where odd; score_N, finite, higher is odder; width_max: the largest width, `period_of`.
    Returns: 0 to 1 (nearly: recall counts half of the edges, as there). NaN if nothing is labelled, or all is.
    """
    begin_A, end_A = _spans(label_N)
    if not len(begin_A) or label_N.all():
        return float("nan")
    rank_N, told_K = _ranks(score_N, thresholds)
    core_K = np.cumsum(np.bincount(rank_N[label_N], minlength=thresholds))
    areas = [
        _area(label_N, begin_A, end_A, width, rank_N, told_K, core_K) for width in range(max(0, width_max) + 1)
    ]  # fmt: skip
    return float(np.mean(areas))


def _spans(label_N: Bools) -> tuple[Ints, Ints]:
    """First and last sample of each of A anomalies."""
    step_N = np.diff(np.concatenate([[0], label_N.astype(np.int64), [0]]))
    return np.flatnonzero(step_N == 1), np.flatnonzero(step_N == -1) - 1


def _ranks(score_N: Floats, thresholds: int) -> tuple[Ints, Ints]:
    """From which of K thresholds on, highest first, each sample is told, and how many each threshold tells."""
    falling_N = -np.sort(-score_N)
    threshold_K = falling_N[np.linspace(0, len(score_N) - 1, thresholds).astype(np.int64)]
    rank_N = np.searchsorted(-threshold_K, -score_N, side="left")
    return rank_N, np.cumsum(np.bincount(rank_N, minlength=thresholds))


def _area(
    label_N: Bools, begin_A: Ints, end_A: Ints, width: int, rank_N: Ints, told_K: Ints, core_K: Ints
) -> float:  # fmt: skip
    """Area under the curve for edges of one width."""
    thresholds, real = len(told_K), int(label_N.sum())
    edge_N = _edges(label_N, begin_A, end_A, width)
    at = np.flatnonzero(edge_N)
    edge_K = np.cumsum(np.bincount(rank_N[at], weights=edge_N[at], minlength=thresholds))
    hit_K = core_K + edge_K
    found_K = _found(begin_A, end_A, width // 2, rank_N, thresholds)
    # What there is to find: the labels, and half of the edges that are told.
    recall_K = np.minimum(hit_K / (real + edge_K / 2), 1.0) * found_K
    rise_K = np.diff(np.concatenate([[0.0], recall_K]))
    return float(np.dot(rise_K, hit_K / told_K))


def _edges(label_N: Bools, begin_A: Ints, end_A: Ints, width: int) -> Floats:
    """Soft labels beside the anomalies, half a width on each side: sqrt(1 - distance / width), summed, at most 1."""
    edge_N = np.zeros(len(label_N))
    for distance in range(1, width // 2 + 1):
        for at_A in (end_A + distance, begin_A - distance):
            inside_A = at_A[(at_A >= 0) & (at_A < len(label_N))]
            np.add.at(edge_N, inside_A, np.sqrt(1 - distance / width))
    edge_N[label_N] = 0.0
    return np.minimum(edge_N, 1.0)


def _found(begin_A: Ints, end_A: Ints, half: int, rank_N: Ints, thresholds: int) -> Floats:
    """Share of anomalies (those whose edges meet are one) of which each threshold tells at least a sample."""
    apart = np.flatnonzero(end_A[:-1] + half < begin_A[1:] - half)
    first_B = np.maximum(begin_A[np.concatenate([[0], apart + 1])] - half, 0)
    last_B = np.minimum(end_A[np.concatenate([apart, [len(end_A) - 1]])] + half, len(rank_N) - 1)
    earliest_B = np.array([rank_N[first : last + 1].min() for first, last in zip(first_B, last_B, strict=True)])
    return np.asarray(np.cumsum(np.bincount(earliest_B, minlength=thresholds)) / len(first_B))
