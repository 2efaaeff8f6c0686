"""Kernels of profiles: the features of entities in some bins, and how far they are from what was learnt.

E entities of one shape, T bins, oldest first, M metrics, S scales, F = M (1 + S) features, K factors, as in
`profile.py`.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.anomaly.detector_kernels import write_features
from leadline.analysis.columns import Floats, Ints
from leadline.analysis.compiled import compiled


@compiled(nogil=True)
def features(level_ETM: Floats, scale_S: Ints, newest: int, scale_ED: Floats, cut: float) -> tuple[Floats, Floats]:
    """Levels and moves of the newest N bins, as they are and each move in its own standard deviation, (E, N, F) both;
    NaN where missing in the first, 0 in the second."""
    entities, bins, metrics = level_ETM.shape
    count = metrics * (1 + len(scale_S))
    raw_TF, zeros_M, ones_M = np.empty((bins, count)), np.zeros(metrics), np.ones(metrics)
    raw_ENF, out_ENF = np.empty((entities, newest, count)), np.zeros((entities, newest, count))
    for e in range(entities):
        write_features(level_ETM[e], zeros_M, ones_M, scale_S, cut, raw_TF)
        for n in range(newest):
            for f in range(count):
                raw = raw_TF[bins - newest + n, f]
                raw_ENF[e, n, f] = raw
                z = raw if f < metrics else raw / scale_ED[e, f - metrics]
                out_ENF[e, n, f] = 0.0 if np.isnan(z) else min(max(z, -cut), cut)
    return raw_ENF, out_ENF


@compiled(nogil=True)
def squared(feature_ENF: Floats, own_EF: Floats, factor_EFK: Floats, inverse_EKK: Floats) -> Floats:
    """The squared distances f A^-1 f' of N bins of each entity, with A = diag(own) + factor factor' and `inverse` that
    of 1 + factor' diag(own)^-1 factor (Woodbury 1950): F K steps each instead of F^2."""
    entities, bins, count = feature_ENF.shape
    factors = factor_EFK.shape[2]
    out_EN, part_K = np.zeros((entities, bins)), np.zeros(factors)
    for e in range(entities):
        for n in range(bins):
            total = 0.0
            part_K[:] = 0.0
            for f in range(count):
                value = feature_ENF[e, n, f]
                if value != 0.0:
                    scaled = value / own_EF[e, f]
                    total += value * scaled
                    for k in range(factors):
                        part_K[k] += factor_EFK[e, f, k] * scaled
            for k in range(factors):
                for j in range(factors):
                    total -= part_K[k] * inverse_EKK[e, k, j] * part_K[j]
            out_EN[e, n] = max(total, 0.0)
    return out_EN
