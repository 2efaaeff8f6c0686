"""With a symptom: which entities explain that one of them is slow or fails, in seconds or failed requests."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.rootcause.deviation import Baseline, baseline, rise
from leadline.analysis.rootcause.propagation import Calls, Explained, explained
from leadline.analysis.rootcause.question import QUIET, window_length

Matrix = NDArray[np.float64]
Row = NDArray[np.float64]
Flags = NDArray[np.bool_]

LATENCY_FLOOR_S = 0.0005  # spread: half of the ms in which the finest of the published latencies are given
FAILED_FLOOR = 0.001  # spread: three nines; below, failures are a matter of single requests


@dataclass(frozen=True, slots=True)
class Symptom:
    """How much of a symptom N entities explain in the judged intervals, and how much of that is chance."""

    found: Explained
    bad: Baseline  # of the symptom's metric
    mean_N: Row  # of that metric, in the judged intervals; NaN where unknown
    rose: bool  # whether the symptom was above what is usual at all
    by_chance: float  # explained per interval in `QUIET` of the normal windows
    intervals: int

    @property
    def ranked(self) -> list[int]:
        """Places of the entities that explain it, the most first; none if chance explains as much."""
        if self.found.most / max(self.intervals, 1) <= self.by_chance:
            return []
        return self.found.ranked()


def explain(
    bad_TN: Matrix, requests_TN: Matrix, calls: Calls, target: int, *, judged_T: Flags, normal_T: Flags, floor: float
) -> Symptom:
    """What explains that the entity `target` is slow, or fails.

    Inputs: `bad_TN` (T, N): latency in s, or the share of requests that failed, NaN where unknown; `requests_TN` (T, N)
    to each entity in each interval, NaN where unknown (then as many as usual); which of the T intervals are judged, and
    which are normal; `floor`: least spread of a baseline, in the unit of `bad_TN`.
    Returns: `Symptom`; nothing is explained by chance alone. Source: see `propagation.explained`.
    """
    normal = _Learned(baseline(bad_TN[normal_T], floor=floor), baseline(requests_TN[normal_T]).middle_N, calls, target)
    found = normal.explain(bad_TN[judged_T], requests_TN[judged_T])
    intervals = int(judged_T.sum())
    by_chance = normal.by_chance(bad_TN[normal_T], requests_TN[normal_T], intervals)
    known_N = np.isfinite(bad_TN[judged_T]).any(axis=0)
    mean_N = np.full(calls.count, np.nan)
    mean_N[known_N] = np.nanmean(bad_TN[judged_T][:, known_N], axis=0)
    rose = bool(np.nansum(rise(bad_TN[judged_T], normal.bad)[:, target]) > 0)
    return Symptom(found, normal.bad, mean_N, rose, by_chance, intervals)


@dataclass(frozen=True, slots=True)
class _Learned:
    """What is usual."""

    bad: Baseline
    requests_N: Row
    calls: Calls
    target: int

    def explain(self, bad_TN: Matrix, told_TN: Matrix) -> Explained:
        """How much of the symptom each entity explains in some intervals."""
        requests_TN = np.where(np.isfinite(told_TN), told_TN, self.requests_N)
        lost_TN = rise(bad_TN, self.bad) * requests_TN
        symptom_T = (bad_TN[:, self.target] - self.bad.middle_N[self.target]) * requests_TN[:, self.target]
        silent_N = (told_TN == 0).all(axis=0)
        return explained(lost_TN, symptom_T, self.calls, self.target, silent_N=silent_N)

    def by_chance(self, bad_TN: Matrix, told_TN: Matrix, judged: int) -> float:
        """What is explained per interval in `QUIET` of the normal windows; 0 if there are none."""
        length = window_length(judged, len(bad_TN))
        begins: Sequence[int] = range(0, len(bad_TN) - length + 1, length)
        most = [self.explain(bad_TN[at : at + length], told_TN[at : at + length]).most / length for at in begins]
        return float(np.quantile(most, QUIET)) if most else 0.0
