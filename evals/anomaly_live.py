"""How odd the live analysis calls each sample of a recording: the core of its windows, many windows at once.

Each sample counts as one bin of 5 s, so a window looks back on as many samples as it does live: 36. Every window is
judged by what it sees alone; what earlier windows told is not taken out of its past, as it is live.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.anomaly.anomaly import LOOK_BACK_NS
from leadline.analysis.anomaly.kinds import OTHER
from leadline.analysis.anomaly.profile import SCALES, Bins, Profile, begun, learnt
from leadline.analysis.anomaly.profile import distances as by_profile
from leadline.analysis.anomaly.profile_rows import EACH_NS, METRICS_MIN, packed, unpacked
from leadline.analysis.anomaly.scores import Tier, tier_of
from leadline.analysis.anomaly.streams import Names, Samples, Streams
from leadline.analysis.anomaly.together import distances
from leadline.analysis.columns import Floats
from leadline.analysis.spec import S

BIN_NS = 5 * S
BINS = LOOK_BACK_NS // BIN_NS + 1  # that a window has, its own among them
AT_ONCE = 400  # windows


@dataclass(frozen=True, slots=True)
class Live:
    """Of N samples of M metrics: the score of all metrics together in the window of each sample, and their parts."""

    score_N: Floats  # 0: not known
    share_NM: Floats


def live(value_NM: Floats) -> Live:
    """Judge the windows of all samples: by the profile that earlier windows learnt, once that knows enough."""
    samples, metrics = value_NM.shape
    seen_WM = np.concatenate([np.full((BINS - 1, metrics), np.nan), value_NM])
    score_N, share_NM = np.zeros(samples), np.zeros((samples, metrics))
    profile: Profile | None = None
    learnt_to = 0
    for first in range(0, samples, AT_ONCE):
        until = min(samples, first + AT_ONCE)
        window_WMB = np.lib.stride_tricks.sliding_window_view(seen_WM[first : until + BINS - 1], BINS, axis=0)
        tier = tier_of_windows(window_WMB[:, :, ::-1])  # bin 0 is the newest
        found = distances(tier.lesser_KB.reshape(window_WMB.shape))
        score_N[first:until], share_NM[first:until] = found.score[:, -1], found.share[:, -1]
        for sample in range(first, until):
            rows = slice((sample - first) * metrics, (sample - first + 1) * metrics)
            seen = Bins(tier.y_KB[rows], tier.peers_KB[rows], tier.floor_K[rows], tier.side_K[rows])
            if profile is not None and profile.knows:
                own_N, own_NM = by_profile(profile, seen, 1)
                score_N[sample], share_NM[sample] = own_N[0], own_NM[0]
            due = profile is None or (sample - learnt_to) * BIN_NS >= EACH_NS
            told = next_profile(profile, seen, sample - learnt_to) if due and metrics >= METRICS_MIN else None
            if told is not None:
                profile, learnt_to = told, sample
    return Live(np.nan_to_num(score_N), share_NM)


def next_profile(profile: Profile | None, seen: Bins, newest: int) -> Profile | None:
    """What the window writes, as it is read back."""
    told = begun(seen, len(SCALES)) if profile is None else learnt(profile, seen, newest)
    return told and unpacked(packed(told), len(told.centre_M), told.bins)


def tier_of_windows(window_WMB: Floats) -> Tier:
    """The metrics of W windows, each as a stream of its own, without peers; metric by metric, window by window."""
    windows, metrics, bins = window_WMB.shape
    rows = windows * metrics
    row_R = np.arange(rows)
    return tier_of(alone(rows), row_R, row_R, np.ascontiguousarray(window_WMB.reshape(rows, bins)), BIN_NS, None, 0)


def alone(rows: int) -> Streams:
    """Streams of which nothing is known: no kind, no peers, and here no samples."""
    none_R = np.zeros(rows, np.int64)
    samples = Samples(np.zeros(rows + 1, np.int64), np.zeros(0, np.int64), np.zeros(0))
    return Streams(none_R, none_R, none_R, none_R, none_R > 0, Names([("", "host:recorded")]), ["recorded"], [OTHER],
                   [""], samples, none_R - 1)  # fmt: skip
