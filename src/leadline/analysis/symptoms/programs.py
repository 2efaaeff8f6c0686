"""What ranks call after what: which of two different calls is the one that the program makes there, and who comes late.

    ... A B C | A B C | A B D        after A B came C whenever it was seen: who calls D left the program
                        rank 2

A token is one call (communicator, operation, size, element type). The three calls before it tell what may follow; where
they were never seen together, the two before, the one, and at last anything that the rank called before.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, Calls, Group

# What a rank's program calls next, learned from its own calls: n-grams of up to CONTEXT, the longest that was seen.
# Source: judgement.
CONTEXT = 3  # calls before one that tell what may come: layers repeat after fewer
SEEN_MIN = 2  # times that they were seen, before it is strange that something else follows: once proves nothing
CALLS_MAX = 4096  # calls of a rank that are looked at, so that a window stays cheap
NEWEST = 256  # calls among which it may have left the program: some steps of a model of many layers
OF_ALL = ("all_reduce", "broadcast", "reduce", "reduce_scatter", "barrier")  # ranks put in as much as each other
# Share of the time since the collective before, by which a rank later than the median is slow: beyond the 5 to 8 % that
# healthy steps differ by. Source: judgement (row 5 of the table in docs/analyses/stalls.md).
LATE_SHARE = 0.2
# The same in time, at least, so that ranks of short steps are not slow by what a busy scheduler takes. Source:
# judgement.
LATE_NS_MIN = S // 20
# collectives before the one that is waited in, in which it is looked for: the same step. Source: judgement.
LATE_OF = 5
LATE_MIN = 3  # of these, in which a rank came so late: most, because once is chance. Source: judgement.

Kind = tuple[str, int, str]


def compared(kind: Kind) -> Kind:
    """What of operation, bytes and element type must be the same on all ranks: of a gather, for one, sizes differ."""
    op, size, dtype = kind
    return (op, size, dtype) if op in OF_ALL else (op, 0, "")


def is_strange(tokens: Sequence[Hashable], newest: int = 1) -> bool:
    """Whether one of the newest calls of a rank is none that followed what came before it; not if nothing is known."""
    first = len(tokens) - newest
    followers: dict[tuple[Hashable, ...], Counter[Hashable]] = defaultdict(Counter)
    for at in range(first):
        for length in range(min(CONTEXT, at) + 1):
            followers[tuple(tokens[at - length : at])][tokens[at]] += 1
    return any(_is_new(tokens, at, followers) for at in range(max(first, 0), len(tokens)))


def _is_new(tokens: Sequence[Hashable], at: int, followers: Mapping[tuple[Hashable, ...], Counter[Hashable]]) -> bool:
    for length in range(min(CONTEXT, at), -1, -1):
        known = followers.get(tuple(tokens[at - length : at]))
        if known is not None and known.total() >= SEEN_MIN:
            return tokens[at] not in known
    return False


@dataclass(frozen=True, slots=True)
class Programs:
    """What the ranks of a job called, up to a time."""

    calls: Calls
    at_ns: int

    def strange_in(self, group: Group) -> frozenset[int]:
        """Ranks whose call in a group is not what followed on that communicator before.

        Of those that made the same call one is looked at: a communicator's calls are the same on all ranks until then.
        """
        asked: dict[Kind, list[int]] = defaultdict(list)
        for rank in sorted(group.kinds):
            asked[compared(group.kinds[rank])].append(rank)
        comm = self.calls.comms.index(group.comm) if group.comm in self.calls.comms else -1
        found: set[int] = set()
        for kind, ranks in asked.items():
            tokens = self._of_comm(ranks[0], comm, group.seq)
            if is_strange([*tokens, kind]):
                found.update(ranks)
        return frozenset(found)

    def astray(self, ranks: Iterable[int]) -> frozenset[int]:
        """Ranks one of whose newest calls is not what they called next before, on whatever communicator."""
        found = set()
        for rank in sorted(ranks):
            tokens = self._all_of(rank)
            if is_strange(tokens, min(NEWEST, len(tokens) // 2)):
                found.add(rank)
        return frozenset(found)

    def late_before(self, group: Group) -> frozenset[int]:
        """Ranks that came clearly later than the others to most of the last collectives before a group."""
        calls = self.calls
        comm = calls.comms.index(group.comm) if group.comm in calls.comms else -1
        mine = np.flatnonzero((calls.comm_N == comm) & (calls.seq_N < group.seq) & (calls.ended_N < NEVER))
        mine = mine[~self._pair_O()[calls.op_N[mine]]]
        numbers = np.unique(calls.seq_N[mine])[-LATE_OF - 1 :]
        late: Counter[int] = Counter()
        before_ns = None
        for seq in numbers.tolist():
            rows = mine[calls.seq_N[mine] == seq]
            if before_ns is not None:
                late.update(_late(calls.rank_N[rows], calls.entered_N[rows], before_ns))
            before_ns = int(calls.ended_N[rows].max())
        return frozenset(rank for rank, times in late.items() if times >= LATE_MIN)

    def _of_comm(self, rank: int, comm: int, seq: int) -> list[Kind]:
        calls = self.calls
        mine = np.flatnonzero((calls.comm_N == comm) & (calls.rank_N == rank) & (calls.seq_N < seq))
        mine = mine[~self._pair_O()[calls.op_N[mine]]][-CALLS_MAX:]
        return [self._kind(row) for row in mine.tolist()]

    def _all_of(self, rank: int) -> list[tuple[str, Kind]]:
        calls = self.calls
        mine = np.flatnonzero((calls.rank_N == rank) & (calls.entered_N < self.at_ns))
        mine = mine[np.argsort(calls.entered_N[mine], kind="stable")][-CALLS_MAX:]
        return [(_named(calls.comms, calls.comm_N[row]), self._kind(row)) for row in mine.tolist()]

    def _kind(self, row: int) -> Kind:
        calls = self.calls
        return compared((_named(calls.ops, calls.op_N[row]), int(calls.bytes_N[row]),
                         _named(calls.dtypes, calls.dtype_N[row])))  # fmt: skip

    def _pair_O(self) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.array([op in PAIRWISE for op in self.calls.ops] + [False], bool)


def _late(rank_M: Ints, entered_M: Ints, before_ns: int) -> list[int]:
    if len(rank_M) < 2:
        return []
    middle_ns = int(np.sort(entered_M)[(len(entered_M) - 1) // 2])
    least_ns = max(LATE_NS_MIN, LATE_SHARE * (middle_ns - before_ns))
    found: list[int] = rank_M[entered_M - middle_ns >= least_ns].tolist()
    return found


def _named(names: Sequence[str], code: int) -> str:
    return names[code] if code >= 0 else ""
