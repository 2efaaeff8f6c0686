"""Collectives as cells: when each member of a communicator arrived at each collective, and when it was let go.

    collective rows (N) --> communicators (C) --> collectives (G), in order of seq --> cells (X): one for each member

Sends and receives count by themselves, so they get communicators of their own: in one of two ranks the k-th send of the
one meets the k-th receive of the other (UP, DOWN); in a larger one nobody tells who meets whom (SOLO).
A job that began anew under the same name counts from 0 again: rows of one cell far apart in time are told apart.
"""

from __future__ import annotations

import itertools
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, ints, read_only, with_bits
from leadline.analysis.ledger.collectives.arrival_kernels import (
    ABSENT,
    DONE,
    FAILED,
    FAR,
    NEVER,
    PARTS,
    SMALL,
    Bytes,
    Int32s,
    Layout,
    Rows,
    extents,
    filled,
    in_parts,
    meetings,
)

ALL, UP, DOWN, SOLO = 0, 1, 2, 3  # who meets: all ranks, the lower one sending to the higher, or back, nobody knows
PAIRWISE = ("send", "recv")
# A rank's number above which ranks are numbered by what occurs, because a table by number would not fit. Source: bound.
RANKS_MAX = 1 << 22
# Entries of communicators times ranks, so that marks take 64 MB and places 256 MB at most. Source: bound.
MAP_MAX = 1 << 26
# Cells per row: where there are more, these are not rows of collectives, but of something else. Source: bound.
CELLS_MORE = 8
# Calls of one number so far apart are not one call: a job takes longer than a second to begin anew, and clocks of hosts
# agree better than that. Source: judgement.
RESTART_NS = 10**9
RESTARTS_MAX = 8  # restarts of a job within one look-back that are told apart, so that nonsense ends. Source: bound.


class Cells(NamedTuple):
    """What the kernels of the path go by; axes as in `arrival_kernels`. Times are int64 ns, NEVER where not told."""

    first_cell_C: Ints  # (C + 1,)
    first_group_C: Ints  # (C + 1,)
    member_C: Ints  # (C + 1,)
    rank_M: Int32s  # number of the member's rank
    of_R: Ints  # (R + 1,) into of_M
    of_M: Ints  # members by rank: communicator
    place_M: Ints  # and its place there
    kind_C: Ints
    arrival_X: Ints
    end_X: Ints
    state_X: Bytes
    last_G: Ints
    who_G: Ints
    first_end_G: Ints
    last_end_G: Ints
    seen_G: Ints
    state_G: Bytes
    comm_G: Ints


@dataclass(frozen=True, slots=True)
class Arrivals:
    """The collectives of one job. `cells` is what kernels read; the rest names it."""

    cells: Cells
    ranks_R: Ints  # the job's rank of each number
    names: list[str]  # of communicators, as rows say
    name_C: Ints  # place in `names`
    size_C: Ints  # ranks that the communicator has by its own account
    ops: list[str]
    op_G: Int32s
    bytes_G: Ints
    missing: tuple[str, ...]

    def what(self, group: int) -> str:
        """Operation, size and communicator of a collective, as table `baseline` names it."""
        comm = self.cells.comm_G[group]
        op = self.ops[self.op_G[group]] if self.op_G[group] >= 0 else "?"
        return f"{op} {self.bytes_G[group]} B on {self.size_C[comm]} of {self.names[self.name_C[comm]]}"


@dataclass(frozen=True, slots=True)
class _Told:
    """Rows, and what they say of the communicators (C,), those of sends and receives apart."""

    rows: Rows
    size_N: Ints
    name_C: Ints
    kind_C: Ints


def arrivals(collective: pa.Table) -> Arrivals | None:
    """Cells of all collectives in `collective` (the rows of one job). None: there is nothing that can be laid out.

    Memory: about 20 bytes a cell beside the rows; at most CELLS_MORE cells for each row.
    """
    if not collective.num_rows:
        return None
    comm_N, names = symbols(collective, "comm")
    op_N, ops = symbols(collective, "op")
    rank_N, ranks_R = _numbered(ints(collective, "rank"))
    ended_N, has_ended, first_bit = ended(collective)
    rows = Rows(
        comm_N, rank_N, _signed(collective, "seq"), op_N, _signed(collective, "bytes"), ints(collective, "enqueued_ns"),
        _started(collective), ended_N, has_ended, first_bit, _failed(collective),
    )  # fmt: skip
    told = _Told(rows, ints(collective, "ranks"), np.arange(len(names)), np.full(len(names), ALL))
    pairwise = [place for place, op in enumerate(ops) if op in PAIRWISE]
    is_pair_N = np.isin(op_N, pairwise) & (comm_N >= 0) if pairwise else np.zeros(0, np.bool_)
    if is_pair_N.any():
        told = _apart_from_pairs(told, is_pair_N, ops.index("send") if "send" in ops else -1, len(ranks_R))
    missing: list[str] = []
    for _ in range(RESTARTS_MAX):
        laid = _laid_out(told, ranks_R, names, ops)
        if laid is None:
            return None
        found, layout, has_apart = laid
        if not has_apart:
            break
        told = _begun_anew(told, layout, found.cells)
    else:
        missing.append("collectives numbered twice")
    return replace(found, missing=tuple(missing))


