"""How far an entity is from its own past: one score for all its metrics together, and the part of each metric in it.

    model = fit(past_ETM)                       # E entities of equal shape, T samples of the past, M metrics
    scores = score(model, now_ENM, before_EBM)  # N samples, B before them: one at a time or all at once, the same

    metrics ── robust scale ──> level ─┬──────────────────────────> features ── Mahalanobis ──> score
                                       └ minus mean of the newest ─┘
                                         4, 16, 64 samples: changes, at three speeds

The level finds what leaves its range or does not fit together with the rest, though each metric is in range; the
deviations find what moves when it usually does not, in range or not. The distance is brought to the scale of the
entity's own past, so that scores of entities with few and with many, with calm and with noisy metrics compare, and one
threshold is one budget of false alarms.

Pure, deterministic, without state. Missing values (NaN) count as nothing, neither odd nor usual.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.anomaly.detector_kernels import fit_entities, score_entities
from leadline.analysis.columns import Floats, Ints

SAMPLES_MIN = 20  # of the past: with fewer a model knows nothing, and every score is NaN
SCALES = (4, 16, 64)  # samples
CUT = 50.0  # standard deviations; beyond it "how far" says nothing, and one metric must not be all there is
FLOOR_SHARE = 0.01  # of the middle of a metric: of one that never moved, less than 1 % is no change worth telling
_DEVIATION_SHARE = 0.5
"""The scale is at least half the standard deviation. Ranges alone call the rare bursts of a metric odd that bursts once
an hour; the deviation alone is moved by one long anomaly in the past. A quarter of the past k deviations off makes the
scale 0.22 k: it still stands out by 4.6."""
_SHRINK_MIN = 0.25  # of the covariance towards none: correlations of the past are never believed wholly
_NORMAL_95 = 1.6448536269514722
_UNIT_MIN = 1 / 16  # a past in which nothing ever moved has distances of 0


@dataclass(frozen=True, slots=True)
class Model:
    """What is usual for E entities with M metrics (F features), learnt from T samples."""

    scale_S: Ints  # samples
    centre_EF: Floats
    scale_EF: Floats  # a robust standard deviation; NaN where the past does not say
    inverse_EXX: Floats  # of the shrunk covariance; with `past_ETF` of the products of samples: see `squared_of`
    past_ETF: Floats  # the features of a past of fewer samples than features; else T = 0
    distance_E2: Floats  # median and 95 % quantile of the distances of the past
    samples: int
    shrink: float  # of the covariance towards the identity
    unit_min: float  # distance that is at least one standard deviation


@dataclass(frozen=True, slots=True)
class Scores:
    """N samples of E entities (without E where the input had none)."""

    score: Floats
    """(E, N) robust standard deviations of the entity's own distance: 0 in the middle of its past, 1.64 at its 95 %
    quantile; below 0 for what is more usual than usual; NaN: not known."""
    share: Floats  # (E, N, M) part of each metric in it: >= 0, rows add up to 1; all 0 where nothing is odd or known
    z: Floats  # (E, N, M) of each metric alone, signed, cut at `CUT`; NaN: not known
    expected: Floats  # (E, N, M) value that was expected


def fit(past: Floats, *, floor: Floats | None = None, standard: bool = False) -> Model:
    """What is usual, from the past.

    Inputs: past (E, T, M) or (T, M), oldest first, evenly spaced; NaN where missing; some of it may be odd itself.
    `floor` (E, M) or (M,): the smallest change of each metric that is worth telling, in its unit; 1 % of its middle, if
    not told. `standard`: values are deviations from what each metric's own judge expects, in its standard deviations,
    floors and all: their middle is 0, their scale 1, and a distance of less than one of them is none.
    Accuracy: of 20 samples the scale is right to 25 % or so, of 100 to 10 % (one standard error, normal data).
    Source: Mahalanobis (1936) on robustly scaled features; shrinkage towards the identity as Ledoit, Wolf (JMVA 2004),
    with a fixed rate of a quarter, or F / (F + T) if that is more.
    """
    past_ETM = past[None] if past.ndim == 2 else past
    past_ETM = np.where(np.isfinite(past_ETM), past_ETM, np.nan)
    entities, samples, metrics = past_ETM.shape
    # A scale that the past does not hold four times over cannot be learnt from it.
    scale_S = np.array([scale for scale in SCALES if 4 * scale <= samples], np.int64)
    features = metrics * (1 + len(scale_S))
    short = features > samples  # then T samples say it all, and T^2 numbers do instead of F^2
    inner = samples if short else features
    shrink = max(_SHRINK_MIN, features / (features + max(samples, 1)))
    centre_EF, scale_EF = np.full((entities, features), np.nan), np.full((entities, features), np.nan)
    inner_EXX, past_ETF = np.zeros((entities, inner, inner)), np.zeros((entities, samples if short else 0, features))
    unit_min = 1 / np.sqrt(shrink) if standard else _UNIT_MIN
    unknown_E2 = np.full((entities, 2), np.nan)
    model = Model(scale_S, centre_EF, scale_EF, inner_EXX, past_ETF, unknown_E2, samples, shrink, unit_min)
    if samples < SAMPLES_MIN or not features:
        return model
    floor_EM = np.ones((entities, metrics)) if standard else _floor(past_ETM, floor)
    fit_entities(
        past_ETM, floor_EM, scale_S, SAMPLES_MIN, _DEVIATION_SHARE, CUT, standard, centre_EF, scale_EF, past_ETF,
        inner_EXX,
    )  # fmt: skip
    model = replace(model, inverse_EXX=np.linalg.inv((1 - shrink) * inner_EXX + shrink * np.eye(inner)))
    squared_ET, _, _ = _judged(model, past_ETM, 0)
    return replace(model, distance_E2=_usual_distances(squared_ET, (1 - shrink) / samples))


def _usual_distances(squared_ET: Floats, weight: float) -> Floats:
    """Median and 95 % quantile of the distances of the past, each sample as if it had not been fitted to.

    Of a covariance A that sample f is part of with a weight w, it is known what f A^-1 f' is without it: q / (1 - w q)
    (Sherman, Morrison 1950). So nothing is fitted twice, and a short past is not taken for a calm one.
    """
    apart_ET = np.sqrt(squared_ET / np.maximum(1 - weight * squared_ET, 1e-6))
    return np.asarray(np.quantile(apart_ET, (0.5, 0.95), axis=1).T)


def _judged(model: Model, value_ETM: Floats, before: int) -> tuple[Floats, Floats, Floats]:
    """Squared distances (E, N), shares and levels (E, N, M) of what comes after the first `before` samples."""
    entities, samples, metrics = value_ETM.shape
    squared_EN, z_ENM = (
        np.full((entities, samples - before), np.nan),
        np.full((entities, samples - before, metrics), np.nan),
    )
    share_ENM = np.zeros((entities, samples - before, metrics))
    if model.samples >= SAMPLES_MIN and metrics:
        score_entities(
            np.ascontiguousarray(value_ETM), before, model.scale_S, CUT, model.shrink, model.centre_EF, model.scale_EF,
            model.inverse_EXX, model.past_ETF, squared_EN, share_ENM, z_ENM,
        )  # fmt: skip
    return squared_EN, share_ENM, z_ENM


def score(model: Model, now: Floats, before: Floats | None = None) -> Scores:
    """How far N samples are from what is usual.

    Inputs: now (E, N, M) or (N, M), evenly spaced as the past was. `before` (E, B, M) or (B, M): the samples just
    before them (more than 63 change nothing); without it the first samples have nothing to deviate from.
    Returns: `Scores`, without the axis E where `now` had none. A sample's numbers depend on the model, on itself and on
    the 63 before it, and on nothing else: not on how many are scored at once.
    """
    now_ENM = now[None] if now.ndim == 2 else now
    entities, _, metrics = now_ENM.shape
    known = np.zeros((entities, 0, metrics)) if before is None else before[None] if before.ndim == 2 else before
    known_EBM = known[:, max(0, known.shape[1] - (max(SCALES) - 1)) :]
    value_ETM = np.concatenate([known_EBM, now_ENM], axis=1)
    value_ETM = np.where(np.isfinite(value_ETM), value_ETM, np.nan)
    squared_EN, share_ENM, z_ENM = _judged(model, value_ETM, known_EBM.shape[1])
    expected_ENM = np.broadcast_to(model.centre_EF[:, None, :metrics], now_ENM.shape).copy()
    known_E = np.asarray(np.isfinite(model.scale_EF[:, :metrics]).any(1))
    score_EN = np.where(known_E[:, None], _in_deviations(model, np.sqrt(squared_EN)), np.nan)
    whole = Scores(score_EN, share_ENM, z_ENM, expected_ENM)
    if now.ndim == 2:
        return Scores(whole.score[0], whole.share[0], whole.z[0], whole.expected[0])
    return whole


def _in_deviations(model: Model, distance_EN: Floats) -> Floats:
    middle_E1, high_E1 = model.distance_E2[:, :1], model.distance_E2[:, 1:]
    unit_E1 = np.maximum((high_E1 - middle_E1) / _NORMAL_95, model.unit_min)
    return np.asarray((distance_EN - middle_E1) / unit_E1)


def _floor(past_ETM: Floats, floor: Floats | None) -> Floats:
    """The smallest scale of each metric, (E, M)."""
    entities, _, metrics = past_ETM.shape
    if floor is not None:
        return np.ascontiguousarray(np.broadcast_to(np.maximum(floor, 1e-300), (entities, metrics)))
    middle_EM = np.zeros((entities, metrics))
    seen_EM = np.isfinite(past_ETM).any(1)
    middle_EM[seen_EM] = np.nanmedian(past_ETM.transpose(0, 2, 1)[seen_EM], axis=1)
    return np.maximum(FLOOR_SHARE * np.abs(middle_EM), 1e-12)
