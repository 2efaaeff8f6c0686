"""How odd each sample of a whole recording is: beside the calm part that it begins with, and beside all of itself.

    recording ──┬── fit on its first part ── score ──┐
                └── fit on all of it ─────── score ──┴── mean ── mean over 20 samples ──> score_N

The first part alone calls everything odd once a machine is used otherwise than then; all of it alone learns a long
anomaly as usual. Each is blind where the other sees.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.anomaly.detector import Scores, fit, score
from leadline.analysis.columns import Floats

SMOOTH = 20  # samples: what is odd for a moment is less so than what stays odd
LAGS = 100  # of a single metric: so many samples around each are judged together, as its shape


@dataclass(frozen=True, slots=True)
class Recorded:
    """How odd N samples of a recording are."""

    score_N: Floats  # averaged over `SMOOTH` samples around each, so it is known half of them later; 0: nothing known
    by_past: Scores  # beside its first part, sample by sample
    by_all: Scores  # beside all of it


def of_recording(value_NM: Floats, past: int, *, floor_M: Floats | None = None) -> Recorded:
    """How odd each sample is, and which metrics are.

    Inputs: value (N, M), evenly spaced; the first `past` samples count as usual. `floor_M` as for `fit`. Of a single
    metric the `LAGS` samples around each are judged as if they were metrics.
    """
    single = value_NM.shape[1] == 1 and len(value_NM) > 0
    judged_NL = _shape(value_NM) if single else value_NM
    models = [fit(known_TL, floor=floor_M, seasonal=True) for known_TL in (judged_NL[:past], judged_NL)]
    by_past, by_all = (score(model, judged_NL, place=0) for model in models)
    return Recorded(smoothed(np.nan_to_num((by_past.score, by_all.score)).mean(0), SMOOTH), by_past, by_all)


def smoothed(score_N: Floats, width: int) -> Floats:
    """Mean over `width` samples around each; at the ends the first and the last stand for what is not there."""
    before = width // 2
    padded = np.pad(score_N, (before, width - 1 - before), mode="edge") if len(score_N) else score_N
    return np.convolve(padded, np.ones(width) / width, "valid") if len(score_N) else score_N


def _shape(value_N1: Floats) -> Floats:
    """The `LAGS` samples around each of a single metric as so many metrics."""
    padded_N = np.pad(value_N1[:, 0], (LAGS // 2, LAGS - 1 - LAGS // 2), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded_N, LAGS).copy()
