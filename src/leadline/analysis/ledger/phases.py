"""Steps of each rank in order of time, with where their phases lie: what a rank's own time was made of.

|- data -|- forward -|- backward ------|- optimizer -|        |- checkpoint -|
start                                                                       end
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from numba import njit

from leadline.analysis.columns import Bools, Ints, ints
from leadline.analysis.ledger.wait_kernels import Phases

PHASE_NS_MAX = 3600 * 10**9  # no phase lasts longer: such a row is not of a step


def phases(step: pa.Table, ranks_R: Ints) -> Phases:
    """The steps of the ranks that are numbered by `ranks_R` (ascending), of others and turned ones none.

    A phase that is not told is empty; of checkpoints only the length is told: they are taken to end a step.
    """
    rank_S, start_S, end_S = (ints(step, name) for name in ("rank", "start_ns", "end_ns"))
    number_S = np.searchsorted(ranks_R, rank_S)
    known_S = (number_S < len(ranks_R)) & (start_S <= end_S) & (end_S - start_S <= PHASE_NS_MAX)
    known_S &= ranks_R[np.minimum(number_S, len(ranks_R) - 1)] == rank_S
    first_R, order_S = ordered(number_S, start_S, known_S, len(ranks_R))
    start_S, end_S = start_S[order_S], end_S[order_S]
    data_S, forward_S, backward_S, checkpoint_S = (
        np.clip(ints(step, name, null=0)[order_S], 0, PHASE_NS_MAX)
        for name in ("data_ns", "forward_ns", "backward_ns", "checkpoint_ns")
    )
    data_S += start_S
    forward_S += data_S
    return Phases(first_R, start_S, end_S, data_S, forward_S, forward_S + backward_S, end_S - checkpoint_S)


def moved(steps: Phases, ahead_R: Ints) -> Phases:
    """The same with what each rank's clock is ahead taken off."""
    if not ahead_R.any():
        return steps
    ahead_S = np.repeat(ahead_R, np.diff(steps.first_R))
    return Phases(steps.first_R, *(times_S - ahead_S for times_S in steps[1:]))


@njit(cache=True, nogil=True)
def ordered(number_S: Ints, start_S: Ints, known_S: Bools, ranks: int) -> tuple[Ints, Ints]:
    """First step of each rank (R + 1,), and the known rows by rank and begin: counted, and sorted where need be."""
    first_R = np.zeros(ranks + 1, np.int64)
    for row in range(len(number_S)):
        if known_S[row]:
            first_R[number_S[row] + 1] += 1
    for rank in range(ranks):
        first_R[rank + 1] += first_R[rank]
    at_R, order_S = first_R.copy(), np.empty(first_R[ranks], np.int64)
    for row in range(len(number_S)):
        if known_S[row]:
            order_S[at_R[number_S[row]]] = row
            at_R[number_S[row]] += 1
    for rank in range(ranks):
        mine = order_S[first_R[rank] : first_R[rank + 1]]
        for place in range(1, len(mine)):
            if start_S[mine[place]] < start_S[mine[place - 1]]:
                mine[:] = mine[np.argsort(start_S[mine], kind="mergesort")]
                break
    return first_R, order_S