def symbols(table: pa.Table, name: str) -> tuple[Int32s, list[str]]:
    """A column of texts as numbers into a sorted list, -1 for null; texts that do not occur may be among them.

    As `columns.codes`, with half the bytes and without a pass to see which texts occur: rows are millions here.
    """
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = pc.dictionary_encode(column)
    encoded = column.chunk(0) if column.num_chunks == 1 else column.unify_dictionaries().combine_chunks()
    if isinstance(encoded, pa.ChunkedArray):
        encoded = encoded.chunk(0)
    index = encoded.indices
    if index.null_count:
        index = pc.fill_null(index.cast(pa.int32()), -1)
    code_N = np.asarray(index.to_numpy(zero_copy_only=False)).astype(np.int32, copy=False)
    texts = encoded.dictionary.to_pylist()
    names = sorted({text for text in texts if text is not None})
    if texts == names:
        return code_N, names
    place_of = {text: place for place, text in enumerate(names)}
    place_T = np.array([place_of.get(text, -1) for text in texts] + [-1], np.int32)
    return place_T[code_N], names


def _signed(table: pa.Table, name: str) -> Ints:
    """A column of unsigned numbers as int64, without a copy; those above 2**63 - 1 are negative."""
    column = table.column(name)
    if column.null_count or column.type != pa.uint64():
        return ints(table, name)
    return np.asarray(column.to_numpy()).view(np.int64)


def ended(table: pa.Table) -> tuple[Ints, Bytes, int]:
    """Ends, and which rows have one, as Arrow's bits and where they begin: half of the rows have none."""
    return with_bits(table, "finished_ns", NEVER)


def _started(table: pa.Table) -> Ints:
    """When work began, NEVER for null; empty if nobody told."""
    if table.column("started_ns").null_count == table.num_rows:
        return np.zeros(0, np.int64)
    return ints(table, "started_ns", null=NEVER)


def _failed(table: pa.Table) -> Bools:
    """Which rows tell a failure; empty if none does."""
    state_N, states = symbols(table, "state")
    if "failed" not in states:
        return np.zeros(0, np.bool_)
    failed_N = state_N == states.index("failed")
    return failed_N if failed_N.any() else np.zeros(0, np.bool_)


def _numbered(rank_N: Ints) -> tuple[Ints, Ints]:
    """Ranks as numbers from 0, and the rank of each number (R,)."""
    low, high = int(rank_N.min()), int(rank_N.max())
    if low >= 0 and high < min(RANKS_MAX, 64 * len(rank_N) + 64):
        return rank_N, np.arange(high + 1)
    ranks_R, number_N = np.unique(rank_N, return_inverse=True)
    return number_N.astype(np.int64), ranks_R


def _apart_from_pairs(told: _Told, is_pair_N: Bools, send: int, ranks: int) -> _Told:
    """The same with sends and receives in communicators of their own: two for each that has some."""
    rows = told.rows
    comm_P, rank_P = rows.comm_N[is_pair_N].astype(np.int64), rows.rank_N[is_pair_N]
    is_send_P = rows.op_N[is_pair_N] == send
    comms = len(told.name_C)
    low_C, high_C = np.full(comms, ranks), np.full(comms, -1)
    size_C = np.zeros(comms, np.int64)
    np.minimum.at(low_C, comm_P, rank_P)
    np.maximum.at(high_C, comm_P, rank_P)
    np.maximum.at(size_C, comm_P, told.size_N[is_pair_N])
    between_P = (rank_P == low_C[comm_P]) | (rank_P == high_C[comm_P])
    is_two_C = np.bincount(comm_P, ~between_P, comms) == 0
    is_two_C &= (size_C == 2) & (low_C < high_C)
    # Of two ranks: side 0 is what the lower one sends. Of more: side 0 is sends, side 1 receives.
    side_P = np.where(is_two_C[comm_P], is_send_P != (rank_P == low_C[comm_P]), ~is_send_P)
    comm_N = rows.comm_N.copy()
    comm_N[is_pair_N] = comms + 2 * comm_P + side_P
    kind_C = np.where(np.repeat(is_two_C, 2), np.tile([UP, DOWN], comms), SOLO)
    return _Told(
        rows._replace(comm_N=comm_N), told.size_N, np.concatenate([told.name_C, np.repeat(told.name_C, 2)]),
        np.concatenate([told.kind_C, kind_C]),
    )  # fmt: skip


