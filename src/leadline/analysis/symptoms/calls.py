"""Collectives as calls: which rank entered which one when, and which were not over at some time.

collective rows ──> calls (one for each rank of each collective) ──> groups that somebody waits in at a time
Sends and receives are groups of their own: who is at the other end is not told.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, codes, ints
from leadline.analysis.symptoms.spans import NEAR_NS

NEVER = 2**62
PAIRWISE = ("send", "recv")
USUAL_QUANTILE = 0.95
RANKS_MAX = 1_000_000


@dataclass(frozen=True, slots=True)
class Calls:
    """N calls in order of communicator, number, rank, entry. Times in ns; `NEVER`: not told."""

    comm_N: Ints
    seq_N: Ints
    rank_N: Ints
    op_N: Ints
    bytes_N: Ints
    dtype_N: Ints
    size_N: Ints  # ranks of the communicator
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
        found: list[int] = np.unique(self.rank_N).tolist()
        return set(found)


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
    usual_ns: int  # what such a collective takes at most, from first entry to last end; 0: not known
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


def calls_of(collective: pa.Table, to_ns: int) -> Calls:
    """The calls of a job, of what is known at `to_ns`. An end after it has not come yet."""
    entered_N, rank_N = ints(collective, "enqueued_ns"), ints(collective, "rank")
    keep_N = (entered_N > 0) & (entered_N < min(to_ns, NEAR_NS)) & (rank_N >= 0) & (rank_N < RANKS_MAX)
    if not keep_N.all():
        collective = collective.filter(pa.array(keep_N))
        entered_N, rank_N = entered_N[keep_N], rank_N[keep_N]
    comm, op, dtype, state = (codes(collective, name) for name in ("comm", "op", "dtype", "state"))
    seq_N, bytes_N, size_N = (np.maximum(ints(collective, name, 0), 0) for name in ("seq", "bytes", "ranks"))
    started_N, ended_N = (
        _known(ints(collective, name, NEVER), entered_N, to_ns) for name in ("started_ns", "finished_ns")
    )
    failed_N = state.code_N == state.places().get("failed", -2)
    order_N = np.lexsort((ended_N, op.code_N, entered_N, rank_N, seq_N, comm.code_N))
    keys = [each[order_N] for each in (comm.code_N, seq_N, rank_N, entered_N, op.code_N)]
    first_N = np.ones(len(order_N), bool)
    if len(order_N) > 1:
        first_N[1:] = np.any([key[1:] != key[:-1] for key in keys], axis=0)
    first = np.flatnonzero(first_N)
    row_N = order_N[first]

    def least(value_N: Ints) -> Ints:
        return np.minimum.reduceat(value_N[order_N], first) if len(first) else value_N

    failed = np.logical_or.reduceat(failed_N[order_N], first) if len(first) else failed_N
    return Calls(
        comm.code_N[row_N], seq_N[row_N], rank_N[row_N], op.code_N[row_N], bytes_N[row_N], dtype.code_N[row_N],
        np.minimum(size_N[row_N], RANKS_MAX), entered_N[row_N], least(started_N), least(ended_N), failed,
        comm.names, op.names, dtype.names,
    )  # fmt: skip


def _known(at_N: Ints, entered_N: Ints, to_ns: int) -> Ints:
    return np.where((at_N >= entered_N) & (at_N < to_ns), at_N, NEVER)


def groups_waiting(calls: Calls, at_ns: int) -> list[Group]:
    """The groups that ranks were waiting in at a time, in order of their first entry.

    A call that has no end though its rank has been let go from a later one of the same communicator is no wait: its end
    was lost. Where work has a begin of its own (a GPU's queue), who has not begun has not come.
    """
    if not len(calls.rank_N):
        return []
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    pair_N = pair_O[calls.op_N]
    number_R, number_N = np.unique(calls.rank_N, return_inverse=True)
    place_N = ((calls.comm_N + 1) * 2 + pair_N) * len(number_R) + number_N.ravel()
    over_P = np.full(int(place_N.max()) + 1, -1, np.int64)
    over_N = (calls.ended_N < at_ns) & ~calls.failed_N
    np.maximum.at(over_P, place_N[over_N], calls.seq_N[over_N])
    here_N = (calls.entered_N < at_ns) & (calls.ended_N >= at_ns)
    open_N = here_N & (calls.seq_N > over_P[place_N])
    usual = _usual(calls, at_ns)
    found = []
    for comm, seq, pairwise in sorted(
        {*zip(*(each[open_N].tolist() for each in (calls.comm_N, calls.seq_N, pair_N)), strict=True)}
    ):
        mine = _of_group(calls, pair_N, comm, seq, pairwise, at_ns)
        if pairwise:
            found += [_group(calls, [row], usual, pairwise=True) for row in mine if open_N[row]]
        else:
            found.append(_group(calls, mine, usual, pairwise=False, open_N=open_N))
    return sorted((each for each in found if each.waiting), key=lambda each: (each.first_ns, each.comm, each.seq))


def _of_group(calls: Calls, pair_N: Bools, comm: int, seq: int, pairwise: bool, at_ns: int) -> list[int]:
    """Rows of a group that entered before a time, the newest of each rank: a job begun anew counts from 0 again."""
    low, high = np.searchsorted(calls.comm_N, [comm, comm + 1]).tolist()
    low, high = (low + np.searchsorted(calls.seq_N[low:high], [seq, seq + 1])).tolist()
    rows = [row for row in range(low, high) if pair_N[row] == pairwise and calls.entered_N[row] < at_ns]
    return list(rows) if pairwise else list({int(calls.rank_N[row]): row for row in rows}.values())


def _group(calls: Calls, rows: list[int], usual: dict[tuple[int, int, int], int], *, pairwise: bool,
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
    of_comm = calls.comm_N == comm
    members = frozenset(np.unique(calls.rank_N[of_comm]).tolist())
    op, size = _name(calls.ops, calls.op_N[row]), int(calls.size_N[of_comm].max())
    usual_ns = usual.get((comm, int(calls.op_N[row]), int(calls.bytes_N[row])), 0)
    return Group(
        _name(calls.comms, comm), int(calls.seq_N[row]), op, int(calls.bytes_N[row]), entered, frozenset(waiting),
        members, size, kinds, usual_ns, pairwise,
    )  # fmt: skip


def _name(names: list[str], code: int) -> str:
    return names[code] if code >= 0 else ""


def _usual(calls: Calls, at_ns: int) -> dict[tuple[int, int, int], int]:
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
        place = low + int(USUAL_QUANTILE * (high - low - 1))
        comm, op, size = kind_K3[kind].tolist()
        found[comm, op, size] = int(took_G[order_G[place]])
    return found
