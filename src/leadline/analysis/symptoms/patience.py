"""How long a job may stand before it is told as stalled: by what its work took, and by the pauses that it makes.

    gone, stopped, diverged           2 s: nothing will come of the wait
    all came, and it does not end     2 s, or 3 times what its kind takes; 10 s, or 3 usual steps, where its kind is new
    a rank is missing within a step   the same
    a rank is missing between steps   the same, or as long as it may pause

Between steps a healthy job writes checkpoints, evaluates, compiles, begins an epoch. It tells most of that when it is
over. So a rank may pause for 3 times the longest pause that was seen; and where none was seen those that pause alone by
custom (the first rank of a communicator, which writes) and all together (more than half of the ranks) get a floor.
Where a program marks no steps (one line of the hook) a step is what lies between two `optimizer.step()`, so a pause of
the program falls within one: those who pause by custom may then pause anywhere.
Something that befell the host of a rank that is missing, such as a disk that fails, ends all patience with it.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import Calls, Group
from leadline.analysis.symptoms.decisions import DIED, DIVERGED, FROZEN, STUCK, Decision
from leadline.analysis.symptoms.happened import BROKEN, DEBUGGER, Happened
from leadline.analysis.symptoms.spans import NEAR_NS

# How long a job may stand still before it has stalled, by what is known of its habits: longer where less is known,
# because a false alarm costs more than some seconds. Changed where evals.healthy and evals.stranger found a wrong one.
# Source: recordings (docs/analyses/own-jobs.md).
WAIT_NS_MIN = 2 * S  # in a collective, whatever is usual: TCP's own retries and a busy machine hold ranks for a second
TIMES = 3  # times as long as the longest of its kind; twice happens on a busy machine
NEW_KIND_NS_MIN = 10 * S  # of a collective of a kind that was not seen: the first of a checkpoint, of an evaluation
TOLD_PAUSE_S_MIN = 60.0  # seconds of a phase that is told as begun, where none of its kind was seen to end
PAUSE_NS_MIN = 30 * S  # between steps, where no pause of the job was seen: it may be its first checkpoint
SILENT_NS_MIN = 10 * S  # nobody waits and nothing is told: where pauses were seen, and are shorter
# A step that nobody marked begins where the one before ended, within 0.1 ms; a gap of ten times that is one that the
# program told. Source: judgement.
UNMARKED_GAP_NS = S // 1000
# What befell a part so long before a stall may be why: time-outs of drivers and of storage are shorter. Source:
# judgement.
PARTS_NS = 30 * S


@dataclass(frozen=True)
class Paces:
    """Steps that are over: when they ended, how long they took (checkpoint taken off), ns. In order of end."""

    end_N: Ints
    rank_N: Ints
    begin_N: Ints
    length_N: Ints
    checkpoint_N: Ints  # how long each wrote a checkpoint
    has_phases: bool  # some tell how long the forward pass took

    @property
    def checkpoint_ns(self) -> int:
        """The longest checkpoint."""
        return int(self.checkpoint_N.max(initial=0))

    def wrote(self, rank: int, begin_ns: int, end_ns: int) -> bool:
        """Whether a rank wrote a checkpoint for more than half of a span."""
        mine_N = (self.rank_N == rank) & (self.checkpoint_N > 0)
        done_N, took_N = self.end_N[mine_N], self.checkpoint_N[mine_N]
        shared_N = np.minimum(done_N, end_ns) - np.maximum(done_N - took_N, begin_ns)
        return bool(2 * shared_N.max(initial=0) > end_ns - begin_ns)

    @property
    def baseline_ns(self) -> int:
        """How long a step takes; 0: not known."""
        return int(np.median(self.length_N)) if len(self.length_N) else 0

    def longest_gap_ns(self) -> int:
        """Longest time between two ends of steps."""
        times = np.unique(self.end_N)
        return int(np.diff(times).max()) if len(times) > 1 else 0

    def longest_pause_ns(self) -> int:
        """Longest time that a rank spent between two steps, if it is longer than a usual step; else 0. Of steps that
        nobody marked: by how much the longest exceeds a usual one."""
        if self.is_unmarked:
            longest_ns = int(self.length_N.max()) - self.baseline_ns
        else:
            longest_ns = int(self._gaps().max(initial=0))
        return longest_ns if longest_ns > self.baseline_ns else 0

    @cached_property
    def is_unmarked(self) -> bool:
        """Whether steps have no phases and follow each other without a gap: the program does not say where they
        begin."""
        gap_N = self._gaps()
        return not self.has_phases and len(gap_N) > 0 and bool(np.median(np.abs(gap_N)) < UNMARKED_GAP_NS)

    def _gaps(self) -> Ints:
        """Times between two steps of a rank, ns."""
        order_N = np.lexsort((self.begin_N, self.rank_N))
        rank_N, begin_N, end_N = (each[order_N] for each in (self.rank_N, self.begin_N, self.end_N))
        gap_N: Ints = (begin_N[1:] - end_N[:-1])[rank_N[1:] == rank_N[:-1]]
        return gap_N

    def last_ns(self, rank: int) -> int | None:
        """When a rank's newest step was over; None: none was."""
        mine = self.end_N[self.rank_N == rank]
        return int(mine.max()) if len(mine) else None


