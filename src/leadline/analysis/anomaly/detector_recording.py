"""How odd each sample of a whole recording is: beside the calm part that it begins with, and beside all of itself.

    recording ──┬── fit on its first part ── score ──┐
                └── fit on all of it ─────── score ──┴── mean ── mean over 20 samples ──> score_N

The first part alone calls everything odd once a machine is used otherwise than then; all of it alone learns a long
anomaly as usual. Each is blind where the other sees.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.anomaly.detector import Scores, fit, score
from leadline.analysis.columns import Floats

SMOOTH = 20  # samples: what is odd for a moment is less so than what stays odd
LAGS = 100  # of a single metric: so many samples around each are judged together, as its shape


def of_recording(value_NM: Floats, past: int, *, floor_M: Floats | None = None) -> Scores:
    """How odd each sample is, and which metrics are.

    Inputs: value (N, M), evenly spaced; the first `past` samples count as usual. `floor_M` as for `fit`.
    Returns: scores without the axis E, the score averaged over `SMOOTH` samples around each (so it is known half of
    them later). Where nothing is known the score is 0.
    """
    single = value_NM.shape[1] == 1
    if not len(value_NM):
        return score(fit(value_NM), value_NM)
    judged_NL = _shape(value_NM) if single else value_NM
    floor = floor_M[:1] if single and floor_M is not None else floor_M
    models = (fit(judged_NL[:past], floor=floor), fit(judged_NL, floor=floor))
    by_past, by_all = (score(model, judged_NL, place=0) for model in models)
    smooth_N = smoothed(np.nan_to_num((by_past.score, by_all.score)).mean(0), SMOOTH)
    if single:  # one metric: all that is odd is its
        middle = LAGS // 2
        share_N1 = (by_all.share.sum(1, keepdims=True) > 0).astype(np.float64)
        return Scores(smooth_N, share_N1, by_all.z[:, middle, None], by_all.expected[:, middle, None])
    return Scores(smooth_N, by_all.share, by_all.z, by_all.expected)


def smoothed(score_N: Floats, width: int) -> Floats:
    """Mean over `width` samples around each; at the ends the first and the last stand for what is not there."""
    before = width // 2
    padded = np.pad(score_N, (before, width - 1 - before), mode="edge") if len(score_N) else score_N
    return np.convolve(padded, np.ones(width) / width, "valid") if len(score_N) else score_N


def _shape(value_N1: Floats) -> Floats:
    """The `LAGS` samples around each of a single metric as so many metrics."""
    padded_N = np.pad(value_N1[:, 0], (LAGS // 2, LAGS - 1 - LAGS // 2), mode="edge")
    return np.lib.stride_tricks.sliding_window_view(padded_N, LAGS).copy()
