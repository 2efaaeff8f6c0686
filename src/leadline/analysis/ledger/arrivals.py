"""Collectives as cells: when each member of a communicator arrived at each collective, and when it was let go.

    collective rows (N) --> communicators (C) --> collectives (G), in order of seq --> cells (X): one for each member

Sends and receives count by themselves, so they get communicators of their own: in one of two ranks the k-th send of the
one meets the k-th receive of the other (UP, DOWN); in a larger one nobody tells who meets whom (SOLO).
A job that began anew under the same name counts from 0 again: rows of one cell far apart in time are told apart.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, ints
from leadline.analysis.ledger.arrival_kernels import (
    DONE,
    FAILED,
    NEVER,
    Bytes,
    Int32s,
    cells_of_rows,
    extents,
    filled,
    in_parts,
    meetings,
    members,
    operations,
)

ALL, UP, DOWN, SOLO = 0, 1, 2, 3  # who meets: all ranks, the lower one sending to the higher, or back, nobody knows
PAIRWISE = ("send", "recv")
RANKS_MAX = 1 << 22  # above, ranks are numbered by what occurs
MAP_MAX = 1 << 26  # entries of communicators times ranks: 64 MB of marks and 256 MB of places
CELLS_MORE = 8  # cells per row: more are not rows of collectives, but of something else
RESTART_NS = 10**9  # calls of one number so far apart are not one call: a job takes longer than that to begin anew
RESTARTS_MAX = 8


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
        """Operation, size and communicator of a collective, as table `usual` names it."""
        comm = self.cells.comm_G[group]
        op = self.ops[self.op_G[group]] if self.op_G[group] >= 0 else "?"
        return f"{op} {self.bytes_G[group]} B on {self.size_C[comm]} of {self.names[self.name_C[comm]]}"


@dataclass(frozen=True, slots=True)
class _Rows:
    """Columns of the rows as numbers. Axis N."""

    comm_N: Int32s  # communicator, those of sends and receives apart
    rank_N: Int32s
    seq_N: Ints
    size_N: Ints
    op_N: Int32s
    bytes_N: Ints
    asked_N: Ints
    started_N: Ints  # (0,) if nobody told
    ended_N: Ints
    failed_N: Bools
    name_C: Ints
    kind_C: Ints


def arrivals(collective: pa.Table) -> Arrivals | None:
    """Cells of all collectives in `collective` (the rows of one job). None: there is nothing that can be laid out.

    Memory: about 40 bytes a cell beside the rows; at most CELLS_MORE cells for each row.
    """
    if not collective.num_rows:
        return None
    comm_N, names = symbols(collective, "comm")
    op_N, ops = symbols(collective, "op")
    rank_N, ranks_R = _numbered(ints(collective, "rank"))
    kind_C = np.full(len(names), ALL)
    seq_N, size_N, bytes_N, asked_N = (ints(collective, name) for name in ("seq", "ranks", "bytes", "enqueued_ns"))
    ended_N = ints(collective, "finished_ns", null=NEVER)
    rows = _Rows(
        comm_N, rank_N, seq_N, size_N, op_N, bytes_N, asked_N, _told(collective, "started_ns"), ended_N,
        _failed(collective), np.arange(len(names)), kind_C,
    )  # fmt: skip
    pairwise = [place for place, op in enumerate(ops) if op in PAIRWISE]
    if pairwise:
        rows = _apart_from_pairs(
            rows, np.isin(op_N, pairwise), ops.index("send") if "send" in ops else -1, len(ranks_R)
        )
    missing: list[str] = []
    for _ in range(RESTARTS_MAX):
        found = _laid_out(rows, ranks_R, names, ops)
        if found is None:
            return None
        laid, cell_N, has_apart = found
        if not has_apart:
            break
        rows = _begun_anew(rows, cell_N, laid)
    else:
        missing.append("collectives numbered twice")
    return Arrivals(*laid, tuple(missing))


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


def _told(table: pa.Table, name: str) -> Ints:
    """Times of a column, NEVER for null; empty if all are null."""
    if name not in table.column_names or table.column(name).null_count == table.num_rows:
        return np.zeros(0, np.int64)
    return ints(table, name, null=NEVER)


def _failed(table: pa.Table) -> Bools:
    """Which rows tell a failure; empty if none does."""
    state_N, states = symbols(table, "state")
    if "failed" not in states:
        return np.zeros(0, np.bool_)
    failed_N = state_N == states.index("failed")
    return failed_N if failed_N.any() else np.zeros(0, np.bool_)


def _numbered(rank_N: Ints) -> tuple[Int32s, Ints]:
    """Ranks as numbers from 0, and the rank of each number (R,)."""
    low, high = int(rank_N.min()), int(rank_N.max())
    if low >= 0 and high < min(RANKS_MAX, 64 * len(rank_N) + 64):
        return rank_N.astype(np.int32), np.arange(high + 1)
    ranks_R, number_N = np.unique(rank_N, return_inverse=True)
    return number_N.astype(np.int32), ranks_R


def _apart_from_pairs(rows: _Rows, is_pair_N: Bools, send: int, ranks: int) -> _Rows:
    """The same with sends and receives in communicators of their own: two for each that has some."""
    comm_P, rank_P = rows.comm_N[is_pair_N].astype(np.int64), rows.rank_N[is_pair_N]
    is_send_P = rows.op_N[is_pair_N] == send
    comms = len(rows.name_C)
    low_C, high_C = np.full(comms, ranks), np.full(comms, -1)
    size_C = np.zeros(comms, np.int64)
    np.minimum.at(low_C, comm_P, rank_P)
    np.maximum.at(high_C, comm_P, rank_P)
    np.maximum.at(size_C, comm_P, rows.size_N[is_pair_N])
    between_P = (rank_P == low_C[comm_P]) | (rank_P == high_C[comm_P])
    is_two_C = np.bincount(comm_P, ~between_P, comms) == 0
    is_two_C &= (size_C == 2) & (low_C < high_C)
    # Of two ranks: side 0 is what the lower one sends. Of more: side 0 is sends, side 1 receives.
    side_P = np.where(is_two_C[comm_P], is_send_P != (rank_P == low_C[comm_P]), ~is_send_P)
    comm_N = rows.comm_N.copy()
    comm_N[is_pair_N] = np.where(comm_P >= 0, comms + 2 * comm_P + side_P, -1)
    kind_C = np.concatenate([rows.kind_C, np.where(np.repeat(is_two_C, 2), np.tile([UP, DOWN], comms), SOLO)])
    op_N = rows.op_N
    return _with(rows, comm_N, np.concatenate([rows.name_C, np.repeat(rows.name_C, 2)]), kind_C, op_N)


def _with(rows: _Rows, comm_N: Int32s, name_C: Ints, kind_C: Ints, op_N: Int32s) -> _Rows:
    return _Rows(
        comm_N, rows.rank_N, rows.seq_N, rows.size_N, op_N, rows.bytes_N, rows.asked_N, rows.started_N, rows.ended_N,
        rows.failed_N, name_C, kind_C,
    )  # fmt: skip


_Laid = tuple[Cells, Ints, list[str], Ints, Ints, list[str], Int32s, Ints]


def _laid_out(rows: _Rows, ranks_R: Ints, names: list[str], ops: list[str]) -> tuple[_Laid, Int32s, bool] | None:
    """The cells, the cell of each row, and whether rows of one cell are too far apart. None: too many cells."""
    comms, count = len(rows.name_C), len(rows.comm_N)
    if comms * len(ranks_R) > MAP_MAX:
        return None
    has_CR = np.zeros((comms, len(ranks_R)), np.uint8)
    told = in_parts(extents, count, rows.comm_N, rows.rank_N, rows.seq_N, rows.size_N, has_CR)
    first_seq_C = np.min([part[0] for part in told], axis=0)
    last_seq_C, size_C = (np.max([part[place] for part in told], axis=0) for place in (1, 2))
    member_C, rank_M, place_CR = members(has_CR)
    member_count_C = np.diff(member_C)
    span_C = np.where(last_seq_C >= 0, last_seq_C.astype(np.float64) - first_seq_C + 1, 0.0)
    if (span_C * member_count_C).sum() > CELLS_MORE * count + 4096:
        return None
    groups_C = span_C.astype(np.int64)
    comm_G = np.repeat(np.arange(comms), groups_C)
    first_group_C = np.concatenate([[0], np.cumsum(groups_C)])
    first_cell_C = np.concatenate([[0], np.cumsum(groups_C * member_count_C)])
    cell_N, group_N = np.empty(count, np.int32), np.empty(count, np.int32)
    in_parts(
        cells_of_rows, count, rows.comm_N, rows.rank_N, rows.seq_N, first_seq_C, first_cell_C, first_group_C,
        member_C, place_CR, cell_N, group_N,
    )  # fmt: skip
    cells, groups = int(first_cell_C[-1]), len(comm_G)
    arrival_X, end_X, state_X = np.empty(cells, np.int64), np.empty(cells, np.int64), np.empty(cells, np.uint8)
    apart = in_parts(
        filled, cells, cell_N, rows.asked_N, rows.started_N, rows.ended_N, rows.failed_N, RESTART_NS,
        arrival_X, end_X, state_X,
    )  # fmt: skip
    op_G, bytes_G = np.full(groups, -1, np.int32), np.zeros(groups, np.int64)
    in_parts(operations, groups, group_N, rows.op_N, rows.bytes_N, op_G, bytes_G)
    comm_M = np.repeat(np.arange(comms), member_count_C)
    order_M = np.argsort(rank_M, kind="stable")
    of_R = np.concatenate([[0], np.cumsum(np.bincount(rank_M, minlength=len(ranks_R)))])
    nothing = np.zeros(groups, np.int64)
    laid = Cells(
        first_cell_C, first_group_C, member_C, rank_M, of_R, comm_M[order_M], order_M - member_C[comm_M[order_M]],
        rows.kind_C, arrival_X, end_X, state_X, nothing, nothing, nothing, nothing, nothing,
        np.zeros(groups, np.uint8), comm_G,
    )  # fmt: skip
    return (met(laid), ranks_R, names, rows.name_C, size_C, ops, op_G, bytes_G), cell_N, any(apart)


def met(cells: Cells) -> Cells:
    """The same with last arrivals, ends and states of the collectives as the cells have them now."""
    groups = len(cells.comm_G)
    last_G, who_G, first_end_G, last_end_G, seen_G = np.empty((5, groups), np.int64)
    state_G = np.empty(groups, np.uint8)
    meetings(
        0, groups, cells.arrival_X, cells.end_X, cells.state_X, cells.comm_G, cells.first_cell_C, cells.first_group_C,
        cells.member_C, last_G, who_G, first_end_G, last_end_G, seen_G, state_G,
    )  # fmt: skip
    return cells._replace(
        last_G=last_G, who_G=who_G, first_end_G=first_end_G, last_end_G=last_end_G, seen_G=seen_G, state_G=state_G
    )


def _begun_anew(rows: _Rows, cell_N: Int32s, laid: _Laid) -> _Rows:
    """The same with what came after a restart in communicators of their own."""
    asked_X = np.full(len(laid[0].arrival_X), np.iinfo(np.int64).max)
    known_N = cell_N >= 0
    np.minimum.at(asked_X, cell_N[known_N], rows.asked_N[known_N])
    is_late_N = known_N & (rows.asked_N > asked_X[cell_N] + RESTART_NS)
    comms = len(rows.name_C)
    anew_C = np.full(comms, np.iinfo(np.int64).max)
    np.minimum.at(anew_C, rows.comm_N[is_late_N], rows.asked_N[is_late_N])
    # All that is asked for after the first call that is told twice belongs to the new one, whatever its number.
    is_new_N = known_N & (rows.asked_N >= anew_C[rows.comm_N])
    number_C = np.cumsum(anew_C < np.iinfo(np.int64).max) - 1 + comms
    comm_N = np.where(is_new_N, number_C[rows.comm_N], rows.comm_N).astype(np.int32)
    again_C = np.flatnonzero(anew_C < np.iinfo(np.int64).max)
    name_C, kind_C = (
        np.concatenate([rows.name_C, rows.name_C[again_C]]),
        np.concatenate([rows.kind_C, rows.kind_C[again_C]]),
    )
    return _with(rows, comm_N, name_C, kind_C, rows.op_N)


__all__ = ["ALL", "DONE", "FAILED", "NEVER", "SOLO", "Arrivals", "Cells", "arrivals", "symbols"]
