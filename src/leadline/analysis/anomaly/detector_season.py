"""The season of an entity's metrics: how long it is, and what is usual at each place in it.

Found in the past alone, and only where the past holds it three times: with two, anything that came twice is a season.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats, Ints

CYCLES_MIN = 3
PERIOD_MIN = 12  # samples; anything faster is left to the deviations
_CORRELATION_MIN = 0.4  # of a metric with itself a season later
_GAIN_MIN = 0.2  # of its scale that the season takes off, at least, on cycles that it was not learnt from
_LONGER_GAIN = 1.1  # how much more a longer period must take off
_LIKELY_MAX = 6
_PLACES = 48  # of a season, at most: each is the median of many samples, and an odd cycle does not bend it


@dataclass(frozen=True, slots=True)
class Season:
    """What the season adds at each of P places (P = 1 and all 0: no season). E entities, M metrics."""

    period_E: Ints  # samples; 0: none
    added_EPM: Floats

    def at(self, sample_T: Ints) -> Floats:
        """What it adds to samples by their number, counted from the first of the past: (E, T, M)."""
        places = self.added_EPM.shape[1]
        period_E1 = np.maximum(self.period_E, 1)[:, None]
        place_ET = np.mod(sample_T[None, :], period_E1) * places // period_E1
        return np.asarray(np.take_along_axis(self.added_EPM, place_ET[:, :, None], axis=1))


def no_season(entities: int, metrics: int) -> Season:
    """For entities that have none."""
    return Season(np.zeros(entities, np.int64), np.zeros((entities, 1, metrics)))


def season_of(past_ETM: Floats) -> Season:
    """The season of each entity: one period for all its metrics, and for each metric whether it follows it.

    Inputs: past (E, T, M), evenly spaced, NaN where missing. A metric follows a season if what is usual at each place,
    learnt from the first half of the cycles, takes a fifth off the scale of the others. Of the periods that are likely,
    the one with which most is taken off counts; of nearly equal ones (a day, and three days) the shortest.
    """
    entities, samples, metrics = past_ETM.shape
    seasons = (
        [_season_of_one(past_TM) for past_TM in past_ETM] if samples >= CYCLES_MIN * PERIOD_MIN and metrics else []
    )
    if not any(period for period, _ in seasons):
        return no_season(entities, metrics)
    return Season(np.array([period for period, _ in seasons], np.int64), np.stack([added for _, added in seasons]))


def _season_of_one(past_TM: Floats) -> tuple[int, Floats]:
    samples, metrics = past_TM.shape
    best, best_gain, added_PM = 0, 0.0, np.zeros((_PLACES, metrics))
    for period in likely_periods(past_TM):
        half = samples // period // 2 * period
        gain_M = _gain(past_TM[half:], _profile(past_TM[:half], period), period)
        gain = float(gain_M[gain_M >= _GAIN_MIN].sum())
        if gain > best_gain * _LONGER_GAIN:
            best, best_gain = period, gain
            added_PM = np.where(gain_M >= _GAIN_MIN, _profile(past_TM, period), 0.0)
    return best, added_PM


def likely_periods(past_TM: Floats) -> list[int]:
    """Periods after which metrics repeat, in samples, shortest first: the strongest maxima of their autocorrelation,
    summed over the metrics that repeat at all, up to a third of the past."""
    samples = len(past_TM)
    lag_max = samples // CYCLES_MIN
    with np.errstate(invalid="ignore"):
        centred_TM = past_TM - _median(past_TM)
        wide_M = 3 * np.nan_to_num(_median(np.abs(centred_TM)))
        # Bursts are no season: values are cut, and what is missing is in the middle.
        cut_TM = np.nan_to_num(np.clip(centred_TM, -wide_M, wide_M))
    moves_M = wide_M > 0
    if not moves_M.any():
        return []
    cut_TM = (cut_TM - cut_TM.mean(0))[:, moves_M] / wide_M[moves_M]
    power = np.abs(np.fft.rfft(cut_TM, 2 * samples, axis=0)) ** 2
    product_LM = np.fft.irfft(power, axis=0)[: lag_max + 2]
    correlation_LM = product_LM / np.maximum(product_LM[0], 1e-9)
    # Fewer samples overlap at long lags: as many as are compared count.
    correlation_LM *= (samples / (samples - np.arange(len(correlation_LM))))[:, None]
    strong_L = np.where(correlation_LM >= _CORRELATION_MIN, correlation_LM, 0.0).sum(1)
    peak_L = 1 + np.flatnonzero((strong_L[1:-1] > strong_L[:-2]) & (strong_L[1:-1] >= strong_L[2:]))
    peak_L = peak_L[(peak_L >= PERIOD_MIN) & (peak_L <= lag_max)]
    strongest_L = peak_L[np.argsort(-strong_L[peak_L], kind="stable")[:_LIKELY_MAX]]
    return sorted(int(lag) for lag in strongest_L)


def _profile(past_TM: Floats, period: int) -> Floats:
    """How far the usual value at each place of the season is from the usual value, (P, M)."""
    place_T = np.arange(len(past_TM)) % period * _PLACES // period
    middle_M = np.nan_to_num(_median(past_TM))
    out_PM = np.zeros((_PLACES, past_TM.shape[1]))
    for place in range(_PLACES):
        here_TM = past_TM[place_T == place]
        if len(here_TM):
            out_PM[place] = np.nan_to_num(_median(here_TM) - middle_M)
    return out_PM


def _gain(rest_TM: Floats, learnt_PM: Floats, period: int) -> Floats:
    """What share of the scale of whole cycles that it was not learnt from the season takes off, (M,)."""
    place_T = np.arange(len(rest_TM)) % period * _PLACES // period
    plain_M = _median(np.abs(rest_TM - _median(rest_TM)))
    calm_TM = rest_TM - learnt_PM[place_T]
    calm_M = _median(np.abs(calm_TM - _median(calm_TM)))
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.nan_to_num(1 - calm_M / plain_M, nan=0.0, neginf=0.0, posinf=0.0)


def _median(value_TM: Floats) -> Floats:
    """Median of what is there, by column; NaN where nothing is."""
    out_M = np.full(value_TM.shape[1], np.nan)
    seen_M = np.isfinite(value_TM).any(0)
    out_M[seen_M] = np.nanmedian(value_TM[:, seen_M], axis=0)
    return out_M
