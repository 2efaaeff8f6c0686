"""Steps of each rank in order of time, with where their phases lie: what a rank's own time was made of.

|- data -|- forward -|- backward ------|- optimizer -|        |- checkpoint -|
start                                                                       end
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, ints, read_only
from leadline.analysis.compiled import compiled
from leadline.analysis.ledger.collectives.arrival_kernels import in_parts
from leadline.analysis.ledger.collectives.wait_kernels import Phases

PHASE_NS_MAX = 3600 * 10**9  # ns; no phase lasts longer than an hour: such a row is not of a step. Source: bound.


def phases(step: pa.Table, ranks_R: Ints) -> Phases:
    """The steps of the ranks that are numbered by `ranks_R` (ascending), of others and turned ones none.

    A phase that is not told is empty; of checkpoints only the length is told: they are taken to end a step.
    """
    rank_S, start_S, end_S = (ints(step, name) for name in ("rank", "start_ns", "end_ns"))
    if ranks_R[0] == 0 and ranks_R[-1] == len(ranks_R) - 1:
        number_S, known_S = rank_S, (rank_S >= 0) & (rank_S < len(ranks_R))
    else:
        number_S = np.minimum(np.searchsorted(ranks_R, rank_S), len(ranks_R) - 1)
        known_S = ranks_R[number_S] == rank_S
    known_S &= (start_S <= end_S) & (end_S - start_S <= PHASE_NS_MAX)
    first_R, order_S = ordered(read_only(number_S), start_S, known_S, len(ranks_R))
    spans = (_told(step, name) for name in ("data_ns", "forward_ns", "backward_ns", "checkpoint_ns"))
    found_6S = np.empty((6, len(order_S)), np.int64)
    in_parts(laid, len(order_S), order_S, start_S, end_S, *spans, found_6S)
    return Phases(first_R, *found_6S)


def _told(step: pa.Table, name: str) -> Ints:
    """Lengths of a phase, 0 for null; empty if nobody told."""
    if step.column(name).null_count == step.num_rows:
        return read_only(np.zeros(0, np.int64))
    return ints(step, name, null=0)


@compiled(nogil=True)
def laid(
    begin: int,
    stop: int,
    order_S: Ints,
    start_S: Ints,
    end_S: Ints,
    data_S: Ints,
    forward_S: Ints,
    backward_S: Ints,
    checkpoint_S: Ints,
    found_6S: Ints,
) -> None:
    """Write begins and ends of the phases of `Phases`, in the given order, from place `begin` to `stop`.

    An empty array: the phase was not told.
    """
    for place in range(begin, stop):
        row = order_S[place]
        at, end = start_S[row], end_S[row]
        found_6S[0, place], found_6S[1, place] = at, end
        for which, length_S in enumerate((data_S, forward_S, backward_S)):
            if len(length_S):
                at += min(max(length_S[row], 0), PHASE_NS_MAX)
            found_6S[2 + which, place] = at
        length = checkpoint_S[row] if len(checkpoint_S) else 0
        found_6S[5, place] = end - min(max(length, 0), PHASE_NS_MAX)


def moved(steps: Phases, ahead_R: Ints) -> Phases:
    """The same with what each rank's clock is ahead taken off."""
    if not ahead_R.any():
        return steps
    ahead_S = np.repeat(ahead_R, np.diff(steps.first_R))
    return Phases(steps.first_R, *(times_S - ahead_S for times_S in steps[1:]))


@compiled(nogil=True)
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
