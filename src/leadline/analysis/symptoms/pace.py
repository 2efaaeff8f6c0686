"""How fast a job goes: its steps, or its collectives where it tells no steps, as blocks of at least half a second.

step rows ──────> steps of the job (first begin of a rank to last end, checkpoint taken off) ─┐
collective rows ─> time from one end to the next, where there are no steps ───────────────────┴─> blocks

A block's ratio is its length over what such units take in the median of the blocks that are no trouble.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints, ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.call_kernels import Int32s
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, Calls
from leadline.analysis.symptoms.excursion_kernels import KNOWN_MIN
from leadline.analysis.symptoms.spans import NEAR_NS

UNIT_NS_MAX = 3600 * S  # A longer step or round is nonsense: no training step takes an hour. Source: bound.
# Shorter units are taken together in blocks, since the noise of single ones is no news and their number stays bounded
# (600 in the look-back). Source: judgement.
BLOCK_NS = S // 2
# Collectives of a step among which a round is looked for: models of the lab have up to some tens, large ones hundreds.
# Source: bound.
ROUND_MAX = 512
# Share of collectives that must be what they were a round before: not all, because an evaluation or a checkpoint comes
# between. Source: recordings (docs/analyses/slowdowns.md, rounds).
ROUND_SHARE = 0.95
# Rounds at the end of the rows in which the period must hold: two could repeat by chance, so twice that. Source:
# judgement.
ROUNDS_LOOKED_AT = 4
# Blocks of which a single slow one is a pause and no slow-down: with four, three others say what is usual. Written
# after looking at healthy jobs. Source: recordings (seed 1 of evals.healthy; docs/analyses/own-jobs.md).
MANY = 4
# Units left out at the begin of a job: memory is allocated and kernels are chosen in the first two steps. Source:
# judgement.
FIRST_UNITS = 2
# rounds that must be there for a period to be one, because two may be alike by chance. Source: judgement.
ROUNDS_MIN = 3


@dataclass(frozen=True, slots=True)
class Pace:
    """B blocks in order of time, ns: `count_B` units (of one kind) from begin to end that took `length_B` of it."""

    begin_B: Ints
    end_B: Ints
    length_B: Ints
    count_B: Ints
    what: str  # step, collective; empty: nothing is known

    def take(self, keep_B: Bools) -> Pace:
        """Some of the blocks."""
        return replace(
            self, begin_B=self.begin_B[keep_B], end_B=self.end_B[keep_B], length_B=self.length_B[keep_B],
            count_B=self.count_B[keep_B],
        )  # fmt: skip

    def is_slower(self, since_ns: int, share: float) -> bool:
        """Whether a unit takes longer than before `since_ns` by this share, from one end to the next: pauses count.

        True where too little is known to tell.
        """
        whole_B = np.diff(self.end_B) / self.count_B[1:]
        before_B, now_B = whole_B[self.end_B[1:] <= since_ns], whole_B[self.end_B[1:] > since_ns]
        if len(before_B) < KNOWN_MIN or not len(now_B):
            return True
        return float(np.mean(now_B)) >= (1 + share) * float(np.median(before_B))

    def slow_units(self, since_ns: int, share: float) -> int | None:
        """How many blocks since then took longer than before by this share, pauses included; None: too little is known
        to tell."""
        whole_B = np.diff(self.end_B) / self.count_B[1:]
        before_B, now_B = whole_B[self.end_B[1:] <= since_ns], whole_B[self.end_B[1:] > since_ns]
        if len(before_B) < KNOWN_MIN or len(now_B) < MANY:
            return None
        return int(np.count_nonzero(now_B > (1 + share) * np.median(before_B)))

    @property
    def unit_s_B(self) -> Floats:
        """Length of a unit, s."""
        return np.asarray(self.length_B / self.count_B / S, np.float64)


def pace_of(step: pa.Table, calls: Callable[[], Calls], to_ns: int) -> Pace:
    """The pace of a job, of what is known at `to_ns`. Calls are asked for where there are no steps."""
    found, of = _of_steps(step, to_ns), 1
    if len(found.end_B) < 2:
        found, of = _of_calls(calls())
    return _blocks(found.take(np.arange(len(found.end_B)) >= FIRST_UNITS), of)


def _nothing(what: str = "") -> Pace:
    none = np.zeros(0, np.int64)
    return Pace(none, none, none, none, what)


def _of_steps(step: pa.Table, to_ns: int) -> Pace:
    begin_N, end_N, number_N = (ints(step, name) for name in ("start_ns", "end_ns", "step"))
    keep_N = (begin_N > 0) & (end_N > begin_N) & (end_N < min(to_ns, NEAR_NS))
    keep_N[keep_N] = end_N[keep_N] - begin_N[keep_N] <= UNIT_NS_MAX
    begin_N, end_N, number_N = begin_N[keep_N], end_N[keep_N], number_N[keep_N]
    checkpoint_N = np.clip(ints(step, "checkpoint_ns", 0)[keep_N], 0, end_N - begin_N)
    if not len(begin_N):
        return _nothing()
    order_N = np.lexsort((end_N, begin_N, number_N))
    begin_N, end_N, number_N, checkpoint_N = (each[order_N] for each in (begin_N, end_N, number_N, checkpoint_N))
    # A number that comes again after its step was over is another step: the job was begun anew.
    first = np.flatnonzero(np.append(True, (number_N[1:] != number_N[:-1]) | (begin_N[1:] >= end_N[:-1])))
    begin_I, end_I = begin_N[first], np.maximum.reduceat(end_N, first)
    ranks_I = np.diff(np.append(first, len(begin_N)))
    length_I = np.maximum(end_I - begin_I - np.maximum.reduceat(checkpoint_N, first), 1)
    whole_I = 2 * ranks_I > np.median(ranks_I)  # of others most ranks were not heard of yet
    order_I = np.argsort(begin_I, kind="stable")
    order_I = order_I[whole_I[order_I]]
    return Pace(begin_I[order_I], end_I[order_I], length_I[order_I], np.ones(len(order_I), np.int64), "step")


def _of_calls(calls: Calls) -> tuple[Pace, int]:
    """Times between ends of collectives of the communicator that has most of them, for a job that tells no steps; and
    how many make a round."""
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    over = np.flatnonzero((calls.ended_N < NEVER) & ~calls.failed_N & ~pair_O[calls.op_N] & (calls.comm_N >= 0))
    if not len(over):
        return _nothing(), 1
    busiest = int(np.bincount(calls.comm_N[over]).argmax())
    over = over[calls.comm_N[over] == busiest]
    seq_N, ended_N = calls.seq_N[over], calls.ended_N[over]
    first = np.flatnonzero(np.append(True, seq_N[1:] != seq_N[:-1]))
    end_G = np.sort(np.maximum.reduceat(ended_N, first))
    length_U = np.diff(end_G)
    keep_U = (length_U > 0) & (length_U <= UNIT_NS_MAX)
    found = Pace(
        end_G[:-1][keep_U], end_G[1:][keep_U], length_U[keep_U], np.ones(int(keep_U.sum()), np.int64), "collective"
    )
    return found, _round(calls.op_N[over][first], calls.bytes_N[over][first])


def _round(op_G: Int32s, bytes_G: Ints) -> int:
    """After how many collectives the same ones come again, in the same order; 1 where they do not.

    Small and large ones take differently long: only whole rounds can be held against each other.
    """
    op_G, bytes_G = op_G[-ROUNDS_LOOKED_AT * ROUND_MAX :], bytes_G[-ROUNDS_LOOKED_AT * ROUND_MAX :]
    for of in range(1, min(ROUND_MAX, len(op_G) // ROUNDS_MIN) + 1):
        same = (op_G[of:] == op_G[:-of]) & (bytes_G[of:] == bytes_G[:-of])
        if same.mean() >= ROUND_SHARE:
            return of
    return 1


def _blocks(units: Pace, of: int) -> Pace:
    """As many units together as make up `BLOCK_NS`, in whole rounds of so many."""
    if not len(units.end_B):
        return units
    baseline_ns = max(float(np.median(units.length_B) if of == 1 else np.mean(units.length_B)), 1.0)
    each = of * max(1, int(np.ceil(BLOCK_NS / (of * baseline_ns))))
    # From the newest back, so that what came last is whole.
    place = (len(units.end_B) - 1 - np.arange(len(units.end_B))) // each
    first = np.flatnonzero(np.append(True, place[1:] != place[:-1]))
    if first.size > 1 and np.diff(first)[0] < each:
        first = first[1:]
    last = np.append(first[1:], len(units.end_B)) - 1
    start = int(first[0])

    def add(value_U: Ints) -> Ints:
        return np.add.reduceat(value_U[start:], first - start)

    return Pace(units.begin_B[first], units.end_B[last], add(units.length_B), add(units.count_B), units.what)


def inside(pace: Pace, spans: Sequence[tuple[int, int]]) -> Bools:
    """Which blocks touch any of some spans, ns."""
    found_B = np.zeros(len(pace.end_B), bool)
    for begin, end in spans:
        found_B |= (pace.end_B > begin) & (pace.begin_B < end)
    return found_B
