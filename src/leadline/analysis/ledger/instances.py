"""Steps of a job from steps of its ranks: which rows are one step, and which steps were done before.

A number alone does not tell a step: a job that lost its work does steps again under the numbers that they had. Rows
with one number are one step if they overlap in time; a rank that has gone further and comes back to a number, after
that, does it again.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, ints
from leadline.analysis.ledger.presence import RANKS_MAX, Ended
from leadline.model.units import S

# A longer step is nonsense, or one that nobody can be helped with: no training step takes an hour. Source: bound.
STEP_NS_MAX = 3600 * S


@dataclass(frozen=True, slots=True)
class StepRows:
    """N rows of ranks, in order of step of the job, rank, begin; and I steps of the job, in order of their begin.

    Times and lengths in ns; a phase that was not told is 0.
    """

    step_N: Ints  # place of its step, 0 to I - 1
    rank_N: Ints
    length_N: Ints  # checkpoint taken off
    data_N: Ints
    own_N: Ints  # forward and optimizer: backward hides the wait for others
    checkpoint_N: Ints
    begin_I: Ints  # first begin of its ranks
    end_I: Ints  # last end
    again_I: Bools  # done before, and lost

    def rows_of(self, place: int) -> slice:
        """Rows of one step."""
        first, last = np.searchsorted(self.step_N, [place, place + 1]).tolist()
        return slice(first, last)

    def medians(self, value_N: Ints) -> Ints:
        """Median over the ranks of each step, the lower of two in the middle."""
        bounds = np.searchsorted(self.step_N, np.arange(len(self.begin_I) + 1)).tolist()
        return np.array([lower_median(value_N[first:last]) for first, last in pairwise(bounds)], np.int64)


def lower_median(value_M: Ints) -> int:
    """Median of at least one number; of two in the middle the lower."""
    middle = (len(value_M) - 1) // 2
    return int(np.partition(value_M, middle)[middle])


def step_rows(step: pa.Table, ends: Sequence[Ended]) -> StepRows:
    """The steps of a job. Rows without length, longer than an hour, or of ranks that cannot be, are left out.

    ends: of the job; after an end that was no failure numbers may begin anew, and nothing is done again.
    """
    start_N, end_N, rank_N = ints(step, "start_ns"), ints(step, "end_ns"), ints(step, "rank")
    # Compared, not subtracted: times of nonsense would overflow.
    keep_N = (end_N > start_N) & (start_N > -(2**62)) & (end_N < 2**62) & (rank_N >= 0) & (rank_N < RANKS_MAX)
    keep_N[keep_N] = end_N[keep_N] - start_N[keep_N] <= STEP_NS_MAX
    if not keep_N.all():
        step = step.filter(pa.array(keep_N))
        start_N, end_N, rank_N = start_N[keep_N], end_N[keep_N], rank_N[keep_N]
    number_N = ints(step, "step")
    found = _in_step(number_N, start_N, end_N)
    again_N = None
    if found is None:
        found = _instances(number_N, start_N, end_N)
        again_N = _again(number_N, rank_N, start_N, end_N, ends)
    place_N, begin_I, end_I = found
    order_N = _order(place_N, rank_N, start_N)
    columns = [_phase(step, name, end_N - start_N) for name in _PHASES]
    data_N, forward_N, optimizer_N, checkpoint_N = columns
    own_N = np.minimum(forward_N + optimizer_N, end_N - start_N)
    length_N = end_N - start_N - checkpoint_N
    if order_N is not None:
        place_N, rank_N, length_N, data_N, own_N, checkpoint_N = (
            each[order_N] for each in (place_N, rank_N, length_N, data_N, own_N, checkpoint_N)
        )
    again_I = np.zeros(len(begin_I), bool)
    if again_N is not None:
        mine_N = again_N if order_N is None else again_N[order_N]
        again_I = 2 * np.bincount(place_N, mine_N, len(begin_I)) > np.bincount(place_N, minlength=len(begin_I))
    return StepRows(place_N, rank_N, length_N, data_N, own_N, checkpoint_N, begin_I, end_I, again_I)


_PHASES = ("data_ns", "forward_ns", "optimizer_ns", "checkpoint_ns")


def _phase(step: pa.Table, name: str, length_N: Ints) -> Ints:
    return np.clip(ints(step, name, 0), 0, length_N)


def _order(place_N: Ints, rank_N: Ints, start_N: Ints) -> Ints | None:
    """Order of the rows by step, rank, begin; None: they are in it, as the store gives them."""
    key_N = place_N * RANKS_MAX + rank_N
    if (key_N[1:] > key_N[:-1]).all():
        return None
    return np.lexsort((start_N, key_N))


def _in_step(number_N: Ints, start_N: Ints, end_N: Ints) -> tuple[Ints, Ints, Ints] | None:
    """As `_instances`, for the usual case: all ranks of a number are at it at once, and numbers ascend. Or None.

    Then no rank goes back, and nothing needs to be sorted by time: of a million rows that is most of the work.
    """
    if not len(number_N):
        return None
    if (number_N[1:] >= number_N[:-1]).all():
        first_I = np.flatnonzero(np.append(True, number_N[1:] != number_N[:-1]))
        place_N = np.repeat(np.arange(len(first_I)), np.diff(np.append(first_I, len(number_N))))
        starts, ends = start_N, end_N
    else:
        order_N = np.argsort(number_N, kind="stable")
        known, first_I, place_N = np.unique(number_N[order_N], return_index=True, return_inverse=True)
        starts, ends = start_N[order_N], end_N[order_N]
        place_N = np.searchsorted(known, number_N)
    begin_I, end_I = np.minimum.reduceat(starts, first_I), np.maximum.reduceat(ends, first_I)
    together_I = np.maximum.reduceat(starts, first_I) < np.minimum.reduceat(ends, first_I)
    if together_I.all() and (begin_I[1:] > begin_I[:-1]).all():
        return place_N, begin_I, end_I
    return None


def _instances(number_N: Ints, start_N: Ints, end_N: Ints) -> tuple[Ints, Ints, Ints]:
    """Place of the step of each row, and begin and end of the steps, in order of their begin."""
    if not len(number_N):
        nothing = np.zeros(0, np.int64)
        return nothing, nothing, nothing
    order_N = np.lexsort((end_N, start_N, number_N))
    number_S, start_S, end_S = number_N[order_N], start_N[order_N], end_N[order_N]
    number_S = np.cumsum(np.append(0, number_S[1:] != number_S[:-1]))
    until_S = running_max(number_S, end_S)
    new_S = np.append(True, (np.diff(number_S) != 0) | (start_S[1:] >= until_S[:-1]))
    group_S = np.cumsum(new_S) - 1
    begin_G = start_S[new_S]
    end_G = np.maximum.reduceat(end_S, np.flatnonzero(new_S))
    order_G = np.lexsort((end_G, begin_G))
    place_G = np.empty(len(order_G), np.int64)
    place_G[order_G] = np.arange(len(order_G))
    place_N = np.empty(len(order_N), np.int64)
    place_N[order_N] = place_G[group_S]
    return place_N, begin_G[order_G], end_G[order_G]


def running_max(group_N: Ints, value_N: Ints) -> Ints:
    """The largest value so far in each group. Groups ascend; values are of any size."""
    known, rank_N = np.unique(value_N, return_inverse=True)
    far_N = np.maximum.accumulate(group_N * len(known) + rank_N.ravel())
    found: Ints = known[far_N - group_N * len(known)]
    return found


def _again(number_N: Ints, rank_N: Ints, start_N: Ints, end_N: Ints, ends: Sequence[Ended]) -> Bools:
    """Whether the rank had reached the step's number before, in the same run, with a row that was over by then."""
    again_N = np.zeros(len(number_N), bool)
    if not len(number_N):
        return again_N
    clean = np.array([each.to_ns for each in ends if not each.failed], np.int64)
    run_N = np.searchsorted(clean, start_N, side="right")
    order_N = np.lexsort((end_N, number_N, start_N, rank_N, run_N))
    run_S, rank_S, number_S = run_N[order_N], rank_N[order_N], number_N[order_N]
    same_S = (np.diff(run_S) == 0) & (np.diff(rank_S) == 0)
    reached_S = running_max(np.cumsum(np.append(0, ~same_S)), number_S)
    over_S = start_N[order_N][1:] >= end_N[order_N][:-1]
    back_S = same_S & over_S & (number_S[1:] <= reached_S[:-1])
    # After it came back, the rank is at it until it is further than it was: no single row decides.
    again_N[order_N[1:]] = back_S
    return again_N
