"""Kernels that follow, backwards in time, what the job as a whole waited for.

    rank 0  ....own....|wait wait wait|=c=|....own....|wait|=c=|     c  the collective: last arrival to end
    rank 1  ....own....|wait wait wait|=c=|....own.........|=c=|     <- the path goes back from the last end: c, then to
    rank 2  ....own...................|=c=|....own....|wait|=c=|        who arrived last, its own time until it was let
                                                                        go before, the collective that let it go, ...

A rank is held by a collective only if it did nothing else meanwhile: if it asked for the next before the end, or went
on in the same backward pass, the collective was hidden behind its own time. Axes as in `arrival_kernels`; P = span of
the path.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.ledger.collectives.arrival_kernels import ABSENT, NEVER
from leadline.analysis.ledger.collectives.arrivals import SOLO, Cells
from leadline.analysis.robust import MAD_TO_SIGMA

# Ranks that an own time is held against, spread evenly, so that their median is within 4 % of a standard deviation
# (1.2533 / sqrt(1024)). Source: bound.
PEERS_MAX = 1024
# neighbours of them that are looked at together: times of as many lie in one line of the cache. Source: bound.
BLOCK = 8
# collectives asked for in one own time, so that nonsense ends: buckets of a backward pass are fewer. Source: bound.
HOPS_MAX = 512
HELD_MAX = 8  # pending collectives that are looked at to find the one that held a rank, the newest. Source: bound.
COLLECTIVE, OWN = 0, 1  # kinds of spans
# ns after a backward pass in which a call still lies in it: who comes last may wait for nobody, so that the pass ends
# as it asks; lengths of phases and times of calls are of clocks that run 100 ppm apart, for a second. Source: bound.
SAME_NS = 100_000


class Phases(NamedTuple):
    """Steps by rank (number), in order of time; times int64 ns. Axis S = step of a rank."""

    first_R: Ints  # (R + 1,)
    start_S: Ints
    end_S: Ints
    data_S: Ints  # end of waiting for input, which begins a step
    backward_S: Ints  # begin of the backward pass
    backward_end_S: Ints
    checkpoint_S: Ints  # begin of writing a checkpoint, which ends a step


@compiled(nogil=True)
def rises(cells: Cells) -> bool:
    """Whether each member's arrivals rise with the number as they are."""
    for comm in range(len(cells.first_cell_C) - 1):
        size = cells.member_C[comm + 1] - cells.member_C[comm]
        for cell in range(cells.first_cell_C[comm] + size, cells.first_cell_C[comm + 1]):
            if cells.arrival_X[cell] < cells.arrival_X[cell - size]:
                return False
    return True


@compiled(nogil=True)
def running_latest(cells: Cells) -> Ints:
    """The latest arrival of each member up to each collective (X,): rises with the number even where rows lack."""
    if rises(cells):
        return cells.arrival_X
    latest_X = cells.arrival_X.copy()
    for comm in range(len(cells.first_cell_C) - 1):
        size = cells.member_C[comm + 1] - cells.member_C[comm]
        for cell in range(cells.first_cell_C[comm] + size, cells.first_cell_C[comm + 1]):
            latest_X[cell] = max(latest_X[cell], latest_X[cell - size])
    return latest_X


@compiled(nogil=True)
def asked_before(cells: Cells, latest_X: Ints, comm: int, place: int, at_ns: int, near: int) -> int:
    """Last cell of a member with an arrival before `at_ns`, or -1. `near`: number in the communicator to begin at."""
    size = cells.member_C[comm + 1] - cells.member_C[comm]
    count = cells.first_group_C[comm + 1] - cells.first_group_C[comm]
    first = cells.first_cell_C[comm] + place
    low, high = 0, count  # the first number with an arrival at or after at_ns is in [low, high]
    if 0 <= near < count:
        if latest_X[first + near * size] < at_ns:
            low = near + 1
            if near + 1 < count and latest_X[first + (near + 1) * size] >= at_ns:
                high = near + 1
        else:
            high = near
            if near > 0 and latest_X[first + (near - 1) * size] < at_ns:
                low = near
    while low < high:
        middle = (low + high) // 2
        if latest_X[first + middle * size] < at_ns:
            low = middle + 1
        else:
            high = middle
    number = low - 1
    while number >= 0:
        if cells.state_X[first + number * size] != ABSENT and cells.arrival_X[first + number * size] < at_ns:
            return int(first + number * size)
        number -= 1
    return -1


@compiled(nogil=True)
def step_at(phases: Phases, rank: int, at_ns: int) -> int:
    """The step of a rank that had begun last at `at_ns`, or -1."""
    low, high = phases.first_R[rank], phases.first_R[rank + 1]
    begin = low
    while low < high:
        middle = (low + high) // 2
        if phases.start_S[middle] <= at_ns:
            low = middle + 1
        else:
            high = middle
    return low - 1 if low > begin else -1


