"""The windows of the live analysis over a recording: all at once is one after the other, as it is live."""

from __future__ import annotations

import numpy as np
from evals.anomaly_live import BIN_NS, BINS, live
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.builders.small_job import Row, table

from leadline.analysis.anomaly.anomaly import LOOK_BACK_NS
from leadline.analysis.anomaly.kinds import OTHER
from leadline.analysis.anomaly.profile import BINS_KNOWN
from leadline.analysis.anomaly.profile_rows import Profiles, profile_columns
from leadline.analysis.anomaly.scores import Scored, scored
from leadline.analysis.anomaly.streams import Names, Samples, Streams
from leadline.analysis.anomaly.together import distances
from leadline.analysis.columns import Floats
from leadline.analysis.spec import Window

METRICS = 5


def a_recording(seed: int = 3) -> Floats:
    rng = np.random.default_rng(seed)
    value_NM = 10 + rng.normal(size=(140, METRICS))
    value_NM[60:66, :3] += 8
    return value_NM


def window_of(value_NM: Floats, newest: int) -> tuple[Streams, Scored]:
    """The streams of the window that ends with a sample, and their scores, as the live analysis comes to them."""
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
    return streams, scored(streams, np.arange(METRICS), none_R - 2**62, None, to_ns, LOOK_BACK_NS + BIN_NS)


def one_after_the_other(value_NM: Floats) -> list[float]:
    """The score of each window, each of which reads the rows that earlier ones wrote."""
    rows: list[Row] = []
    scores = []
    for newest in range(len(value_NM)):
        streams, found = window_of(value_NM, newest)
        to_ns = (newest + 1) * BIN_NS
        profiles = Profiles.of(table("profile", rows), [frozenset()], to_ns)
        (tier,) = found.tiers
        known = profiles.judged(streams, tier, np.ones(1, bool))
        score_N = known[0][2].score if known else distances(tier.lesser_KB[None]).score[0]
        scores.append(float(np.nan_to_num(score_N[-1])))
        written = profile_columns(profiles.learnt(streams, found), Window(to_ns - BIN_NS, to_ns))
        rows += [dict(zip(written, row, strict=True)) for row in zip(*written.values(), strict=True)]
    return scores


def test_what_stands_out_is_far_from_all_else_and_it_is_said_which() -> None:
    whole = live(a_recording())
    assert whole.score_N[61:64].min() > 3 * np.abs(whole.score_N[:60]).max()
    assert set(np.argsort(-whole.share_NM[62])[:3].tolist()) == {0, 1, 2}


@settings(deadline=None, max_examples=2)
@given(seed=st.integers(0, 2**32 - 1))
def test_windows_one_after_the_other_and_all_at_once_give_the_same_scores(seed: int) -> None:
    value_NM = a_recording(seed)
    whole = live(value_NM)
    assert len(value_NM) > BINS_KNOWN + 36  # windows are judged by what was learnt, too
    assert one_after_the_other(value_NM) == whole.score_N.tolist()


def test_with_too_little_past_nothing_is_said() -> None:
    assert not live(a_recording()[:20]).score_N.any()
