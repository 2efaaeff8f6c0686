"""How far an entity is from its own past: one score for all its metrics together, and the part of each metric in it.

    model = fit(past_ETM)               # E entities of equal shape, T samples of the past, M metrics
    scores = score(model, now_ENM)      # N samples; one at a time or all at once: the same numbers

A sample is judged by two witnesses that are blind to each other's cases. *Extremes*: the metrics that are farthest from
their own middle, in robust standard deviations; finds what leaves its range. *Joint*: the Mahalanobis distance with the
correlations of the past; finds what is in range and does not fit together. Both are brought to the scale of a standard
normal, so that scores of entities with few and with many metrics compare, and then to the tails of the entity's own
past, so that a noisy entity does not use up the false alarms of all others.

Pure, deterministic, without state. Missing values (NaN) count as nothing, neither odd nor usual.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.anomaly.detector_kernels import quantiles_of
from leadline.analysis.columns import Floats, Ints

SAMPLES_MIN = 20  # of the past: with fewer a model knows nothing, and every score is NaN
Z_MAX = 30.0  # beyond it "how far" says nothing; it keeps one metric that was constant from being all there is
FLOOR_SHARE = 0.01  # of the middle of a metric: what is smaller than 1 % of it is no change worth telling
_AT_Q = np.array([0.05, 0.25, 0.5, 0.75, 0.95])
_CLIP = 4.0  # correlations are taken of values cut here: outliers of the past do not bend them (Winsorised covariance)
_TAIL = 0.98  # quantile of the past that is brought to where it is for a standard normal
_TAIL_Z = 2.0537489106318225
_EXTREMES = 3  # how many metrics the first witness looks at


@dataclass(frozen=True, slots=True)
class Model:
    """What is usual for E entities with M metrics, learnt from T samples."""

    centre_EM: Floats
    scale_EM: Floats  # a robust standard deviation; NaN where the past does not say
    precision_EMM: Floats  # inverse of the shrunk correlations
    tail_E2: Floats  # what the two witnesses are divided by; at least 1
    known_E: Floats  # 1.0, or NaN for an entity with too little past
    samples: int


@dataclass(frozen=True, slots=True)
class Scores:
    """N samples of E entities (without E where the input had none)."""

    score: Floats  # (E, N) robust standard deviations, >= 0; NaN: not known
    share: Floats  # (E, N, M) part of each metric in it: >= 0, rows add up to 1; 0 where nothing is odd or known
    z: Floats  # (E, N, M) of each metric alone, signed; NaN: not known
    expected: Floats  # (E, N, M) value that was expected


def fit(past: Floats) -> Model:
    """What is usual, from the past.

    Inputs: past (E, T, M) or (T, M), oldest first, evenly spaced; NaN where missing. Some of it may be odd itself: up
    to a quarter of the samples moves neither middle nor scale much.
    Accuracy: of 20 samples the scale is right to 25 % or so, of 100 to 10 % (one standard error, normal data).
    Source: robust location and scale as in Rousseeuw, Croux (JASA 1993); Winsorised correlations with shrinkage to the
    identity as in Ledoit, Wolf (JMVA 2004), with a fixed rate M / (M + T) for few samples.
    """
    past_ETM = past[None] if past.ndim == 2 else past
    entities, samples, metrics = past_ETM.shape
    series_ST = np.ascontiguousarray(past_ETM.transpose(0, 2, 1)).reshape(entities * metrics, samples)
    quantile_SQ = np.empty((entities * metrics, len(_AT_Q)))
    quantiles_of(series_ST, _AT_Q, quantile_SQ)
    low, left, centre, right, high = (quantile_SQ[:, place].reshape(entities, metrics) for place in range(5))
    scale_EM = np.maximum((right - left) / 1.349, (high - low) / 3.29)
    scale_EM = np.maximum(scale_EM, np.maximum(FLOOR_SHARE * np.abs(centre), 1e-12))
    enough_EM = np.isfinite(past_ETM).sum(1) >= SAMPLES_MIN
    scale_EM = np.where(enough_EM, scale_EM, np.nan)
    known_E = np.where(enough_EM.any(1), 1.0, np.nan)
    z_ETM = _standard(past_ETM, centre, scale_EM)
    precision_EMM = _precision(np.clip(np.nan_to_num(z_ETM), -_CLIP, _CLIP), samples)
    bare = Model(centre, scale_EM, precision_EMM, np.ones((entities, 2)), known_E, samples)
    witness_ET2 = _witnesses(bare, z_ETM)
    tail_E2 = np.quantile(witness_ET2, _TAIL, axis=1) / _TAIL_Z if samples else np.ones((entities, 2))
    return Model(centre, scale_EM, precision_EMM, np.maximum(tail_E2, 1.0), known_E, samples)


def score(model: Model, now: Floats, *, place_N: Ints | None = None) -> Scores:
    """How far N samples are from what is usual.

    Inputs: now (E, N, M) or (N, M). `place_N`: the numbers of the samples, counted from the first of the past; those
    that follow the past, if not told (a model with a season asks where in it a sample is).
    Returns: `Scores`, without the axis E where `now` had none.
    """
    now_ENM = now[None] if now.ndim == 2 else now
    z_ENM = _standard(now_ENM, model.centre_EM, model.scale_EM)
    witness_EN2 = _witnesses(model, z_ENM) / model.tail_E2[:, None, :]
    score_EN = witness_EN2.max(2) * model.known_E[:, None]
    share_ENM = _shares(model, z_ENM)
    expected_ENM = np.broadcast_to(model.centre_EM[:, None, :], now_ENM.shape)
    if now.ndim == 2:
        return Scores(score_EN[0], share_ENM[0], z_ENM[0], expected_ENM[0])
    return Scores(score_EN, share_ENM, z_ENM, expected_ENM)


def _standard(value_ETM: Floats, centre_EM: Floats, scale_EM: Floats) -> Floats:
    with np.errstate(over="ignore", invalid="ignore"):
        z_ETM = (value_ETM - centre_EM[:, None, :]) / scale_EM[:, None, :]
    return np.asarray(np.clip(z_ETM, -Z_MAX, Z_MAX))


def _precision(z_ETM: Floats, samples: int) -> Floats:
    metrics = z_ETM.shape[2]
    if not samples:
        return np.broadcast_to(np.eye(metrics), (len(z_ETM), metrics, metrics)).copy()
    covariance_EMM = z_ETM.transpose(0, 2, 1) @ z_ETM / samples
    shrink = metrics / (metrics + samples)
    covariance_EMM = (1 - shrink) * covariance_EMM + max(shrink, 0.05) * np.eye(metrics)
    return np.linalg.inv(covariance_EMM)


def _witnesses(model: Model, z_ENM: Floats) -> Floats:
    """Extremes and joint, each on the scale of a standard normal's upper side."""
    metrics = max(1, z_ENM.shape[2])
    z_ENM = np.nan_to_num(z_ENM)
    few = min(_EXTREMES, metrics)
    top_ENK = -np.sort(-np.abs(z_ENM), axis=2)[:, :, :few]
    # The largest of M absolute normals is about sqrt(2 ln 2M): that much is nothing odd.
    extreme_EN = np.sqrt(np.maximum(0.0, (top_ENK**2).mean(2) - 2 * np.log(metrics)))
    distance_EN = np.einsum("enm,emk,enk->en", z_ENM, model.precision_EMM, z_ENM, optimize=True)
    # Wilson, Hilferty: the cube root of a chi-squared is close to normal.
    cube_EN = np.cbrt(np.maximum(distance_EN, 0.0) / metrics)
    joint_EN = np.maximum(0.0, (cube_EN - (1 - 2 / (9 * metrics))) / np.sqrt(2 / (9 * metrics)))
    return np.stack([extreme_EN, joint_EN], axis=2)


def _shares(model: Model, z_ENM: Floats) -> Floats:
    z_ENM = np.nan_to_num(z_ENM)
    part_ENM = np.maximum(z_ENM**2, 0.0)
    sum_EN1 = part_ENM.sum(2, keepdims=True)
    return np.where(sum_EN1 > 0, part_ENM / np.where(sum_EN1 > 0, sum_EN1, 1.0), 0.0)
