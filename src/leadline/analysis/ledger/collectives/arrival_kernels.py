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
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.compiled import compiled

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

NEVER = -(2**62)  # ns, in place of a time that was not told: earlier than all times that count. Source: definition.
# ns; times beyond it (73 years from 1970 to either side) are none, because differences of them would overflow. Source:
# bound.
FAR = 2**61
ABSENT, OPEN, DONE, FAILED = 0, 1, 2, 3  # what is known of a cell
PARTS = 2  # threads; every one of them reads all rows where cells are filled, so more pay little. Source: bound.
SMALL = 100_000  # pieces of work below which a second thread costs more than it saves. Source: bound.


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


@compiled(nogil=True)
def extents(
    begin: int, stop: int, comm_N: Int32s, rank_N: Ints, seq_N: Ints, size_N: Ints, has_CR: Bytes
) -> tuple[Ints, Ints, Ints, bool]:
    """First and last seq and declared size of each communicator (C,); whether rows are in order of their cells.

    Marks which ranks each communicator has in `has_CR`. The row before `begin` is looked at too.
    """
    comms = len(has_CR)
    in_order = True
    first_C = np.full(comms, 2**63 - 1, np.int64)
    last_C, size_C = np.full(comms, -1, np.int64), np.zeros(comms, np.int64)
    for row in range(begin, stop):
        comm = comm_N[row]
        if row > 0:
            before = comm_N[row - 1]
            in_order &= before < comm or (
                before == comm
                and (seq_N[row - 1] < seq_N[row] or (seq_N[row - 1] == seq_N[row] and rank_N[row - 1] <= rank_N[row]))
            )
        if comm < 0 or seq_N[row] < 0:
            continue
        first_C[comm] = min(first_C[comm], seq_N[row])
        last_C[comm] = max(last_C[comm], seq_N[row])
        size_C[comm] = max(size_C[comm], size_N[row])
        if not has_CR[comm, rank_N[row]]:  # two threads may write it, both the same
            has_CR[comm, rank_N[row]] = 1
    return first_C, last_C, size_C, in_order


class Rows(NamedTuple):
    """Rows of collectives as numbers. Those without communicator (-1) or with a seq beyond int64 are passed over."""

    comm_N: Int32s
    rank_N: Ints
    seq_N: Ints
    op_N: Int32s
    bytes_N: Ints
    asked_N: Ints
    started_N: Ints  # (0,) if nobody told
    ended_N: Ints
    has_ended: Bytes  # bit (first_bit + row), as Arrow has them; (0,) if all rows have
    first_bit: int
    failed_N: Bools  # (0,) if none did


class Layout(NamedTuple):
    """Where the cells and collectives of each communicator lie."""

    first_seq_C: Ints
    first_cell_C: Ints
    first_group_C: Ints
    member_C: Ints
    place_CR: Int32s


@compiled(nogil=True)
def cell_of(rows: Rows, layout: Layout, row: int) -> int:
    """The cell of a row; -1 of one that is passed over."""
    comm = rows.comm_N[row]
    if comm < 0 or rows.seq_N[row] < 0:
        return -1
    number = rows.seq_N[row] - layout.first_seq_C[comm]
    size = layout.member_C[comm + 1] - layout.member_C[comm]
    return int(layout.first_cell_C[comm] + number * size + layout.place_CR[comm, rows.rank_N[row]])


@compiled(nogil=True)
def filled(
    cells: tuple[int, int],
    part: tuple[int, int],
    rows: Rows,
    layout: Layout,
    apart_ns: int,
    arrival_X: Ints,
    end_X: Ints,
    state_X: Bytes,
    op_G: Int32s,
    bytes_G: Ints,
) -> tuple[int, bool]:
    """Write arrival, end and state of cells in a range from rows in a range, and operation and payload of collectives.

    The cells are zero before. The earliest call and the latest end of a cell stand; of a collective the largest
    operation and payload that any rank told. Returns: how many cells have rows, and whether rows of one are far apart.
    """
    count, is_apart = 0, False
    for row in range(part[0], part[1]):
        cell = cell_of(rows, layout, row)
        if cell < cells[0] or cell >= cells[1] or abs(rows.asked_N[row]) > FAR:
            continue
        comm = rows.comm_N[row]
        group = layout.first_group_C[comm] + rows.seq_N[row] - layout.first_seq_C[comm]
        op_G[group] = max(op_G[group], rows.op_N[row])
        bytes_G[group] = max(bytes_G[group], rows.bytes_N[row])
        asked, ended = rows.asked_N[row], rows.ended_N[row]
        bit = rows.first_bit + row
        if len(rows.has_ended) and not (rows.has_ended[bit >> 3] >> (bit & 7)) & 1:
            ended = NEVER
        if ended < -FAR or ended > FAR:
            ended = NEVER
        if state_X[cell] == ABSENT:
            count += 1
            arrival_X[cell], end_X[cell], state_X[cell] = asked, ended, OPEN
        else:
            if asked != arrival_X[cell]:
                is_apart |= abs(asked - arrival_X[cell]) > apart_ns
                arrival_X[cell] = min(arrival_X[cell], asked)
            end_X[cell] = max(end_X[cell], ended)
        if len(rows.failed_N) and rows.failed_N[row]:
            state_X[cell] = FAILED
        elif ended != NEVER and state_X[cell] == OPEN:
            state_X[cell] = DONE
    return count, is_apart


@compiled(nogil=True)
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
