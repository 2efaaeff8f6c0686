"""Collectives as calls: which rank entered which one when, and which were not over at some time.

collective rows ──> calls (one for each rank of each collective) ──> groups that somebody waits in at a time
Sends and receives are groups of their own: who is at the other end is not told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, coded, ints, read_only, with_bits
from leadline.analysis.symptoms.call_kernels import (
    NEVER,
    TOP,
    Int32s,
    Rows,
    Times,
    by_collective,
    by_entry,
    joined,
    numbers,
    surveyed,
)
from leadline.analysis.symptoms.spans import NEAR_NS

__all__ = ["NEVER", "PAIRWISE", "Calls", "Group", "calls_of", "groups_waiting"]
PAIRWISE = ("send", "recv")
# Quantile of what a kind of collective took that is its usual longest: nearly all, because a single hang that recovered
# is not usual. Source: judgement.
BASELINE_QUANTILE = 0.95
# ranks of one job, so that arrays by rank stay below some megabytes: a row that claims more is nonsense. Source: bound.
RANKS_MAX = 1_000_000
# Numbers of collectives for each row, beyond which they are not counted one by one: their numbers are nonsense, and
# arrays would not fit. Source: bound.
GROUPS_MORE = 8


@dataclass(frozen=True, slots=True)
class Calls:
    """N calls in order of communicator, number, rank, entry. Times in ns; `NEVER`: not told."""

    comm_N: Int32s
    seq_N: Ints
    rank_N: Int32s
    op_N: Int32s
    bytes_N: Ints
    dtype_N: Int32s
    size_N: Int32s  # ranks of the communicator
    entered_N: Ints
    started_N: Ints
    ended_N: Ints
    failed_N: Bools
    comms: list[str]
    ops: list[str]
    dtypes: list[str]

    def over_ns(self, after_ns: int) -> int | None:
        """When the first call ended well after a time; None: none did."""
        ended = self.ended_N[(self.ended_N > after_ns) & ~self.failed_N & (self.ended_N < NEVER)]
        return int(ended.min()) if len(ended) else None

    def ranks(self) -> set[int]:
        """Ranks that called anything."""
        found: list[int] = numbered(self.rank_N)[0].tolist()
        return set(found)

    def kinds(self) -> frozenset[tuple[str, int, str]]:
        """Operation, payload and element type of what was called with success."""
        done_N = (self.ended_N < NEVER) & ~self.failed_N & (self.op_N >= 0) & (self.dtype_N >= 0)
        op_N, bytes_N, dtype_N = (each[done_N] for each in (self.op_N, self.bytes_N, self.dtype_N))
        # Ranks of one collective call the same thing: looked at is where that changes.
        new_N = np.append(True, (np.diff(op_N) != 0) | (np.diff(bytes_N) != 0) | (np.diff(dtype_N) != 0))[: len(op_N)]
        told = set(zip(*(each[new_N].tolist() for each in (op_N, bytes_N, dtype_N)), strict=True))
        return frozenset((self.ops[op], size, self.dtypes[dtype]) for op, size, dtype in told)


@dataclass(frozen=True, slots=True)
class Group:
    """One collective that some ranks were waiting in, at the time that was asked for. Ranks by number, times in ns."""

    comm: str
    seq: int
    op: str
    bytes: int
    entered: dict[int, int]  # who had come, and when
    waiting: frozenset[int]  # of these, who had not been let go
    members: frozenset[int]
    size: int
    kinds: dict[int, tuple[str, int, str]]  # operation, bytes and element type by rank
    baseline_ns: int  # what such a collective takes at most, from first entry to last end; 0: not known
    pairwise: bool

    @property
    def first_ns(self) -> int:
        """When the first rank came."""
        return min(self.entered[rank] for rank in self.waiting)

    @property
    def last_ns(self) -> int:
        """When the last of those that came did."""
        return max(self.entered.values())

    @property
    def absent(self) -> frozenset[int]:
        """Members that had not come."""
        return frozenset() if self.pairwise else self.members - self.entered.keys()

    @property
    def name(self) -> str:
        """In words."""
        return f"{self.op} {self.bytes} B, number {self.seq} of comm:{self.comm}"


def numbered(rank_N: Int32s | Ints) -> tuple[Ints, Ints]:
    """Which ranks occur, in order (R,), and the place of each call's among them. As `np.unique`, without sorting."""
    ranks_R = np.flatnonzero(np.bincount(rank_N))
    place_R = np.zeros(len(ranks_R) and int(ranks_R[-1]) + 1, np.int64)
    place_R[ranks_R] = np.arange(len(ranks_R))
    return ranks_R, place_R[rank_N]


