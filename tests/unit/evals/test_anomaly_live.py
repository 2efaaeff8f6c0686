"""The windows of the live analysis over a recording: all at once is one after the other, as it is live."""

from __future__ import annotations

import numpy as np
from evals.anomaly_live import BIN_NS, BINS, live

from leadline.analysis.anomaly.anomaly import LOOK_BACK_NS
from leadline.analysis.anomaly.kinds import OTHER
from leadline.analysis.anomaly.scores import scored
from leadline.analysis.anomaly.streams import Names, Samples, Streams
from leadline.analysis.anomaly.together import distances
from leadline.analysis.columns import Floats

METRICS = 5


def a_recording() -> Floats:
    value_NM = 10 + np.random.default_rng(3).normal(size=(90, METRICS))
    value_NM[60:66, :3] += 8
    return value_NM


def one_window(value_NM: Floats, newest: int) -> float:
    """The score of the window that ends with a sample, as the live analysis comes to it from its samples."""
    seen_TM = value_NM[max(0, newest - BINS + 1) : newest + 1]
    time_T = (newest + 1 - len(seen_TM) + np.arange(len(seen_TM))) * BIN_NS + 1
    there_MT = np.isfinite(seen_TM.T)
    begin_R = np.concatenate([[0], np.cumsum(there_MT.sum(1))])
    samples = Samples(begin_R, np.tile(time_T, (METRICS, 1))[there_MT], seen_TM.T[there_MT])
    none_R = np.zeros(METRICS, np.int64)
    names = [f"m{metric}" for metric in range(METRICS)]
    streams = Streams(none_R, np.arange(METRICS), none_R, none_R, none_R > 0, Names([("", "host:recorded")]), names,
                      [OTHER] * METRICS, [""], samples, none_R - 1)  # fmt: skip
    to_ns = (newest + 1) * BIN_NS
    (tier,) = scored(streams, np.arange(METRICS), none_R - 2**62, None, to_ns, LOOK_BACK_NS + BIN_NS).tiers
    return float(np.nan_to_num(distances(tier.lesser_KB[None]).score[0, -1]))


def test_windows_one_after_the_other_and_all_at_once_give_the_same_scores() -> None:
    value_NM = a_recording()
    whole = live(value_NM)
    for newest in (5, 30, 38, 59, 60, 61, 62, 63, 70, 89):
        assert one_window(value_NM, newest) == whole.score_N[newest]
    assert whole.score_N[61:64].min() > 3 * np.abs(whole.score_N[:60]).max()
    assert set(np.argsort(-whole.share_NM[62])[:3].tolist()) == {0, 1, 2}


def test_with_too_little_past_nothing_is_said() -> None:
    assert not live(a_recording()[:20]).score_N.any()
