"""What is usual of an entity's metrics together, learnt over hours a few bins at a time, in a state of some KB.

    bins ── less centre, by scale ──> levels ─┬──────────────────────────> features ── distance ──> score
                                              └ minus mean of the newest ┘     │
                                                4, 16 bins: moves              └ factors + what each has of its own

As `detector.py`, whose past is a matrix of samples; here nothing of the past is kept but means, scales, the K leading
factors of the covariance and the scale of the distances themselves. Each bin is scored before it is learnt, so the unit
is that of bins that were not known. All means forget: the newest `MEMORY` bins or so count.

Pure and deterministic: a profile is a function of the one before it and of the bins since.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.anomaly.detector import CUT
from leadline.analysis.anomaly.profile_kernels import features, squared
from leadline.analysis.columns import Bools, Floats, Ints

BINS_FIRST = 5  # of the window that a profile begins with
COUNT_KNOWN = 20  # values of a metric before it is judged: those of others say nothing of it
BINS_KNOWN = 60  # learnt, from which a profile judges
MEMORY = 2880  # bins: four hours of 5 s
SCALES = (4, 16)  # bins
FACTORS = 4
LEARNT_AT_MOST = 8.0  # standard deviations: what is further out is learnt as if it were so far
DISTANCE_AT_MOST = 4.0  # the same of distances
_SHRINK_MIN = 0.25  # as of the detector: correlations are never believed wholly
_UNIT_MIN = 0.25  # that is learnt
_MOVES_MIN = 0.05  # of the scale of a level: what only drifts is odd when it jumps


@dataclass(frozen=True, slots=True)
class Bins:
    """What one window says of an entity's M metrics, bin 0 the newest; or of those of several, one after the other."""

    y_MB: Floats  # as it is judged beside its past: less what the peers do where that is so
    peers_MB: Floats  # score beside its peers; NaN where there is none
    floor_M: Floats  # the smallest deviation that counts as one
    side_M: Floats  # +1, -1: only this side is odd; 0: both


@dataclass(frozen=True, slots=True)
class Profile:
    """What is usual. D = M len(scales) moves, F = M + D features."""

    bins: float  # learnt
    count_M: Floats  # of each metric
    centre_M: Floats
    scale_M: Floats
    moves_D: Floats  # scale of each move
    own_F: Floats  # variance that no factor tells
    factor_FK: Floats
    middle: float  # of the distances; NaN: none was seen
    unit: float

    @property
    def knows(self) -> bool:
        """Whether it was learnt from enough to judge by."""
        return self.bins >= BINS_KNOWN and np.isfinite(self.middle)


def scales_of(bins: int, newest: int) -> int:
    """How many scales of moves the oldest of the `newest` bins of a window of `bins` still has behind it."""
    return sum(bins - newest + 1 >= scale for scale in SCALES)


def begun(seen: Bins, scales: int) -> Profile | None:
    """The profile of an entity of which nothing is known yet, by all bins of the window; None: there are too few."""
    there_MB = np.isfinite(seen.y_MB)
    count_M = there_MB.sum(axis=1).astype(np.float64)
    if not len(count_M) or count_M.max() < BINS_FIRST:
        return None
    centre_M, scale_M = _of_new(seen.y_MB)
    metrics = len(count_M)
    features_of = metrics * (1 + scales)
    nothing_FK = np.zeros((features_of, FACTORS))
    return Profile(count_M.max(), count_M, centre_M, scale_M, np.ones(metrics * scales), np.ones(features_of),
                   nothing_FK, np.nan, np.nan)  # fmt: skip


def _of_new(y_MB: Floats) -> tuple[Floats, Floats]:
    """Median and standard deviation of what is there; (0, 0) of nothing."""
    centre_M, scale_M = np.zeros(len(y_MB)), np.zeros(len(y_MB))
    full_M = np.isfinite(y_MB).any(axis=1)
    centre_M[full_M] = np.nanmedian(y_MB[full_M], axis=1)
    scale_M[full_M] = np.nanstd(y_MB[full_M], axis=1)
    return centre_M, scale_M