def calls_of(collective: pa.Table, to_ns: int) -> Calls:
    """The calls of a job, of what is known at `to_ns`. An end after it has not come yet.

    Names may be among `comms`, `ops` and `dtypes` that no call has.
    """
    comm, op, dtype, state = (_texts(collective, name) for name in ("comm", "op", "dtype", "state"))
    seq_N, bytes_N = (read_only(_signed(collective, name)) for name in ("seq", "bytes"))
    rank_N, size_N, entered_N = (read_only(ints(collective, name)) for name in ("rank", "ranks", "enqueued_ns"))
    started, ended = (_times(collective, name) for name in ("started_ns", "finished_ns"))
    is_failed_T = state.place_T == (state.names.index("failed") if "failed" in state.names else -2)
    rows = Rows(
        comm.text_N, op.text_N, dtype.text_N, state.text_N, seq_N, bytes_N, rank_N, size_N, entered_N, started, ended,
        comm.place_T, op.place_T, dtype.place_T, is_failed_T,
    )  # fmt: skip
    entered_max_ns = min(to_ns, NEAR_NS)
    count, calls, is_sorted = surveyed(rows, entered_max_ns, RANKS_MAX)
    row_K = np.zeros(0, np.int32)  # all of them
    if count < len(collective) or not is_sorted:
        is_kept_N = (rows.entered_N > 0) & (rows.entered_N < entered_max_ns)
        is_kept_N &= (rows.rank_N >= 0) & (rows.rank_N < RANKS_MAX)
        row_K = np.flatnonzero(is_kept_N).astype(np.int32)
    if not is_sorted:
        row_K, calls = _sorted(rows, row_K, len(comm.names))
    found = joined(rows, row_K, count, calls, to_ns, RANKS_MAX)
    if not len(found.started_N):
        found = found._replace(started_N=np.broadcast_to(np.int64(NEVER), calls))
    return Calls(*found, comm.names, op.names, dtype.names)


@dataclass(frozen=True, slots=True)
class _Texts:
    """A column of texts: which of the dictionary's each row has (-1: none), and the place of these in sorted names."""

    names: list[str]
    text_N: Int32s
    place_T: Ints


def _texts(table: pa.Table, name: str) -> _Texts:
    """As `columns.codes`, without a pass to see which texts occur and without numbers of eight bytes."""
    if table.column(name).null_count == len(table):
        return _Texts([], read_only(np.full(len(table), -1, np.int32)), np.full(1, -1))
    encoded = coded(table, name)
    index = encoded.indices.cast(pa.int32())
    text_N = (index.fill_null(-1) if index.null_count else index).to_numpy(zero_copy_only=False)
    told = encoded.dictionary.to_pylist()
    names = sorted({text for text in told if text is not None})
    place_of = {text: place for place, text in enumerate(names)}
    place_T = np.array([place_of.get(text, -1) for text in told] + [-1], np.int64)
    return _Texts(names, read_only(text_N), place_T)


def _signed(table: pa.Table, name: str) -> Ints:
    """A column of numbers without sign as if they had one, without a copy; null is 0."""
    column = table.column(name)
    if column.null_count or column.type != pa.uint64():
        return np.maximum(ints(table, name, 0), 0)
    return np.asarray(column.to_numpy()).view(np.int64)


def _times(table: pa.Table, name: str) -> Times:
    if table.column(name).null_count == len(table):
        return Times(read_only(np.zeros(0, np.int64)), read_only(np.zeros(0, np.uint8)), 0)
    at_N, has, first_bit = with_bits(table, name, NEVER)
    return Times(read_only(at_N), read_only(has), first_bit)


def _sorted(rows: Rows, row_K: Int32s, comms: int) -> tuple[Int32s, int]:
    """Rows in order of their calls, and how many these are.

    By counting, unless numbers have such gaps or repetitions that it takes long.
    """
    first_C, last_C, top = numbers(rows, row_K, comms)
    span_C = np.where(last_C < 0, 0, last_C.astype(np.float64) - first_C + 1)
    if span_C.sum() <= GROUPS_MORE * len(row_K):
        edge_C = np.concatenate([[0], np.cumsum(span_C.astype(np.int64))])
        found_K, edge_G = by_collective(rows, row_K, top + 1, first_C, edge_C[:-1], int(edge_C[-1]))
        calls, is_whole = by_entry(rows, found_K, edge_G)
        if is_whole:
            return found_K, calls
    seq_K = np.minimum(rows.seq_N.view(np.uint64)[row_K], np.uint64(TOP))
    keys = [rows.place_op_T[rows.op_N[row_K]], rows.entered_N[row_K], rows.rank_N[row_K], seq_K,
            rows.place_comm_T[rows.comm_N[row_K]]]  # fmt: skip
    order_K = np.lexsort(keys)
    changes_K = np.any([each[order_K[1:]] != each[order_K[:-1]] for each in keys], axis=0)
    return row_K[order_K], 1 + int(changes_K.sum())


