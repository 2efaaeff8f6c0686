"""Kernels that put rows of collectives in order and join those of one call: asked for, started, finished.

Rows come in any order. They are sorted by counting: by rank, then by collective (communicator and number), and the
few rows of one rank in one collective by comparing. Memory that is new costs more here than what is done with it, so
numbers are read where Arrow has them. Axes: N = row, K = row that is kept, A = call, R = rank, G = collective (one
number of one communicator), C = communicator and one before them for rows that name none, T = text of a dictionary.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.compiled import compiled

Int32s = NDArray[np.int32]
Bytes = NDArray[np.uint8]

# ns, in place of a time that was not told: later than all times that count (146 years). Source: definition.
NEVER = 2**62
TOP = 2**63 - 1  # ns, the largest 64-bit number, where the smallest of several is looked for. Source: definition.
# Places that a row moves in the mean where rows of one rank and collective are compared: where rows are further out of
# order, sorting is faster. Source: bound.
MOVES_MAX = 16


class Times(NamedTuple):
    """Times of rows, which have one, as Arrow's bits from `first_bit` on; (0,) bits: all have; (0,) times: none has."""

    at_N: Ints
    has: Bytes
    first_bit: int


class Rows(NamedTuple):
    """Rows of collectives. Texts as Arrow's numbers (-1: none), with what these mean by `place_*_T`, -1 at its end.

    Numbers that have no sign are given as if they had: those above 2**63 - 1 are negative.
    """

    comm_N: Int32s
    op_N: Int32s
    dtype_N: Int32s
    state_N: Int32s
    seq_N: Ints
    bytes_N: Ints
    rank_N: Ints
    size_N: Ints
    entered_N: Ints
    started: Times
    ended: Times
    place_comm_T: Ints
    place_op_T: Ints
    place_dtype_T: Ints
    is_failed_T: Bools


class Joined(NamedTuple):
    """Calls in order of communicator, number, rank, entry, operation: fields of `calls.Calls`, (A,) each."""

    comm_N: Int32s
    seq_N: Ints
    rank_N: Int32s
    op_N: Int32s
    bytes_N: Ints
    dtype_N: Int32s
    size_N: Int32s
    entered_N: Ints
    started_N: Ints
    ended_N: Ints
    failed_N: Bools


@compiled(nogil=True)
def whole(number: int) -> int:
    """A number without sign that was read as if it had one; nothing real is above 2**63 - 1."""
    return number if number >= 0 else TOP


# Arrays are taken out of their tuples before loops: in a loop each use would count references.


@compiled(nogil=True)
def keys(rows: Rows) -> tuple[Int32s, Ints, Ints, Ints, Int32s, Ints, Ints]:
    """What tells calls apart: communicator, number, rank, entry, operation; places of communicators and operations."""
    return (
        rows.comm_N, rows.seq_N, rows.rank_N, rows.entered_N, rows.op_N, rows.place_comm_T, rows.place_op_T,
    )  # fmt: skip


@compiled(nogil=True)
def surveyed(rows: Rows, entered_max_ns: int, ranks_max: int) -> tuple[int, int, bool]:
    """How many rows have an entry before a time and a rank below `ranks_max`, of how many calls, if they are in order.

    Of rows that are in no order the calls are not counted.
    """
    comm_N, seq_N, rank_N, entered_N, op_N, place_comm_T, place_op_T = keys(rows)
    count, calls, in_order = 0, 0, True
    last_comm, last_seq, last_rank, last_entered, last_op = -2, -1, -1, -1, -1
    for row in range(len(rank_N)):
        rank, entered = rank_N[row], entered_N[row]
        if not (0 < entered < entered_max_ns and 0 <= rank < ranks_max):
            continue
        count += 1
        if not in_order:
            continue
        comm, seq, op = place_comm_T[comm_N[row]], whole(seq_N[row]), place_op_T[op_N[row]]
        if comm != last_comm:
            change = comm - last_comm
        elif seq != last_seq:
            change = 1 if seq > last_seq else -1
        elif rank != last_rank:
            change = rank - last_rank
        elif entered != last_entered:
            change = entered - last_entered
        else:
            change = op - last_op
        in_order = change >= 0
        calls += change != 0
        last_comm, last_seq, last_rank, last_entered, last_op = comm, seq, rank, entered, op
    return count, calls, in_order


@compiled(nogil=True)
def numbers(rows: Rows, row_K: Int32s, comms: int) -> tuple[Ints, Ints, int]:
    """First and last number of each communicator (C,), -1 where it has none, and the highest rank."""
    comm_N, seq_N, rank_N, _, _, place_comm_T, _ = keys(rows)
    first_C, last_C, top = np.full(comms + 1, -1), np.full(comms + 1, -1), -1
    for row in row_K:
        comm, seq = place_comm_T[comm_N[row]] + 1, whole(seq_N[row])
        if last_C[comm] < 0:
            first_C[comm] = last_C[comm] = seq
        first_C[comm] = min(first_C[comm], seq)
        last_C[comm] = max(last_C[comm], seq)
        top = max(top, rank_N[row])
    return first_C, last_C, top