def matched(known: Profile, place_M: Ints, seen: Bins) -> Profile:
    """The profile of the metrics that are there now. `place_M`: which each was, -1 for one that is new: of that it
    knows what this window says, and no bin counts as learnt."""
    before, metrics = len(known.centre_M), len(place_M)
    if before == metrics and (place_M == np.arange(metrics)).all():
        return known
    is_new_M = place_M < 0
    centre_M, scale_M = _of_new(seen.y_MB)
    features_of = len(known.own_F) // max(before, 1)
    place_F = np.concatenate([np.where(is_new_M, -1, place_M + part * before) for part in range(features_of)])
    new_F = place_F < 0
    move_D = np.where(new_F[metrics:], 0, place_F[metrics:] - before)  # there may be as few moves as metrics

    def put(old: Floats, new: Floats | float) -> Floats:
        return np.where(is_new_M, new, old[place_M])

    return replace(
        known, count_M=put(known.count_M, 0.0), centre_M=put(known.centre_M, centre_M),
        scale_M=put(known.scale_M, scale_M),
        moves_D=np.where(new_F[metrics:], 1.0, known.moves_D[move_D]),
        own_F=np.where(new_F, 1.0, known.own_F[place_F]),
        factor_FK=np.where(new_F[:, None], 0.0, known.factor_FK[place_F]),
    )  # fmt: skip


def distances(known: Sequence[Profile], seen: Bins, newest: int) -> tuple[Floats, Floats]:
    """Scores of the newest N bins of E entities, oldest first, and the part of each metric in them, (E, N) and
    (E, N, M). `known`: profiles of one shape; `seen`: of all of them, M rows of each after the other.

    Scores are standard deviations of the distances that were seen while it was learnt: 0 is usual.
    """
    _, feature_ENF, distance_EN = _judged(known, seen, newest)
    entities, metrics = len(known), len(known[0].centre_M)
    middle_E = np.array([each.middle for each in known])
    # A distance of less than one standard deviation of one metric is none.
    unit_E = np.array([max(each.unit, 1 / np.sqrt(_shrink(each))) for each in known])
    square_ENM = (feature_ENF**2).reshape(entities, newest, -1, metrics).sum(axis=2)
    share_ENM = square_ENM / np.maximum(square_ENM.sum(axis=2), 1e-300)[:, :, None]
    return (distance_EN - middle_E[:, None]) / unit_E[:, None], share_ENM