def paces_of(step: pa.Table, to_ns: int) -> Paces:
    """The steps that were over at a time."""
    begin_N, end_N, rank_N = ints(step, "start_ns"), ints(step, "end_ns"), ints(step, "rank")
    keep_N = (begin_N > 0) & (end_N > begin_N) & (end_N < min(to_ns, NEAR_NS))
    begin_N, end_N, rank_N = begin_N[keep_N], end_N[keep_N], rank_N[keep_N]
    checkpoint_N = np.clip(ints(step, "checkpoint_ns", 0)[keep_N], 0, end_N - begin_N)
    order_N = np.lexsort((begin_N, rank_N, end_N))
    length_N = (end_N - begin_N - checkpoint_N)[order_N]
    has_phases = step["forward_ns"].null_count < len(step)
    return Paces(end_N[order_N], rank_N[order_N], begin_N[order_N], length_N, checkpoint_N[order_N], has_phases)


@dataclass(frozen=True, slots=True)
class Patience:
    """What a job's own past says of how long it may stand."""

    paces: Paces
    calls: Calls
    happened: Happened

    def of(self, decision: Decision) -> int:
        """How long whom a decision blames may be waited for, ns."""
        group = decision.group
        if group is None or decision.category in (DIED, FROZEN, DIVERGED):
            return WAIT_NS_MIN
        baseline_ns = self._baseline_ns(group)
        if decision.category == STUCK:
            return baseline_ns
        return max(baseline_ns, self._pause_ns(group, decision.ranks or tuple(sorted(group.absent))))

    def silent_ns(self) -> int:
        """How long a job may tell nothing at all, while nobody waits: then all of it may be in a pause."""
        baseline_ns = TIMES * max(self.paces.longest_gap_ns(), self.paces.baseline_ns, self._seen_ns())
        return max(baseline_ns, SILENT_NS_MIN if self._seen_ns() else PAUSE_NS_MIN)

    def _baseline_ns(self, group: Group) -> int:
        if group.baseline_ns:
            return max(WAIT_NS_MIN, TIMES * group.baseline_ns)
        return max(NEW_KIND_NS_MIN if not group.pairwise else WAIT_NS_MIN, TIMES * self.paces.baseline_ns)

    def _seen_ns(self) -> int:
        """The longest pause of the job that was seen; 0: none was."""
        reported_ns = round(self.happened.longest_pause_s() * S)
        return max(reported_ns, self.paces.checkpoint_ns, self.paces.longest_pause_ns())

    def _pause_ns(self, group: Group, missing: Collection[int]) -> int:
        """How long ranks that are missing may be in a pause; 0: they are in none."""
        told = {self.happened.pauses[rank][1] for rank in missing if rank in self.happened.pauses}
        if DEBUGGER in told:
            return NEAR_NS
        if told:
            known_s = (TIMES * self.happened.paused_s.get(kind, TOLD_PAUSE_S_MIN / TIMES) for kind in sorted(told))
            return round(max(known_s) * S)
        if self._is_broken(missing, group.first_ns):
            return 0
        seen_ns = self._seen_ns()
        missing = [rank for rank in missing if rank in group.members]  # others are missing in groups of their own
        first = min(group.members)  # of a pair no rank writes for both, unless it is the job's first
        writes = first in missing and (first == 0 or len(group.members) > 2)
        by_custom = writes or 2 * len(missing) > len(group.members)
        if not all(self._between_steps(rank) for rank in missing) and not (by_custom and self.paces.is_unmarked):
            return 0
        return TIMES * seen_ns if seen_ns or not by_custom else PAUSE_NS_MIN

    def _is_broken(self, ranks: Collection[int], since_ns: int) -> bool:
        """Whether something befell the hosts or GPUs of ranks after which they do not come."""
        wanted = set(ranks)
        return any(each.kind in BROKEN and each.time_ns >= since_ns - PARTS_NS and wanted & {*each.ranks}
                   for each in self.happened.parts)  # fmt: skip

    def _between_steps(self, rank: int) -> bool:
        """Whether a rank has made all of a step's calls, or none of the next; true where that cannot be told."""
        last_ns = self.paces.last_ns(rank)
        if last_ns is None:
            return True
        entered_N = self.calls.entered_N[self.calls.rank_N == rank]
        ends = self.paces.end_N[self.paces.rank_N == rank]
        since = int((entered_N >= last_ns).sum())
        per_step_N = np.diff(np.searchsorted(np.sort(entered_N), ends))
        return since == 0 or (len(per_step_N) > 0 and since >= int(np.median(per_step_N)))
