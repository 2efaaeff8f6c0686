"""The floors beside which the detector is shown, and how well it names the metrics at fault."""

from __future__ import annotations

import math

import numpy as np

from evals.anomaly_data import Recording
from evals.vus import period_of
from leadline.analysis.columns import Floats

TOP_RATIO = 1.5  # how many metrics may be named for each that is at fault
_EXPLAINED = 0.25  # share of the variance that the floor's components explain: what TSB-AD found best for PCA


def pca(value_NM: Floats) -> Floats:
    """The floor: distances to the leading components, weighted by what they explain. Of a single metric the windows of
    one period are judged (Sub-PCA), with all components.

    Source: Shyu et al. (2003), as in pyod and TSB-AD (`models/PCA.py`), fitted on the whole series as there; it comes
    within 0.001 of the published VUS-PR of two of the three machines that we have, within 0.01 of that of the third.
    """
    if value_NM.shape[1] > 1:
        return _weighted(value_NM, _EXPLAINED)
    window = min(period_of(value_NM[:, 0]), len(value_NM))
    score_N = _weighted(np.lib.stride_tricks.sliding_window_view(value_NM[:, 0], window), 1.0)
    return np.pad(score_N, (math.ceil((window - 1) / 2), (window - 1) // 2), mode="edge")


def _weighted(value_NM: Floats, explained: float) -> Floats:
    deviation_M = value_NM.std(0)
    z_NM = (value_NM - value_NM.mean(0))[:, deviation_M > 0] / deviation_M[deviation_M > 0]
    if not z_NM.size:
        return np.zeros(len(value_NM))
    variance_C, axis_MC = np.linalg.eigh(z_NM.T @ z_NM)
    share_C = np.maximum(variance_C[::-1], 0) / variance_C.sum()
    kept_C = share_C[: int(np.searchsorted(np.cumsum(share_C), explained, side="right")) + 1]
    kept_C = kept_C[kept_C > 1e-12]
    axis_CM = axis_MC.T[::-1][: len(kept_C)]
    # |x - v|^2 of a unit vector v: |x|^2 - 2 x v + 1. Its sign does not matter much, and the library's is not ours.
    squared_NC = (z_NM**2).sum(1)[:, None] - 2 * z_NM @ _signed(axis_CM).T + 1
    return np.asarray((np.sqrt(np.maximum(squared_NC, 0)) / kept_C).sum(1))


def _signed(axis_CM: Floats) -> Floats:
    """Axes whose largest part is positive: as the library that TSB-AD uses has them."""
    largest_C = np.abs(axis_CM).argmax(1)
    return np.asarray(axis_CM * np.sign(axis_CM[np.arange(len(axis_CM)), largest_C])[:, None])


def n_sigma(value_NM: Floats, past: int) -> Floats:
    """The other floor: the largest deviation of any metric from its mean over the training part, in its standard
    deviations there. (Of one that was constant: in those of the whole series.)"""
    known_NM = value_NM[:past] if past > 1 else value_NM
    deviation_M = known_NM.std(0)
    deviation_M = np.where(deviation_M > 1e-9, deviation_M, value_NM.std(0))
    return np.asarray((np.abs(value_NM - known_NM.mean(0)) / np.where(deviation_M > 0, deviation_M, 1.0)).max(1))


def hit_rates(recording: Recording, share_NM: Floats, weight_N: Floats) -> list[float]:
    """Of each span of which it is told: the share of the metrics at fault among the first k, k = 1.5 times their
    number (HitRate@150%). Shares count by how odd the sample is.

    Source: Su et al.: OmniAnomaly (KDD 2019), section 4.5; by span as Li et al.: InterFusion (KDD 2021).
    """
    rates = []
    for first, last, metrics in recording.told:
        blame_M = (share_NM[first : last + 1] * weight_N[first : last + 1, None]).sum(0)
        named = np.argsort(-blame_M, kind="stable")[: int(TOP_RATIO * len(metrics))]
        rates.append(len(metrics & set(named.tolist())) / len(metrics))
    return rates
