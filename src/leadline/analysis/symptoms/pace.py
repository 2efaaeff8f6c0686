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
from leadline.analysis.symptoms.calls import NEVER, PAIRWISE, Calls
from leadline.analysis.symptoms.spans import NEAR_NS

UNIT_NS_MAX = 3600 * S
BLOCK_NS = S // 2  # shorter units are taken together: their noise is no news, and their number is bounded
FIRST_UNITS = 2  # of what is looked at: memory is allocated, kernels are chosen


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

    @property
    def unit_s_B(self) -> Floats:
        """Length of a unit, s."""
        return np.asarray(self.length_B / self.count_B / S, np.float64)


def pace_of(step: pa.Table, calls: Callable[[], Calls], to_ns: int) -> Pace:
    """The pace of a job, of what is known at `to_ns`. Calls are asked for where there are no steps."""
    found = _of_steps(step, to_ns)
    if len(found.end_B) < 2:
        found = _of_calls(calls())
    return _blocks(found.take(np.arange(len(found.end_B)) >= FIRST_UNITS))


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


def _of_calls(calls: Calls) -> Pace:
    """Times between ends of collectives of the communicator that has most of them, for a job that tells no steps."""
    pair_O = np.array([op in PAIRWISE for op in calls.ops] + [False], bool)
    over = np.flatnonzero((calls.ended_N < NEVER) & ~calls.failed_N & ~pair_O[calls.op_N] & (calls.comm_N >= 0))
    if not len(over):
        return _nothing()
    busiest = int(np.bincount(calls.comm_N[over]).argmax())
    over = over[calls.comm_N[over] == busiest]
    seq_N, ended_N = calls.seq_N[over], calls.ended_N[over]
    first = np.flatnonzero(np.append(True, seq_N[1:] != seq_N[:-1]))
    end_G = np.sort(np.maximum.reduceat(ended_N, first))
    length_U = np.diff(end_G)
    keep_U = (length_U > 0) & (length_U <= UNIT_NS_MAX)
    return Pace(
        end_G[:-1][keep_U], end_G[1:][keep_U], length_U[keep_U], np.ones(int(keep_U.sum()), np.int64), "collective"
    )


def _blocks(units: Pace) -> Pace:
    """As many units together as make up `BLOCK_NS` in the median."""
    if not len(units.end_B):
        return units
    each = max(1, int(np.ceil(BLOCK_NS / max(float(np.median(units.length_B)), 1.0))))
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
