"""Kernels that lay rows of collectives out as cells: one for each collective and member of its communicator.

Rows come in any order, two or more for a cell (asked for, then finished). A cell is found by counting, not by sorting:

    cell = first cell of the communicator + (seq - its first seq) * its members + place of the rank among them

Axes: N = row, C = communicator, R = rank, M = member of a communicator, G = collective (one seq of one), X = cell.
Each kernel does a part, [begin, stop), of its axis and writes nothing else, so that two threads can share the work
(`in_parts`) and the outcome does not depend on how it was cut. Threads rather than numba's own parallel loops: those
take tens of seconds to compile, and their pool does not survive the forks of worker processes.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ints

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

NEVER = -(2**62)  # in place of a time that was not told
ABSENT, OPEN, DONE, FAILED = 0, 1, 2, 3  # what is known of a cell
PARTS = 2  # threads; every one of them reads all rows where cells are filled, so more pay little
SMALL = 100_000  # below, a thread costs more than it does


def in_parts(kernel: Callable[..., Any], count: int, *given: Any, each: int = 1) -> list[Any]:
    """What `kernel(begin, stop, *given)` says of each part of an axis of `count`, each of which is `each` of work.

    The kernel is compiled `nogil` and writes to its own part only.
    """
    if count * each < SMALL:
        return [kernel(0, count, *given)]
    edges = [count * part // PARTS for part in range(PARTS + 1)]
    with ThreadPoolExecutor(PARTS) as pool:
        parts = [pool.submit(kernel, begin, stop, *given) for begin, stop in itertools.pairwise(edges)]
        return [part.result() for part in parts]


@njit(cache=True, nogil=True)
def extents(
    begin: int, stop: int, comm_N: Int32s, rank_N: Int32s, seq_N: Ints, size_N: Ints, has_CR: Bytes
) -> tuple[Ints, Ints, Ints]:
    """First and last seq and declared size of each communicator (C,); marks which ranks it has in `has_CR`."""
    comms = len(has_CR)
    first_C = np.full(comms, 2**63 - 1, np.int64)
    last_C, size_C = np.full(comms, -1, np.int64), np.zeros(comms, np.int64)
    for row in range(begin, stop):
        comm = comm_N[row]
        if comm < 0:
            continue
        first_C[comm] = min(first_C[comm], seq_N[row])
        last_C[comm] = max(last_C[comm], seq_N[row])
        size_C[comm] = max(size_C[comm], size_N[row])
        if not has_CR[comm, rank_N[row]]:  # two threads may write it, both the same
            has_CR[comm, rank_N[row]] = 1
    return first_C, last_C, size_C


@njit(cache=True, nogil=True)
def members(has_CR: Bytes) -> tuple[Ints, Int32s, Int32s]:
    """First member of each communicator (C + 1,), ranks of the members (M,), and place of a rank among them (C, R)."""
    comms, ranks = has_CR.shape
    first_C = np.zeros(comms + 1, np.int64)
    place_CR = np.full((comms, ranks), -1, np.int32)
    for comm in range(comms):
        count = 0
        for rank in range(ranks):
            if has_CR[comm, rank]:
                place_CR[comm, rank] = count
                count += 1
        first_C[comm + 1] = first_C[comm] + count
    rank_M = np.empty(first_C[comms], np.int32)
    for comm in range(comms):
        for rank in range(ranks):
            if place_CR[comm, rank] >= 0:
                rank_M[first_C[comm] + place_CR[comm, rank]] = rank
    return first_C, rank_M, place_CR


@njit(cache=True, nogil=True)
def cells_of_rows(
    begin: int,
    stop: int,
    comm_N: Int32s,
    rank_N: Int32s,
    seq_N: Ints,
    first_seq_C: Ints,
    first_cell_C: Ints,
    first_group_C: Ints,
    member_C: Ints,
    place_CR: Int32s,
    cell_N: Int32s,
    group_N: Int32s,
) -> None:
    """Write the cell and the collective of each row; -1 of a row without communicator."""
    for row in range(begin, stop):
        comm = comm_N[row]
        if comm < 0:
            cell_N[row] = group_N[row] = -1
            continue
        number = seq_N[row] - first_seq_C[comm]
        size = member_C[comm + 1] - member_C[comm]
        cell_N[row] = first_cell_C[comm] + number * size + place_CR[comm, rank_N[row]]
        group_N[row] = first_group_C[comm] + number


@njit(cache=True, nogil=True)
def filled(
    begin: int,
    stop: int,
    cell_N: Int32s,
    asked_N: Ints,
    started_N: Ints,
    ended_N: Ints,
    failed_N: Bools,
    apart_ns: int,
    arrival_X: Ints,
    end_X: Ints,
    state_X: Bytes,
) -> bool:
    """Write arrival, end and state of the cells [begin, stop). Returns: whether rows of one are far apart in time.

    The earliest call and the latest end of a cell stand. `started_N`, `failed_N` may be empty: nobody told.
    """
    is_apart = False
    started_X = np.full(stop - begin if len(started_N) else 0, NEVER, np.int64)
    arrival_X[begin:stop] = NEVER
    end_X[begin:stop] = NEVER
    state_X[begin:stop] = ABSENT
    for row in range(len(cell_N)):
        cell = cell_N[row]
        if cell < begin or cell >= stop:
            continue
        asked = asked_N[row]
        if state_X[cell] == ABSENT:
            arrival_X[cell] = asked
            state_X[cell] = OPEN
        elif asked != arrival_X[cell]:
            is_apart |= abs(asked - arrival_X[cell]) > apart_ns
            arrival_X[cell] = min(arrival_X[cell], asked)
        end_X[cell] = max(end_X[cell], ended_N[row])
        if len(started_N):
            started_X[cell - begin] = max(started_X[cell - begin], started_N[row])
        if len(failed_N) and failed_N[row]:
            state_X[cell] = FAILED
        elif ended_N[row] != NEVER and state_X[cell] == OPEN:
            state_X[cell] = DONE
    for cell in range(begin, begin + len(started_X)):
        arrival_X[cell] = max(arrival_X[cell], started_X[cell - begin])
    return is_apart


@njit(cache=True, nogil=True)
def operations(
    begin: int, stop: int, group_N: Int32s, op_N: Int32s, bytes_N: Ints, op_G: Int32s, bytes_G: Ints
) -> None:
    """Write operation and payload of the collectives [begin, stop): the largest that any of their ranks told."""
    for row in range(len(group_N)):
        group = group_N[row]
        if begin <= group < stop:
            op_G[group] = max(op_G[group], op_N[row])
            bytes_G[group] = max(bytes_G[group], bytes_N[row])


@njit(cache=True, nogil=True)
def meetings(
    begin: int,
    stop: int,
    arrival_X: Ints,
    end_X: Ints,
    state_X: Bytes,
    comm_G: Ints,
    first_cell_C: Ints,
    first_group_C: Ints,
    member_C: Ints,
    last_G: Ints,
    who_G: Ints,
    first_end_G: Ints,
    last_end_G: Ints,
    seen_G: Ints,
    state_G: Bytes,
) -> None:
    """Write of the collectives [begin, stop): last arrival, whose (place among the members), ends, ranks seen, state.

    The state is FAILED where any rank's is, DONE where all ranks that were seen ended, OPEN otherwise.
    """
    for group in range(begin, stop):
        comm = comm_G[group]
        size = member_C[comm + 1] - member_C[comm]
        first = first_cell_C[comm] + (group - first_group_C[comm]) * size
        last, who, early, late, seen = NEVER, -1, 2**62, NEVER, 0
        is_open, is_failed = False, False
        for cell in range(first, first + size):
            if state_X[cell] == ABSENT:
                continue
            seen += 1
            if arrival_X[cell] > last:
                last, who = arrival_X[cell], cell - first
            is_open |= state_X[cell] == OPEN
            is_failed |= state_X[cell] == FAILED
            if end_X[cell] != NEVER:
                early, late = min(early, end_X[cell]), max(late, end_X[cell])
        last_G[group], who_G[group], seen_G[group] = last, who, seen
        first_end_G[group], last_end_G[group] = early if late != NEVER else NEVER, late
        state_G[group] = FAILED if is_failed else (OPEN if is_open else (DONE if seen else ABSENT))