@compiled(nogil=True)
def goes_on(phases: Phases, rank: int, asked_ns: int, next_ns: int) -> bool:
    """Whether a rank asked for something in a backward pass that went on until it asked for the next thing."""
    step = step_at(phases, rank, asked_ns)
    if step < 0:
        return False
    return bool(phases.backward_S[step] <= asked_ns and next_ns <= phases.backward_end_S[step] + SAME_NS)


@compiled(nogil=True)
def let_go(
    cells: Cells, latest_X: Ints, hidden_G: Bools, phases: Phases, rank: int, at_ns: int, comm: int, near: int
) -> tuple[int, int]:
    """What held a rank last before it arrived at `at_ns`: communicator and cell of the collective; (-1, -1): nothing.

    `comm`, `near`: a communicator of the rank and a number in it to begin at.
    """
    next_ns = at_ns
    for _ in range(HOPS_MAX):
        found, of = -1, -1
        for member in range(cells.of_R[rank], cells.of_R[rank + 1]):
            other = cells.of_M[member]
            hint = near if other == comm else -1
            cell = asked_before(cells, latest_X, other, cells.place_M[member], next_ns, hint)
            if cell >= 0 and (found < 0 or cells.arrival_X[cell] > cells.arrival_X[found]):
                found, of = cell, other
        if found < 0:
            return -1, -1
        asked_ns, end_ns = cells.arrival_X[found], cells.end_X[found]
        size = cells.member_C[of + 1] - cells.member_C[of]
        number = (found - cells.first_cell_C[of]) // size
        was_held = end_ns != NEVER and end_ns <= next_ns and not hidden_G[cells.first_group_C[of] + number]
        if was_held and not goes_on(phases, rank, asked_ns, next_ns):
            return longest(cells, latest_X, rank, of, found, next_ns)
        next_ns, comm, near = asked_ns, of, number - 1
    return -1, -1


@compiled(nogil=True)
def longest(cells: Cells, latest_X: Ints, rank: int, of: int, found: int, next_ns: int) -> tuple[int, int]:
    """Of the collectives that were pending when `found` was asked for, the one that ended last before `next_ns`."""
    asked_ns, best, best_of = cells.arrival_X[found], found, of
    for member in range(cells.of_R[rank], cells.of_R[rank + 1]):
        comm = cells.of_M[member]
        size = cells.member_C[comm + 1] - cells.member_C[comm]
        cell = found
        if comm != of:
            cell = asked_before(cells, latest_X, comm, cells.place_M[member], asked_ns + 1, -1)
        for _ in range(HELD_MAX):
            if cell < cells.first_cell_C[comm] or (cells.state_X[cell] != ABSENT and cells.end_X[cell] <= asked_ns):
                break
            if cells.end_X[best] < cells.end_X[cell] <= next_ns:
                best, best_of = cell, comm
            cell -= size
    return best_of, best


@compiled(nogil=True)
def last_before(cells: Cells, group: int, by_ns: int, place: int) -> int:
    """Place of the member that arrived last at a collective, of those that came by `by_ns`: later ones held nobody."""
    comm = cells.comm_G[group]
    if cells.kind_C[comm] == SOLO:
        return place
    if cells.last_G[group] <= by_ns:
        return int(cells.who_G[group])
    size = cells.member_C[comm + 1] - cells.member_C[comm]
    first = cells.first_cell_C[comm] + (group - cells.first_group_C[comm]) * size
    who, latest = place, NEVER
    for other in range(size):
        cell = first + other
        if cells.state_X[cell] != ABSENT and latest < cells.arrival_X[cell] <= by_ns:
            who, latest = other, cells.arrival_X[cell]
    return who


