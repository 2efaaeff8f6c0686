"""Kernels of profiles: the features of one entity in some bins, and how far they are from what was learnt.

T bins, oldest first, M metrics, S scales, F = M (1 + S) features, K factors, as in `profile.py`.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from leadline.analysis.anomaly.detector_kernels import write_features
from leadline.analysis.columns import Floats, Ints


@njit(cache=True, nogil=True)
def features(level_TM: Floats, scale_S: Ints, newest: int, scale_D: Floats, cut: float) -> tuple[Floats, Floats]:
    """Levels and moves of the newest N bins, as they are and each move in its own standard deviation, (N, F) both; NaN
    where missing in the first, 0 in the second."""
    bins, metrics = level_TM.shape
    raw_TF = np.empty((bins, metrics * (1 + len(scale_S))))
    write_features(level_TM, np.zeros(metrics), np.ones(metrics), scale_S, cut, raw_TF)
    raw_NF = raw_TF[bins - newest :].copy()
    out_NF = np.zeros(raw_NF.shape)
    for n in range(newest):
        for f in range(raw_NF.shape[1]):
            z = raw_NF[n, f] if f < metrics else raw_NF[n, f] / scale_D[f - metrics]
            out_NF[n, f] = 0.0 if np.isnan(z) else min(max(z, -cut), cut)
    return raw_NF, out_NF


@njit(cache=True, nogil=True)
def squared(feature_NF: Floats, own_F: Floats, factor_FK: Floats, inverse_KK: Floats) -> Floats:
    """The squared distances f A^-1 f' of N bins, with A = diag(own) + factor factor' and `inverse` that of
    1 + factor' diag(own)^-1 factor (Woodbury 1950): F K steps each instead of F^2."""
    bins, count = feature_NF.shape
    factors = factor_FK.shape[1]
    out_N, part_K = np.zeros(bins), np.zeros(factors)
    for n in range(bins):
        total = 0.0
        part_K[:] = 0.0
        for f in range(count):
            value = feature_NF[n, f]
            if value != 0.0:
                scaled = value / own_F[f]
                total += value * scaled
                for k in range(factors):
                    part_K[k] += factor_FK[f, k] * scaled
        for k in range(factors):
            for j in range(factors):
                total -= part_K[k] * inverse_KK[k, j] * part_K[j]
        out_N[n] = max(total, 0.0)
    return out_N
