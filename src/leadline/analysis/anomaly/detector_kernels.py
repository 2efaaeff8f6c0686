"""Kernels of the detector: one entity after the other, each with little memory of its own.

E entities, T samples of the past, N samples now, B samples before them, M metrics, S scales, F = M (1 + S) features:
first the M levels, then the M deviations from the mean of the newest `scale_S[0]` samples, and so on. X = F, or T where
the past is shorter than that: what is inverted is the smaller of covariance and products of samples (see `squared_of`).
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.compiled import compiled

_NORMAL_50, _NORMAL_90, _NORMAL_98 = 1.349, 3.2897, 4.6527  # how wide the middle 50, 90, 98 % of a normal are, in sd


@compiled(nogil=True)
def quantile_of(sorted_T: Floats, at: float) -> float:
    """The quantile `at` (0 to 1) of sorted values, linear between them; there is at least one."""
    exact = at * (len(sorted_T) - 1)
    low = int(exact)
    high = min(low + 1, len(sorted_T) - 1)
    return float(sorted_T[low] + (sorted_T[high] - sorted_T[low]) * (exact - low))


@compiled(nogil=True)
def usual_of(value_T: Floats, samples_min: int, deviation_share: float, floor: float) -> tuple[float, float]:
    """Middle and scale of the values that are there: the widest of three ranges, and a share of the deviation.

    Returns: (NaN, NaN) if there are fewer than `samples_min`.
    """
    sorted_T = np.sort(value_T)  # what is missing (NaN) goes to the end
    count = len(sorted_T)
    while count > 0 and np.isnan(sorted_T[count - 1]):
        count -= 1
    if count < max(samples_min, 1):
        return np.nan, np.nan
    seen_T = sorted_T[:count]
    mean, square = 0.0, 0.0
    for value in seen_T:
        mean += value / count
    for value in seen_T:
        square += (value - mean) ** 2 / count
    scale = (quantile_of(seen_T, 0.75) - quantile_of(seen_T, 0.25)) / _NORMAL_50
    scale = max(scale, (quantile_of(seen_T, 0.95) - quantile_of(seen_T, 0.05)) / _NORMAL_90)
    scale = max(scale, (quantile_of(seen_T, 0.99) - quantile_of(seen_T, 0.01)) / _NORMAL_98)
    scale = max(scale, deviation_share * np.sqrt(square))
    return quantile_of(seen_T, 0.5), max(scale, floor)


@compiled(nogil=True)
def write_features(
    value_TM: Floats, centre_M: Floats, scale_M: Floats, scale_S: Ints, cut: float, out_TF: Floats
) -> None:
    """Write levels in standard deviations, and how far each is from the mean of the newest few; NaN where missing.

    The sum over the newest few is always taken from the oldest to the newest, so that a sample comes out the same to
    the last bit whatever is computed with it.
    """
    samples, metrics = value_TM.shape
    for t in range(samples):
        for m in range(metrics):
            z = (value_TM[t, m] - centre_M[m]) / scale_M[m]
            out_TF[t, m] = min(max(z, -cut), cut) if np.isfinite(value_TM[t, m]) else np.nan
    for s in range(len(scale_S)):
        for t in range(samples):
            first = max(0, t - scale_S[s] + 1)
            for m in range(metrics):
                total, count = 0.0, 0
                for u in range(first, t + 1):
                    if not np.isnan(out_TF[u, m]):
                        total += out_TF[u, m]
                        count += 1
                out_TF[t, (s + 1) * metrics + m] = out_TF[t, m] - total / max(count, 1)


@compiled(nogil=True)
def standardise(out_TF: Floats, centre_F: Floats, scale_F: Floats, cut: float, first: int) -> None:
    """Bring features from `first` on to their own scale; what is missing becomes 0, the most usual value."""
    for t in range(out_TF.shape[0]):
        for f in range(out_TF.shape[1]):
            z = out_TF[t, f] if f < first else (out_TF[t, f] - centre_F[f]) / scale_F[f]
            out_TF[t, f] = 0.0 if np.isnan(z) else min(max(z, -cut), cut)


@compiled(nogil=True)
def fit_entities(
    past_ETM: Floats, floor_EM: Floats, scale_S: Ints, samples_min: int, deviation_share: float, cut: float,
    standard: bool, centre_EF: Floats, scale_EF: Floats, feature_ETF: Floats, inner_EXX: Floats,
) -> None:  # fmt: skip
    """Write for each entity the middles and scales of its features, and their covariance; where `feature_ETF` has room
    for them, the features of the past and their products with each other instead. `standard`: levels have a middle of
    0 and a scale of 1 already."""
    entities, samples, metrics = past_ETM.shape
    features = centre_EF.shape[1]
    dual = feature_ETF.shape[1] > 0
    feature_TF = np.empty((samples, features))
    for e in range(entities):
        for m in range(metrics):
            centre_EF[e, m], scale_EF[e, m] = usual_of(past_ETM[e, :, m], samples_min, deviation_share, floor_EM[e, m])
            if standard and not np.isnan(scale_EF[e, m]):
                centre_EF[e, m], scale_EF[e, m] = 0.0, 1.0
        write_features(past_ETM[e], centre_EF[e], scale_EF[e], scale_S, cut, feature_TF)
        for f in range(metrics, features):
            # Of a level that never moved by more than its floor, deviations count in the same unit; of any other
            # they may be a hundredth of it: what only drifts is odd when it jumps.
            never = standard or scale_EF[e, f % metrics] <= floor_EM[e, f % metrics]
            centre_EF[e, f], scale_EF[e, f] = usual_of(
                feature_TF[:, f], samples_min, deviation_share, 1.0 if never else 0.01
            )
        standardise(feature_TF, centre_EF[e], scale_EF[e], cut, metrics)
        if dual:
            feature_ETF[e] = feature_TF
            write_products(feature_TF, inner_EXX[e])
        else:
            write_covariance(feature_TF, inner_EXX[e])


@compiled(nogil=True)
def write_covariance(feature_TF: Floats, out_FF: Floats) -> None:
    """Write the mean product of each two features."""
    samples, features = feature_TF.shape
    for t in range(samples):
        for f in range(features):
            part = feature_TF[t, f] / samples
            if part != 0.0:
                for g in range(f, features):
                    out_FF[f, g] += part * feature_TF[t, g]
    for f in range(features):
        for g in range(f):
            out_FF[f, g] = out_FF[g, f]


@compiled(nogil=True)
def write_products(feature_TF: Floats, out_TT: Floats) -> None:
    """Write the product of each two samples, by the number of samples."""
    samples, features = feature_TF.shape
    for t in range(samples):
        for u in range(t, samples):
            total = 0.0
            for f in range(features):
                total += feature_TF[t, f] * feature_TF[u, f]
            out_TT[t, u] = out_TT[u, t] = total / samples


@compiled(nogil=True)
def squared_of(feature_F: Floats, inverse_XX: Floats, past_TF: Floats, shrink: float, turned_X: Floats) -> float:
    """The squared distance of one sample: f A^-1 f' with A = (1 - s) C + s I, C the covariance of the past.

    `inverse_XX` is A^-1; or, where `past_TF` = P is given, that of (1 - s) P P' / T + s I, and the same distance is
    (f f' - (1 - s) / T f P' inverse P f') / s (Woodbury 1950), in T^2 + T F steps instead of F^2.
    """
    features = len(feature_F)
    turned_X[:] = 0.0
    total = 0.0
    if len(past_TF) == 0:
        for f in range(features):
            part = feature_F[f]
            if part != 0.0:
                for g in range(features):
                    turned_X[g] += part * inverse_XX[f, g]
        for f in range(features):
            total += feature_F[f] * turned_X[f]
        return max(total, 0.0)
    own = 0.0
    for f in range(features):
        own += feature_F[f] * feature_F[f]
    samples = len(past_TF)
    for t in range(samples):
        for f in range(features):
            turned_X[t] += past_TF[t, f] * feature_F[f]
    for t in range(samples):
        for u in range(samples):
            total += turned_X[t] * inverse_XX[t, u] * turned_X[u]
    return max((own - (1.0 - shrink) / samples * total) / shrink, 0.0)


@compiled(nogil=True)
def score_entities(
    value_ETM: Floats, before: int, scale_S: Ints, cut: float, shrink: float, centre_EF: Floats, scale_EF: Floats,
    inverse_EXX: Floats, past_ETF: Floats, squared_EN: Floats, share_ENM: Floats, z_ENM: Floats,
) -> None:  # fmt: skip
    """Write the squared distance of each sample after the first `before`, the part of each metric, and its level.

    Loops instead of products of matrices: those round otherwise for other numbers of samples.
    """
    entities, samples, metrics = value_ETM.shape
    features = centre_EF.shape[1]
    feature_TF = np.empty((samples, features))
    turned_X = np.empty(inverse_EXX.shape[1])
    for e in range(entities):
        write_features(value_ETM[e], centre_EF[e], scale_EF[e], scale_S, cut, feature_TF)
        z_ENM[e] = feature_TF[before:, :metrics]
        standardise(feature_TF, centre_EF[e], scale_EF[e], cut, metrics)
        for n in range(samples - before):
            feature_F = feature_TF[before + n]
            total = 0.0
            for f in range(features):
                share_ENM[e, n, f % metrics] += feature_F[f] * feature_F[f]
                total += feature_F[f] * feature_F[f]
            squared_EN[e, n] = squared_of(feature_F, inverse_EXX[e], past_ETF[e], shrink, turned_X)
            for m in range(metrics):
                share_ENM[e, n, m] /= max(total, 1e-300)