@compiled(nogil=True)
def path(
    cells: Cells,
    latest_X: Ints,
    hidden_G: Bools,
    phases: Phases,
    group: int,
    place: int,
    from_ns: int,
    longest_path: int,
) -> tuple[Ints, Ints, Ints, Ints, Ints]:
    """The path back from the end of a collective at a member: kind, collective, rank, begin, end of its spans (P,).

    Spans are in order of time, backwards, each ends where the one before it begins. Empty ones are left out, and what
    lies before `from_ns`. At most `longest_path` collectives.
    """
    kind_P, group_P, rank_P, begin_P, end_P = np.empty((5, 2 * longest_path), np.int64)
    count = 0
    for _ in range(longest_path):
        comm = cells.comm_G[group]
        size = cells.member_C[comm + 1] - cells.member_C[comm]
        first, number = cells.first_cell_C[comm], group - cells.first_group_C[comm]
        cell = first + number * size + place
        end_ns = cells.end_X[cell]
        if end_ns <= from_ns:
            break
        who = last_before(cells, group, end_ns, place)
        last_ns = cells.arrival_X[first + number * size + who]
        queued = cell - size
        while queued >= first and cells.end_X[queued] == NEVER:
            queued -= size
        is_queued = queued >= first and last_ns < cells.end_X[queued] < end_ns
        begin_ns = min(end_ns, cells.end_X[queued] if is_queued else last_ns)
        if begin_ns < end_ns:
            kind_P[count], group_P[count], begin_P[count], end_P[count] = COLLECTIVE, group, begin_ns, end_ns
            rank_P[count] = cells.rank_M[cells.member_C[comm] + place]
            count += 1
        if is_queued:
            group = cells.first_group_C[comm] + (queued - first) // size
            continue
        rank = cells.rank_M[cells.member_C[comm] + who]
        of, held = let_go(cells, latest_X, hidden_G, phases, rank, last_ns, comm, number - 1)
        free_ns = cells.end_X[held] if held >= 0 else began(phases, rank, last_ns)
        if free_ns < begin_ns:
            kind_P[count], group_P[count], rank_P[count] = OWN, group, rank
            begin_P[count], end_P[count] = free_ns, begin_ns
            count += 1
        if held < 0:
            break
        size = cells.member_C[of + 1] - cells.member_C[of]
        group = cells.first_group_C[of] + (held - cells.first_cell_C[of]) // size
        place = (held - cells.first_cell_C[of]) % size
    return kind_P[:count], group_P[:count], rank_P[:count], begin_P[:count], end_P[:count]


@compiled(nogil=True)
def began(phases: Phases, rank: int, at_ns: int) -> int:
    """Begin of the step that a rank was in at `at_ns`; `at_ns` if none is known."""
    step = step_at(phases, rank, at_ns)
    return int(phases.start_S[step]) if step >= 0 and at_ns <= phases.end_S[step] else at_ns


@compiled(nogil=True)
def within(phases: Phases, rank: int, begin_ns: int, end_ns: int) -> tuple[int, int]:
    """Time that a rank waited for input and wrote checkpoints in [begin, end), ns."""
    data_ns, checkpoint_ns = 0, 0
    step = step_at(phases, rank, end_ns)
    while step >= phases.first_R[rank] and step >= 0 and phases.end_S[step] > begin_ns:
        data_ns += max(0, min(end_ns, phases.data_S[step]) - max(begin_ns, phases.start_S[step]))
        checkpoint_ns += max(0, min(end_ns, phases.end_S[step]) - max(begin_ns, phases.checkpoint_S[step]))
        step -= 1
    return data_ns, checkpoint_ns


@compiled(nogil=True)
def peers_of(
    begin: int,
    stop: int,
    cells: Cells,
    latest_X: Ints,
    hidden_G: Bools,
    phases: Phases,
    group_P: Ints,
    rank_P: Ints,
    begin_P: Ints,
    end_P: Ints,
    own_P4: Ints,
    peers_P4: Floats,
) -> None:
    """Write what each own time was made of, and what the other members took before the same collective.

    own_P4: whole, waiting for input, writing checkpoints, ns; how many peers are known. peers_P4: medians of the
    peers' own times: whole, input, checkpoints; and the spread of the whole ones (1.48 median absolute deviations).
    """
    for span in range(begin, stop):
        group = group_P[span]
        comm = cells.comm_G[group]
        size = cells.member_C[comm + 1] - cells.member_C[comm]
        number = group - cells.first_group_C[comm]
        own_3M, count = np.empty((3, min(size, PEERS_MAX)), np.int64), 0
        blocks = min((size + BLOCK - 1) // BLOCK, PEERS_MAX // BLOCK)
        every = (size + BLOCK * blocks - 1) // (BLOCK * blocks) * BLOCK  # places from one block to the next
        for spread in range(blocks * BLOCK):
            place = spread // BLOCK * every + spread % BLOCK
            if place >= size:
                continue
            rank = cells.rank_M[cells.member_C[comm] + place]
            cell = cells.first_cell_C[comm] + number * size + place
            if rank == rank_P[span] or cells.state_X[cell] == ABSENT or cells.kind_C[comm] != 0:
                continue
            arrival_ns = cells.arrival_X[cell]
            _, held = let_go(cells, latest_X, hidden_G, phases, rank, arrival_ns, comm, number - 1)
            free_ns = cells.end_X[held] if held >= 0 else began(phases, rank, arrival_ns)
            if held < 0 and free_ns == arrival_ns:
                continue
            own_3M[0, count] = arrival_ns - free_ns
            own_3M[1, count], own_3M[2, count] = within(phases, rank, free_ns, arrival_ns)
            count += 1
        own_P4[span, 0] = end_P[span] - begin_P[span]
        own_P4[span, 1], own_P4[span, 2] = within(phases, rank_P[span], begin_P[span], end_P[span])
        own_P4[span, 3] = count
        for which in range(3 if count else 0):
            peers_P4[span, which] = np.median(own_3M[which, :count])
        if count:
            peers_P4[span, 3] = MAD_TO_SIGMA * np.median(np.abs(own_3M[0, :count] - peers_P4[span, 0]))