def _laid_out(told: _Told, ranks_R: Ints, names: list[str], ops: list[str]) -> tuple[Arrivals, Layout, bool] | None:
    """The cells, where they lie, and whether rows of one cell are too far apart. None: too many cells."""
    comms, count = len(told.name_C), len(told.rows.comm_N)
    if comms * len(ranks_R) > MAP_MAX:
        return None
    # Of one kind, whichever columns had nulls to be filled: for each other mixture kernels would be compiled anew.
    read: dict[str, Any] = {
        name: read_only(each) for name, each in told.rows._asdict().items() if isinstance(each, np.ndarray)
    }
    rows = told.rows._replace(**read)
    has_CR = np.zeros((comms, len(ranks_R)), np.uint8)
    parts = in_parts(extents, count, rows.comm_N, rows.rank_N, rows.seq_N, read_only(told.size_N), has_CR)
    first_seq_C = np.min([part[0] for part in parts], axis=0)
    last_seq_C, size_C = (np.max([part[place] for part in parts], axis=0) for place in (1, 2))
    member_C, rank_M, place_CR = _members(has_CR)
    member_count_C = np.diff(member_C)
    span_C = np.where(last_seq_C >= 0, last_seq_C.astype(np.float64) - first_seq_C + 1, 0.0)
    if (span_C * member_count_C).sum() > CELLS_MORE * count + 4096:
        return None
    groups_C = span_C.astype(np.int64)
    comm_G = np.repeat(np.arange(comms), groups_C)
    first_group_C = np.concatenate([[0], np.cumsum(groups_C)])
    first_cell_C = np.concatenate([[0], np.cumsum(groups_C * member_count_C)])
    layout = Layout(first_seq_C, first_cell_C, first_group_C, member_C, place_CR)
    filled_in, op_G, bytes_G, is_apart = _filled(rows, layout, in_order=all(part[3] for part in parts))
    comm_M = np.repeat(np.arange(comms), member_count_C)
    order_M = np.argsort(rank_M, kind="stable")
    of_R = np.concatenate([[0], np.cumsum(np.bincount(rank_M, minlength=len(ranks_R)))])
    nothing = np.zeros(len(comm_G), np.int64)
    laid = Cells(
        first_cell_C, first_group_C, member_C, rank_M, of_R, comm_M[order_M], order_M - member_C[comm_M[order_M]],
        told.kind_C, *filled_in, nothing, nothing, nothing, nothing, nothing,
        np.zeros(len(comm_G), np.uint8), comm_G,
    )  # fmt: skip
    found = Arrivals(met(laid), ranks_R, names, told.name_C, size_C, ops, op_G, bytes_G, ())
    return found, layout, is_apart