def groups_waiting(calls: Calls, at_ns: int) -> list[Group]:
    """The groups that ranks were waiting in at a time, in order of their first entry.

    A call that has no end though its rank has been let go from a later one of the same communicator is no wait: its end
    was lost. Where work has a begin of its own (a GPU's queue), who has not begun has not come.
    """
    here_N = (calls.entered_N < at_ns) & (calls.ended_N >= at_ns)
    if not here_N.any():
        return []
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    pair_N = pair_O[calls.op_N]
    ranks_R, number_N = numbered(calls.rank_N)
    side_O = np.array([PAIRWISE.index(op) + 1 if op in PAIRWISE else 0 for op in calls.ops] + [0])  # numbers by itself
    place_N = ((calls.comm_N.astype(np.int64) + 1) * 3 + side_O[calls.op_N]) * len(ranks_R) + number_N
    over_P = np.full(int(place_N.max()) + 1, -1, np.int64)
    over_N = (calls.ended_N < at_ns) & ~calls.failed_N
    np.maximum.at(over_P, place_N[over_N], calls.seq_N[over_N])
    open_N = here_N & (calls.seq_N > over_P[place_N])
    if not open_N.any():
        return []
    baseline = _baseline(calls, at_ns)
    found = []
    for comm, seq, pairwise in sorted(
        {*zip(*(each[open_N].tolist() for each in (calls.comm_N, calls.seq_N, pair_N)), strict=True)}
    ):
        mine = _of_group(calls, pair_N, comm, seq, pairwise, at_ns)
        if pairwise:
            found += [_group(calls, [row], baseline, pairwise=True) for row in mine if open_N[row]]
        else:
            found.append(_group(calls, mine, baseline, pairwise=False, open_N=open_N))
    return sorted((each for each in found if each.waiting), key=lambda each: (each.first_ns, each.comm, each.seq))


def _of_group(calls: Calls, pair_N: Bools, comm: int, seq: int, pairwise: bool, at_ns: int) -> list[int]:
    """Rows of a group that entered before a time, the newest of each rank: a job begun anew counts from 0 again."""
    low, high = np.searchsorted(calls.comm_N, [comm, comm + 1]).tolist()
    # Both sides of the number itself: the one after the greatest is no int64, and would be compared as a float.
    low, high = (low + int(np.searchsorted(calls.seq_N[low:high], np.int64(seq), side)) for side in ("left", "right"))
    rows = [row for row in range(low, high) if pair_N[row] == pairwise and calls.entered_N[row] < at_ns]
    return list(rows) if pairwise else list({int(calls.rank_N[row]): row for row in rows}.values())


def _group(calls: Calls, rows: list[int], baseline: dict[tuple[int, int, int], int], *, pairwise: bool,
           open_N: Bools | None = None) -> Group:  # fmt: skip
    entered, waiting, kinds = {}, set(), {}
    begun = any(calls.started_N[row] < NEVER for row in rows)
    for row in rows:
        rank = int(calls.rank_N[row])
        kinds[rank] = (
            _name(calls.ops, calls.op_N[row]),
            int(calls.bytes_N[row]),
            _name(calls.dtypes, calls.dtype_N[row]),
        )
        if begun and calls.started_N[row] == NEVER and calls.ended_N[row] == NEVER:
            continue  # asked for, but its device has not come to it
        entered[rank] = int(calls.entered_N[row])
        if open_N is None or open_N[row]:
            waiting.add(rank)
    row = rows[0]
    comm = int(calls.comm_N[row])
    of_comm = slice(*np.searchsorted(calls.comm_N, [comm, comm + 1]).tolist())
    members = frozenset(numbered(calls.rank_N[of_comm])[0].tolist())
    op, size = _name(calls.ops, calls.op_N[row]), int(calls.size_N[of_comm].max())
    baseline_ns = baseline.get((comm, int(calls.op_N[row]), int(calls.bytes_N[row])), 0)
    return Group(
        _name(calls.comms, comm), int(calls.seq_N[row]), op, int(calls.bytes_N[row]), entered, frozenset(waiting),
        members, size, kinds, baseline_ns, pairwise,
    )  # fmt: skip


def _name(names: list[str], code: int) -> str:
    return names[code] if code >= 0 else ""


def _baseline(calls: Calls, at_ns: int) -> dict[tuple[int, int, int], int]:
    """What collectives of one communicator, operation and size take, first entry to last end: nearly the longest."""
    over_N = np.flatnonzero((calls.ended_N < at_ns) & ~calls.failed_N)
    if not len(over_N):
        return {}
    comm_N, seq_N = calls.comm_N[over_N], calls.seq_N[over_N]
    first = np.flatnonzero(np.append(True, (comm_N[1:] != comm_N[:-1]) | (seq_N[1:] != seq_N[:-1])))
    took_G = np.maximum.reduceat(calls.ended_N[over_N], first) - np.minimum.reduceat(calls.entered_N[over_N], first)
    row_G = over_N[first]
    key_G3 = np.column_stack([calls.comm_N[row_G], calls.op_N[row_G], calls.bytes_N[row_G]])
    kind_K3, kind_G = np.unique(key_G3, axis=0, return_inverse=True)
    kind_G = kind_G.ravel()
    order_G = np.lexsort((took_G, kind_G))
    edges = np.searchsorted(kind_G[order_G], np.arange(len(kind_K3) + 1))
    found = {}
    for kind, (low, high) in enumerate(zip(edges[:-1].tolist(), edges[1:].tolist(), strict=True)):
        place = low + int(BASELINE_QUANTILE * (high - low - 1))
        comm, op, size = kind_K3[kind].tolist()
        found[comm, op, size] = int(took_G[order_G[place]])
    return found
