"""Who makes collectives late, of a job that became slow: a first blame, before the ledger has its window.

rank 0  |..own..|wait.......|== collective ==|        wait: from the median arrival, or the end before,
rank 1  |..own...........|wait|== collective ==|             to the last arrival, less what ranks differ by anyway
rank 2  |..own................|== collective ==|        the rest until its end is the collective's own
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.call_kernels import Int32s
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, Calls, numbered
from leadline.analysis.symptoms.lateness_kernels import arrivals, baseline_offsets, met


@dataclass(frozen=True, slots=True)
class Lateness:
    """Seconds lost since a time, beyond what went on before it: to ranks that came last, and to communicators.

    Of K collectives, in order of time: when each was over, ns, who came last and how long it was waited for, s.
    """

    by_rank_s: dict[int, float]
    by_comm_s: dict[str, float]
    end_K: Ints = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    last_K: Ints = field(default_factory=lambda: np.zeros(0, np.int64), repr=False)
    wait_s_K: Floats = field(default_factory=lambda: np.zeros(0), repr=False)


@dataclass(frozen=True, slots=True)
class Meetings:
    """G collectives that all of their ranks called and left, in order of communicator and number; times in ns."""

    calls: Calls
    fits_N: Bools  # calls that may be of one
    ranks_R: Ints
    number_N: Ints  # of each call's rank
    begin_G: Ints  # first call, and the one after the last
    stop_G: Ints
    middle_G: Ints  # median entry
    end_G: Ints
    comm_G: Int32s
    kind_G: Ints  # communicator, operation and payload


def meetings_of(calls: Calls) -> Meetings:
    """What `lateness` goes by, whatever the times it is asked for."""
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    fits_N = (calls.ended_N < NEVER) & ~calls.failed_N & (calls.comm_N >= 0)
    if pair_O.any():
        fits_N &= ~pair_O[calls.op_N]
    found_G5 = met(calls.comm_N, calls.seq_N, calls.size_N, calls.entered_N, calls.ended_N, fits_N)
    begin_G, stop_G, first_G, middle_G, end_G = (np.ascontiguousarray(each) for each in found_G5.T)
    kinds_G3 = np.column_stack([calls.comm_N[first_G], calls.op_N[first_G], calls.bytes_N[first_G]])
    kind_G = np.unique(kinds_G3, axis=0, return_inverse=True)[1].ravel()
    comm_G = calls.comm_N[first_G]
    return Meetings(calls, fits_N, *numbered(calls.rank_N), begin_G, stop_G, middle_G, end_G, comm_G, kind_G)


def lateness(meetings: Meetings, since_ns: int, until_ns: int, calm_ns: int) -> Lateness:
    """What collectives that ended in [since, until) lost, held against those that ended before `calm_ns`.

    Arrivals are held against what each rank's arrivals differ from the median anyway: constant errors of clocks cancel.
    Nothing is told where no collective ended before.
    """
    end_G, comm_G, ranks_R = meetings.end_G, meetings.comm_G, meetings.ranks_R
    calm_G, now_G = end_G < calm_ns, (end_G >= since_ns) & (end_G < until_ns)
    if not calm_G.any() or not now_G.any():
        return Lateness({}, {})
    begin_G, stop_G, number_N = meetings.begin_G, meetings.stop_G, meetings.number_N
    entered_N, fits_N = meetings.calls.entered_N, meetings.fits_N
    usually_R = baseline_offsets(
        begin_G, stop_G, meetings.middle_G, calm_G, number_N, entered_N, fits_N, len(ranks_R)
    )  # fmt: skip
    middle_G, last_G, who_G = arrivals(begin_G, stop_G, usually_R, number_N, entered_N, fits_N)
    before_G = _end_before(end_G, comm_G)
    wait_G = np.maximum(last_G - np.maximum(middle_G, before_G), 0) / S
    own_G = np.clip(end_G - np.maximum(last_G, before_G), 0, None) / S
    wait_G, own_G = (_beyond(each, meetings.kind_G, calm_G) for each in (wait_G, own_G))
    comms = meetings.calls.comms
    late_R = np.bincount(who_G[now_G], wait_G[now_G], len(ranks_R))
    held_C = np.bincount(comm_G[now_G], own_G[now_G], len(comms))
    in_time = np.flatnonzero(now_G)[np.argsort(end_G[now_G], kind="stable")]
    return Lateness(
        {int(ranks_R[place]): float(late_R[place]) for place in np.flatnonzero(late_R > 0)},
        {comms[place]: float(held_C[place]) for place in np.flatnonzero(held_C > 0)},
        end_G[in_time],
        ranks_R[who_G[in_time]],
        wait_G[in_time],
    )


def _end_before(end_G: Ints, comm_G: Int32s) -> Ints:
    """When the collective before was over, of the same communicator; long ago for its first."""
    before_G = np.append(0, end_G[:-1])
    before_G[np.append(True, comm_G[1:] != comm_G[:-1])] = 0
    return before_G


def _beyond(value_G: Floats, kind_G: Ints, calm_G: Bools) -> Floats:
    """Values less what such collectives had in the mean while it was calm; sums of them may be negative."""
    kinds = int(kind_G.max()) + 1
    count_K = np.bincount(kind_G[calm_G], minlength=kinds)
    order = np.lexsort((value_G[calm_G], kind_G[calm_G]))  # one order of summation, whatever that of the rows
    sum_K = np.bincount(kind_G[calm_G][order], value_G[calm_G][order], kinds)
    whole = float(np.sort(value_G[calm_G]).sum()) / max(int(calm_G.sum()), 1)
    mean_K = np.where(count_K > 0, sum_K / np.maximum(count_K, 1), whole)
    return np.asarray(value_G - mean_K[kind_G], np.float64)