def _filled(rows: Rows, layout: Layout, *, in_order: bool) -> tuple[tuple[Ints, Ints, Bytes], Int32s, Ints, bool]:
    """Arrival, end and state of the cells, operation and payload of the collectives, whether rows are far apart.

    Two threads share the rows where these are in order of their cells, else the cells: then each reads all rows.
    """
    cells, groups, count = int(layout.first_cell_C[-1]), int(layout.first_group_C[-1]), len(rows.comm_N)
    # Zeros come without being written; the threads that fill them have them made.
    arrays = np.zeros(cells, np.int64), np.zeros(cells, np.int64), np.zeros(cells, np.uint8)
    made = [(np.full(groups, -1, np.int32), np.zeros(groups, np.int64)) for _ in range(PARTS)]
    if in_order:
        edges = [_first_of_cell(rows, count * part // PARTS) for part in range(PARTS)] + [count]
        ranges = [((0, cells), edge) for edge in itertools.pairwise(edges)]
    else:
        edges = [cells * part // PARTS for part in range(PARTS + 1)]
        ranges = [(edge, (0, count)) for edge in itertools.pairwise(edges)]
    given = [(*of, rows, layout, RESTART_NS, *arrays, *out) for of, out in zip(ranges, made, strict=True)]
    if count < SMALL:
        parts = [filled(*each) for each in given]
    else:
        with ThreadPoolExecutor(PARTS) as pool:
            parts = [part.result() for part in [pool.submit(filled, *each) for each in given]]
    if sum(part[0] for part in parts) < cells:
        _blank(*arrays)
    if len(rows.started_N):
        _move_to_start(rows, layout, arrays[0])
    op_G, bytes_G = (np.max([out[place] for out in made], axis=0) for place in (0, 1))
    return arrays, op_G, bytes_G, any(part[1] for part in parts)


def _members(told_CR: Bytes) -> tuple[Ints, Int32s, Int32s]:
    """First member of each communicator (C + 1,), ranks of the members (M,), and place of a rank among them (C, R)."""
    has_CR = told_CR > 0
    member_C = np.concatenate([[0], np.cumsum(has_CR.sum(axis=1))])
    place_CR = np.where(has_CR, np.cumsum(has_CR, axis=1, dtype=np.int32) - 1, -1).astype(np.int32)
    return member_C, np.nonzero(has_CR)[1].astype(np.int32), place_CR


def _blank(arrival_X: Ints, end_X: Ints, state_X: Bytes) -> None:
    """Write NEVER into cells without rows."""
    is_absent_X = state_X == ABSENT
    arrival_X[is_absent_X] = end_X[is_absent_X] = NEVER


def _move_to_start(rows: Rows, layout: Layout, arrival_X: Ints) -> None:
    """Move arrivals to when the work began, where that is told: a rank's device had come by then, not by the call."""
    told_K = np.flatnonzero((rows.comm_N >= 0) & (rows.seq_N >= 0) & (rows.started_N < FAR))
    comm_K = rows.comm_N[told_K]
    number_K = rows.seq_N[told_K] - layout.first_seq_C[comm_K]
    cell_K = layout.first_cell_C[comm_K] + number_K * np.diff(layout.member_C)[comm_K]
    np.maximum.at(arrival_X, cell_K + layout.place_CR[comm_K, rows.rank_N[told_K]], rows.started_N[told_K])


def _first_of_cell(rows: Rows, row: int) -> int:
    """The first row at or after `row` that is of another cell than the one before it; rows are in order of cells."""
    columns = (rows.comm_N, rows.seq_N, rows.rank_N)
    while 0 < row < len(rows.comm_N) and all(column[row] == column[row - 1] for column in columns):
        row += 1
    return row


def met(cells: Cells) -> Cells:
    """The same with last arrivals, ends and states of the collectives as the cells have them now."""
    groups = len(cells.comm_G)
    last_G, who_G, first_end_G, last_end_G, seen_G = np.empty((5, groups), np.int64)
    state_G = np.empty(groups, np.uint8)
    in_parts(
        meetings, groups, cells.arrival_X, cells.end_X, cells.state_X, cells.comm_G, cells.first_cell_C,
        cells.first_group_C, cells.member_C, last_G, who_G, first_end_G, last_end_G, seen_G, state_G,
        each=len(cells.state_X) // max(groups, 1),
    )  # fmt: skip
    return cells._replace(
        last_G=last_G, who_G=who_G, first_end_G=first_end_G, last_end_G=last_end_G, seen_G=seen_G, state_G=state_G
    )


def _begun_anew(told: _Told, layout: Layout, cells: Cells) -> _Told:
    """The same with what came after a restart in communicators of their own."""
    rows, far = told.rows, np.iinfo(np.int64).max
    comms = len(told.name_C)
    known = np.flatnonzero((rows.comm_N >= 0) & (rows.seq_N >= 0))
    comm_K, asked_K = rows.comm_N[known].astype(np.int64), rows.asked_N[known]
    size_K = np.diff(layout.member_C)[comm_K]
    cell_K = layout.first_cell_C[comm_K] + (rows.seq_N[known] - layout.first_seq_C[comm_K]) * size_K
    cell_K += layout.place_CR[comm_K, rows.rank_N[known]]
    asked_X = np.full(len(cells.arrival_X), far)
    np.minimum.at(asked_X, cell_K, asked_K)
    is_late_K = asked_K > asked_X[cell_K] + RESTART_NS
    anew_C = np.full(comms, far)
    np.minimum.at(anew_C, comm_K[is_late_K], asked_K[is_late_K])
    # All that is asked for after the first call that is told twice belongs to the new one, whatever its number.
    again_C = np.flatnonzero(anew_C < far)
    number_C = np.zeros(comms, np.int64)
    number_C[again_C] = comms + np.arange(len(again_C))
    comm_N = rows.comm_N.copy()
    comm_N[known] = np.where(asked_K >= anew_C[comm_K], number_C[comm_K], comm_K)
    return _Told(
        rows._replace(comm_N=comm_N), told.size_N, np.concatenate([told.name_C, told.name_C[again_C]]),
        np.concatenate([told.kind_C, told.kind_C[again_C]]),
    )  # fmt: skip


__all__ = ["ALL", "DONE", "FAILED", "NEVER", "SOLO", "Arrivals", "Cells", "arrivals", "symbols"]
