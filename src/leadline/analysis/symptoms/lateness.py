"""Who makes collectives late, of a job that became slow: a first blame, before the ledger has its window.

rank 0  |..own..|wait.......|== collective ==|        wait: from the median arrival, or the end before,
rank 1  |..own...........|wait|== collective ==|             to the last arrival, less what ranks differ by anyway
rank 2  |..own................|== collective ==|        the rest until its end is the collective's own
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, Calls


@dataclass(frozen=True, slots=True)
class Lateness:
    """Seconds lost since a time, beyond what went on before it: to ranks that came last, and to communicators."""

    by_rank_s: dict[int, float]
    by_comm_s: dict[str, float]


def lateness(calls: Calls, since_ns: int, until_ns: int, calm_ns: int) -> Lateness:
    """What collectives that ended in [since, until) lost, held against those that ended before `calm_ns`.

    Arrivals are held against what each rank's arrivals differ from the median anyway: constant errors of clocks cancel.
    Nothing is told where no collective ended before.
    """
    met = _met(calls)
    if met is None:
        return Lateness({}, {})
    group_M, rank_M, entered_M, begin_G, end_G, comm_G, kind_G = met
    calm_G, now_G = end_G < calm_ns, (end_G >= since_ns) & (end_G < until_ns)
    if not calm_G.any() or not now_G.any():
        return Lateness({}, {})
    usually_R = _usual_offset(group_M, rank_M, entered_M, begin_G, calm_G)
    right_M = entered_M - usually_R[rank_M]
    order_M = np.lexsort((rank_M, right_M, group_M))
    last = np.append(np.flatnonzero(np.diff(group_M[order_M])), len(group_M) - 1)
    size_G = np.diff(np.append(-1, last))
    middle_G = right_M[order_M][last - size_G + 1 + (size_G - 1) // 2]
    last_G, who_G = right_M[order_M][last], rank_M[order_M][last]
    before_G = _end_before(end_G, comm_G)
    wait_G = np.maximum(last_G - np.maximum(middle_G, before_G), 0) / S
    own_G = np.clip(end_G - np.maximum(last_G, before_G), 0, None) / S
    wait_G, own_G = (_beyond(each, kind_G, calm_G) for each in (wait_G, own_G))
    ranks, comms = np.unique(calls.rank_N), calls.comms
    late_R = np.bincount(who_G[now_G], wait_G[now_G], len(ranks))
    held_C = np.bincount(comm_G[now_G], own_G[now_G], len(comms))
    return Lateness(
        {int(ranks[place]): float(late_R[place]) for place in np.flatnonzero(late_R > 0)},
        {comms[place]: float(held_C[place]) for place in np.flatnonzero(held_C > 0)},
    )


def _met(calls: Calls) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints, Ints] | None:
    """Collectives that all who called them left: group and rank of each call, median entry and end of each group."""
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    fits_N = (calls.ended_N < NEVER) & ~calls.failed_N & ~pair_O[calls.op_N] & (calls.comm_N >= 0)
    over = np.flatnonzero(fits_N)
    if not len(over):
        return None
    comm_M, seq_M = calls.comm_N[over], calls.seq_N[over]
    new_M = np.append(True, (comm_M[1:] != comm_M[:-1]) | (seq_M[1:] != seq_M[:-1]))
    group_M, first = np.cumsum(new_M) - 1, np.flatnonzero(new_M)
    size_G = np.diff(np.append(first, len(over)))
    whole_G: Bools = (size_G == calls.size_N[over][first]) & (size_G > 1)
    keep_M = whole_G[group_M]
    if not keep_M.any():
        return None
    over, group_M = over[keep_M], np.unique(group_M[keep_M], return_inverse=True)[1].ravel()
    first = np.flatnonzero(np.append(True, np.diff(group_M) > 0))
    _, rank_M = np.unique(calls.rank_N, return_inverse=True)
    rank_M = rank_M.ravel()[over]
    entered_M = calls.entered_N[over]
    order = np.lexsort((entered_M, group_M))
    sizes = np.diff(np.append(first, len(over)))
    middle_G = entered_M[order][first + (sizes - 1) // 2]
    end_G = np.maximum.reduceat(calls.ended_N[over], first)
    kinds = np.column_stack([calls.comm_N[over], calls.op_N[over], calls.bytes_N[over]])[first]
    kind_G = np.unique(kinds, axis=0, return_inverse=True)[1].ravel()
    return group_M, rank_M, entered_M, middle_G, end_G, calls.comm_N[over][first], kind_G


def _usual_offset(group_M: Ints, rank_M: Ints, entered_M: Ints, middle_G: Ints, calm_G: Bools) -> Ints:
    """By how much each rank comes after the median, in the median of calm collectives, ns."""
    calm_M = calm_G[group_M]
    offset_M, rank = (entered_M - middle_G[group_M])[calm_M], rank_M[calm_M]
    order = np.lexsort((offset_M, rank))
    count_R = np.bincount(rank, minlength=int(rank_M.max()) + 1)
    first_R = np.cumsum(count_R) - count_R
    found_R = np.zeros(len(count_R), np.int64)
    has_R = count_R > 0
    found_R[has_R] = offset_M[order][(first_R + (count_R - 1) // 2)[has_R]]
    return found_R


def _end_before(end_G: Ints, comm_G: Ints) -> Ints:
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