@compiled(nogil=True)
def by_collective(
    rows: Rows, row_K: Int32s, ranks: int, first_C: Ints, group_C: Ints, groups: int
) -> tuple[Int32s, Ints]:
    """The rows in order of communicator, number, rank, and else as they came; where each collective ends, (G,).

    group_C: place of the first collective of each communicator.
    """
    comm_N, seq_N, rank_N, _, _, place_comm_T, _ = keys(rows)
    edge_R, by_rank_K = np.zeros(ranks + 1, np.int64), np.empty(len(row_K), np.int32)
    edge_G, found_K = np.zeros(groups + 1, np.int64), np.empty(len(row_K), np.int32)
    for row in row_K:
        edge_R[rank_N[row] + 1] += 1
        comm = place_comm_T[comm_N[row]] + 1
        edge_G[group_C[comm] + whole(seq_N[row]) - first_C[comm] + 1] += 1
    edge_R, edge_G = np.cumsum(edge_R), np.cumsum(edge_G)
    for row in row_K:
        rank = rank_N[row]
        by_rank_K[edge_R[rank]] = row
        edge_R[rank] += 1
    for row in by_rank_K:
        comm = place_comm_T[comm_N[row]] + 1
        group = group_C[comm] + whole(seq_N[row]) - first_C[comm]
        found_K[edge_G[group]] = row
        edge_G[group] += 1
    return found_K, edge_G[:groups]


@compiled(nogil=True)
def by_entry(rows: Rows, row_K: Int32s, edge_G: Ints) -> tuple[int, bool]:
    """Put rows of one rank and collective in order of entry and operation; equal ones, of one call, stay as they came.

    Returns: how many calls there are; False where there is so much to compare that it takes long.
    """
    _, _, rank_N, entered_N, op_N, _, place_op_T = keys(rows)
    begin, moves, calls = 0, 0, 0
    for end in edge_G:
        for at in range(begin, end):
            row, place, is_new = row_K[at], at, True
            rank, entered, op = rank_N[row], entered_N[row], place_op_T[op_N[row]]
            while place > begin and moves <= MOVES_MAX * len(row_K):
                other = row_K[place - 1]
                if rank_N[other] != rank or entered_N[other] < entered:
                    break
                if entered_N[other] == entered and place_op_T[op_N[other]] <= op:
                    is_new = place_op_T[op_N[other]] != op
                    break
                row_K[place] = other
                place -= 1
                moves += 1
            row_K[place] = row
            calls += is_new
        begin = end
    return calls, moves <= MOVES_MAX * len(row_K)


@compiled(nogil=True)
def known(at: int, entered: int, to_ns: int) -> int:
    """A time, if it lies between the entry and `to_ns`."""
    return at if entered <= at < to_ns else NEVER


@compiled(nogil=True)
def joined(rows: Rows, row_K: Int32s, count: int, calls: int, to_ns: int, sizes_max: int) -> Joined:
    """The calls of rows in order, (A,): of the `count` first of all rows, or of row_K where it is not (0,).

    Of the rows of one call the one that ended first tells payload, element type and size; the earliest times and any
    failure count. `started_N` is (0,) where nobody told.
    """
    comm_N, seq_N, rank_N, entered_N, op_N, place_comm_T, place_op_T = keys(rows)
    dtype_N, state_N, bytes_N, size_N = rows.dtype_N, rows.state_N, rows.bytes_N, rows.size_N
    place_dtype_T, is_failed_T = rows.place_dtype_T, rows.is_failed_T
    begun_N, has_begun, begun_bit = rows.started.at_N, rows.started.has, rows.started.first_bit
    over_N, has_ended, over_bit = rows.ended.at_N, rows.ended.has, rows.ended.first_bit
    comm_A, rank_A, op_A = np.empty(calls, np.int32), np.empty(calls, np.int32), np.empty(calls, np.int32)
    dtype_A, size_A = np.empty(calls, np.int32), np.empty(calls, np.int32)
    seq_A, bytes_A, entered_A = np.empty(calls, np.int64), np.empty(calls, np.int64), np.empty(calls, np.int64)
    started_A = np.empty(calls if len(begun_N) else 0, np.int64)
    ended_A, failed_A = np.empty(calls, np.int64), np.zeros(calls, np.bool_)
    at = -1
    for place in range(count):
        row = np.int64(row_K[place]) if len(row_K) else place
        comm, op, seq = place_comm_T[comm_N[row]], place_op_T[op_N[row]], whole(seq_N[row])
        rank, entered = rank_N[row], entered_N[row]
        started, ended = NEVER, NEVER
        if len(begun_N) and (not len(has_begun) or (has_begun[(begun_bit + row) >> 3] >> ((begun_bit + row) & 7)) & 1):
            started = known(begun_N[row], entered, to_ns)
        if len(over_N) and (not len(has_ended) or (has_ended[(over_bit + row) >> 3] >> ((over_bit + row) & 7)) & 1):
            ended = known(over_N[row], entered, to_ns)
        is_new = at < 0 or rank != rank_A[at] or seq != seq_A[at] or entered != entered_A[at]
        if is_new or comm != comm_A[at] or op != op_A[at]:
            at += 1
            comm_A[at], seq_A[at], rank_A[at], entered_A[at], op_A[at] = comm, seq, rank, entered, op
            ended_A[at] = NEVER + 1
            if len(started_A):
                started_A[at] = started
        if ended < ended_A[at]:
            ended_A[at], bytes_A[at], dtype_A[at] = ended, whole(bytes_N[row]), place_dtype_T[dtype_N[row]]
            size_A[at] = min(max(size_N[row], 0), sizes_max)
        if len(started_A):
            started_A[at] = min(started_A[at], started)
        failed_A[at] |= is_failed_T[state_N[row]]
    return Joined(
        comm_A, seq_A, rank_A, op_A, bytes_A, dtype_A, size_A, entered_A, started_A, ended_A, failed_A
    )  # fmt: skip