def _judged(known: Sequence[Profile], seen: Bins, newest: int) -> tuple[Floats, Floats, Floats]:
    """Features of the newest bins as they are and in their own scale, and their distances: (E, N, F) and (E, N)."""
    entities, metrics = len(known), len(known[0].centre_M)
    scale_S = np.array(SCALES[: len(known[0].own_F) // max(metrics, 1) - 1], np.int64)
    level_TL = levels(
        seen.y_MB, seen.peers_MB, np.concatenate([each.count_M for each in known]) >= COUNT_KNOWN,
        np.concatenate([each.centre_M for each in known]), np.concatenate([each.scale_M for each in known]),
        seen.floor_M, seen.side_M, CUT,
    )  # fmt: skip
    level_ETM = np.ascontiguousarray(level_TL.reshape(-1, entities, metrics).transpose(1, 0, 2))
    moves_ED = np.stack([each.moves_D for each in known])
    raw_ENF, feature_ENF = features(level_ETM, scale_S, newest, moves_ED, CUT)
    shrink_E1 = np.array([[_shrink(each)] for each in known])
    own_EF = (1 - shrink_E1) * np.stack([each.own_F for each in known]) + shrink_E1
    factor_EFK = np.sqrt(1 - shrink_E1)[:, :, None] * np.stack([each.factor_FK for each in known])
    inner_EKK = np.eye(FACTORS) + (factor_EFK / own_EF[:, :, None]).transpose(0, 2, 1) @ factor_EFK
    return raw_ENF, feature_ENF, np.sqrt(squared(feature_ENF, own_EF, factor_EFK, np.linalg.inv(inner_EKK)))


def _shrink(known: Profile) -> float:
    features_of = len(known.own_F)
    return max(_SHRINK_MIN, features_of / (features_of + known.bins))


def learnt(known: Profile, seen: Bins, newest: int) -> Profile:
    """The profile after the newest N bins of a window, which it scores first.

    Means and variances forget exponentially; values count as no further out than `LEARNT_AT_MOST`, so that a fault
    of an hour moves a scale by a part and is not learnt as usual at once, and what has really changed is in the end.
    The factors: Ross et al., "Incremental Learning for Robust Visual Tracking" (IJCV 2008), without their mean.
    """
    (raw_NF,), (feature_NF,), (distance_N,) = _judged([known], seen, newest)
    metrics = len(known.centre_M)
    now_NM = seen.y_MB[:, :newest].T
    there_NM = np.isfinite(now_NM)
    count_M = there_NM.sum(axis=0)
    rate_M = count_M / (np.minimum(known.count_M, MEMORY) + np.maximum(count_M, 1))
    wide_M = LEARNT_AT_MOST * np.maximum(known.scale_M, seen.floor_M)
    off_NM = np.where(there_NM, np.clip(now_NM - known.centre_M, -wide_M, wide_M), 0.0)
    mean_M = off_NM.sum(axis=0) / np.maximum(count_M, 1)
    spread_M = np.where(there_NM, (off_NM - mean_M) ** 2, 0.0).sum(axis=0) / np.maximum(count_M, 1)
    variance_M = (1 - rate_M) * known.scale_M**2 + rate_M * (spread_M + (1 - rate_M) * mean_M**2)
    rate = newest / (min(known.bins, MEMORY) + newest)
    moved_D = _mean_square(raw_NF[:, metrics:], LEARNT_AT_MOST * known.moves_D)
    moves_D = np.sqrt((1 - rate) * known.moves_D**2 + rate * np.where(np.isnan(moved_D), known.moves_D**2, moved_D))
    cut_NF = np.clip(feature_NF, -LEARNT_AT_MOST, LEARNT_AT_MOST) * _believed(known, distance_N)[:, None]
    own_F, factor_FK = _factors(known, cut_NF, rate)
    middle, unit = _unit(known, distance_N, rate)
    return Profile(
        known.bins + newest, known.count_M + count_M, known.centre_M + rate_M * mean_M, np.sqrt(variance_M),
        np.maximum(moves_D, _MOVES_MIN), own_F, factor_FK, middle, unit,
    )  # fmt: skip


def _believed(known: Profile, distance_N: Floats) -> Floats:
    """How much of each bin its factors learn: what is far out together would else be a factor of its own at once, and
    no distance along a factor that a share s of the past is part of exceeds 1 / sqrt(s)."""
    if not np.isfinite(known.middle):
        return np.ones(len(distance_N))
    return np.minimum(1.0, (known.middle + DISTANCE_AT_MOST * known.unit) / np.maximum(distance_N, 1e-9))


def _mean_square(value_ND: Floats, most_D: Floats) -> Floats:
    """Mean square of what is there, cut; NaN of nothing."""
    there_ND = np.isfinite(value_ND)
    cut_ND = np.where(there_ND, np.clip(value_ND, -most_D, most_D), 0.0)
    count_D = there_ND.sum(axis=0)
    return np.where(count_D > 0, (cut_ND**2).sum(axis=0) / np.maximum(count_D, 1), np.nan)


def _factors(known: Profile, feature_NF: Floats, rate: float) -> tuple[Floats, Floats]:
    """Variance of its own and factors of each feature, with some bins more."""
    rows_RF = np.concatenate([np.sqrt(1 - rate) * known.factor_FK.T, np.sqrt(rate / len(feature_NF)) * feature_NF])
    _, axis_RR = np.linalg.eigh(rows_RF @ rows_RF.T)
    factor_FK = rows_RF.T @ axis_RR[:, -FACTORS:]
    before_F = known.own_F + (known.factor_FK**2).sum(axis=1)
    whole_F = (1 - rate) * before_F + rate * (feature_NF**2).mean(axis=0)
    return np.maximum(whole_F - (factor_FK**2).sum(axis=1), 0.0), factor_FK


def _unit(known: Profile, distance_N: Floats, rate: float) -> tuple[float, float]:
    """Middle and scale of the distances, with some more."""
    if not np.isfinite(known.middle):
        return float(np.median(distance_N)), max(float(distance_N.std()), _UNIT_MIN)
    wide = DISTANCE_AT_MOST * known.unit
    off_N = np.clip(distance_N - known.middle, -wide, wide)
    mean = float(off_N.mean())
    variance = (1 - rate) * known.unit**2 + rate * (float(off_N.var()) + (1 - rate) * mean**2)
    return known.middle + rate * mean, max(float(np.sqrt(variance)), _UNIT_MIN)


def levels(
    y_MB: Floats, peers_MB: Floats, known_M: Bools, centre_M: Floats, scale_M: Floats, floor_M: Floats,
    side_M: Floats, cut: float,
) -> Floats:  # fmt: skip
    """How far each metric is from what was learnt of it, in its standard deviations, (B, M), oldest first.

    y: as it is judged beside its past, bin 0 the newest. peers: its score beside its peers; where there is one the
    lesser of the two counts, 0 if one is high and one low. NaN where the value or the past is not known.
    """
    one_M = np.where(known_M, np.maximum(scale_M, floor_M), np.nan)
    z_MB = np.clip((y_MB - centre_M[:, None]) / one_M[:, None], -cut, cut)
    z_MB[z_MB * side_M[:, None] < 0.0] = 0.0
    opposed_MB = z_MB * peers_MB <= 0.0
    z_MB = np.where(np.abs(peers_MB) < np.abs(z_MB), peers_MB, z_MB)
    z_MB[opposed_MB] = 0.0
    return np.ascontiguousarray(z_MB[:, ::-1].T)
