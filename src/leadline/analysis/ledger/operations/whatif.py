"""What if: how long steps would have taken, had all operations, or all but some, taken as long as they ideally do.

    T         replayed with real lengths, without launch delays      S   = T / T_ideal      slowdown
    T_ideal   replayed with ideal lengths
    T_x       replayed with ideal lengths, real ones of a part x     S_x = T_x / T_ideal    slowdown that x leaves
    T_mended  replayed with real lengths, ideal ones of a part       M   = (T - T_mended) / (T - T_ideal)

All T are means over the steps. Source: Lin et al., "Understanding Stragglers in Large Model Training Using What-if
Analysis", OSDI 2025: S is equation 1, S_t (of an operation type) 2, S_w (of a worker) 4, M_W 5; M_S is of section 5.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from leadline.analysis.columns import Bools, Floats
from leadline.analysis.ledger.operations import kinds
from leadline.analysis.ledger.operations.graph import Graph
from leadline.analysis.ledger.operations.kernels import Cube, lengths, replayed
from leadline.analysis.ledger.operations.trace import Trace

# A transfer that ends, or an operation that begins, more than this before it can, has a wrong clock, so it took 0: 10
# ms is beyond what synchronised hosts are off by. Source: judgement.
EARLY_NS = 10_000_000
# Percent of all workers that M_W mends, rounded up: "the slowest 3 %", so that figures compare with the paper's.
# Source: paper: Lin et al., OSDI 2025, section 5.1.
SLOWEST_PERCENT = 3


@dataclass(frozen=True)
class Replay:
    """A trace, ready to be replayed with other lengths."""

    trace: Trace

    @cached_property
    def met_TDO(self) -> Cube:
        """When all participants of an operation had begun, ns."""
        return _met(self.trace.graph, self.trace.begin_TDO)

    @cached_property
    def real_TDO(self) -> Cube:
        """What each operation took itself, ns: its length, of synchronised ones from when all had begun."""
        real_TDO = self.trace.end_TDO - self.met_TDO
        return np.where((self.trace.graph.group_O >= 0) & (real_TDO <= -EARLY_NS), 0.0, real_TDO)

    @cached_property
    def delay_TDO(self) -> Cube:
        """Launch delays, ns: the host had not launched an operation when all it waits for had ended."""
        delay_TDO = _launched(self.trace.graph, self.trace.begin_TDO, self.trace.end_TDO)
        delay_TDO[delay_TDO <= -EARLY_NS] = 0.0
        return delay_TDO

    @cached_property
    def ideal_O(self) -> Floats:
        """Ideal length of each operation, ns: of all of its kind the mean, of communication the median.

        Source: section 3.2. The mean of computation keeps the work of a step as it is and spreads it evenly; of
        communication, which has a long tail, the median is what it takes undisturbed.
        """
        ideal_O = np.zeros(len(self.trace.kind_O))
        for kind in np.unique(self.trace.kind_O).tolist():
            of_kind = self.trace.kind_O == kind
            communicates = kinds.KINDS[kind] in kinds.COMMUNICATION
            ideal_O[of_kind] = (np.median if communicates else np.mean)(self.real_TDO[:, :, of_kind])
        return ideal_O

    @cached_property
    def last_O(self) -> Bools:
        """Operations that end a step: the optimiser's; all, if the trace has none."""
        optimizer = self.trace.of_kinds({kinds.OPTIMIZER})
        return optimizer if optimizer.any() else np.ones(len(optimizer), bool)

    def lengths_T(self, keep_DO: Bools, *, real_TDO: Cube | None = None, delays: bool = False) -> Floats:
        """Length of each step, ns, if operations take what they took where `keep_DO`, and else their ideal."""
        delay_TDO = self.delay_TDO if delays else np.zeros((0, 1, 1))
        real = self.real_TDO if real_TDO is None else real_TDO
        return lengths(self.trace.graph, real, self.ideal_O, keep_DO, delay_TDO, self.last_O)

    def times(self, keep_DO: Bools, *, delays: bool = False) -> tuple[Cube, Cube]:
        """Begin and end of every operation, ns from the step's begin, if operations take what `lengths_T` says."""
        begin_TDO, end_TDO = np.empty_like(self.real_TDO), np.empty_like(self.real_TDO)
        delay_TDO = self.delay_TDO if delays else np.zeros((0, 1, 1))
        replayed(self.trace.graph, self.real_TDO, self.ideal_O, keep_DO, delay_TDO, begin_TDO, end_TDO)
        return begin_TDO, end_TDO

    def mean_ns(self, keep_DO: Bools, real_TDO: Cube | None = None) -> float:
        """Mean length of a step, ns."""
        return float(self.lengths_T(keep_DO, real_TDO=real_TDO).mean())

    @cached_property
    def everything_DO(self) -> Bools:
        """A mask of all operations."""
        return np.ones((len(self.trace.dp_rank_D), len(self.trace.kind_O)), bool)


@dataclass(frozen=True)
class WhatIf:
    """Answers of one trace. Slowdowns are ratios of mean step times, 1: none."""

    replay: Replay

    @property
    def trace(self) -> Trace:
        """The trace it is of."""
        return self.replay.trace

    @cached_property
    def real_ns(self) -> float:
        """T: mean length of a step without launch delays."""
        return self.replay.mean_ns(self.replay.everything_DO)

    @cached_property
    def ideal_ns(self) -> float:
        """T_ideal."""
        return self.replay.mean_ns(~self.replay.everything_DO)

    @cached_property
    def slowdown(self) -> float:
        """S; 1 where a step takes no time at all."""
        return self._over_ideal(self.real_ns)

    @cached_property
    def by_dp_rank(self) -> dict[int, float]:
        """Slowdown left if only one data-parallel rank is as it was."""
        rank_D = self.trace.dp_rank_D
        return {int(rank): self.only((rank_D == rank)[:, None]) for rank in rank_D}

    @cached_property
    def by_stage(self) -> dict[int, float]:
        """Slowdown left if only one pipeline stage is as it was."""
        stage_O = self.trace.stage_O
        return {int(stage): self.only((stage_O == stage)[None, :]) for stage in np.unique(stage_O)}

    @cached_property
    def by_kind(self) -> dict[str, float]:
        """Slowdown left if only one kind of operation is as it was; sends and receives of a direction together."""
        found: dict[str, set[str]] = {}
        for kind in np.unique(self.trace.kind_O).tolist():
            name = kinds.KINDS[kind]
            found.setdefault(kinds.GROUP.get(name, name), set()).add(name)
        return {name: self.only(self.trace.of_kinds(of)[None, :]) for name, of in found.items()}

    @cached_property
    def by_worker(self) -> dict[tuple[int, int], float]:
        """Slowdown of each worker (dp_rank, stage), S_w: the lesser of its replica's and its stage's.

        Source: section 3.3. To replay each worker by itself would cost as many replays as there are workers.
        """
        return {
            (dp_rank, stage): min(of_rank, of_stage)
            for dp_rank, of_rank in self.by_dp_rank.items()
            for stage, of_stage in self.by_stage.items()
        }

    @cached_property
    def slowest(self) -> list[tuple[int, int]]:
        """Workers (dp_rank, stage), the slowest first; of equal ones the one with the lowest rank."""
        return sorted(self.by_worker, key=lambda worker: (-self.by_worker[worker], self.rank(worker), worker))

    @cached_property
    def top_stage(self) -> int:
        """Stage that slows most by itself; of equal ones the first."""
        return max(sorted(self.by_stage), key=lambda stage: self.by_stage[stage])

    @cached_property
    def top_worker(self) -> tuple[int, int]:
        """Worker (dp_rank, stage) that slows most: of the slowest replica and the slowest stage.

        S_w is greatest there too, but where every stage slows less than every replica (all S_w of a stage are its own
        then), or the other way round, it is that great elsewhere as well.
        """
        return max(sorted(self.by_dp_rank), key=lambda rank: self.by_dp_rank[rank]), self.top_stage

    @cached_property
    def mended_by_workers(self) -> float:
        """M_W: share of the slowdown that is gone if the slowest 3 % of the workers, rounded up, are ideal."""
        count = -(-len(self.slowest) * SLOWEST_PERCENT // 100)
        mended_DO = np.zeros_like(self.replay.everything_DO)
        for dp_rank, stage in self.slowest[:count]:
            mended_DO |= (self.trace.dp_rank_D == dp_rank)[:, None] & (self.trace.stage_O == stage)[None, :]
        return self.mended(mended_DO)

    @cached_property
    def mended_by_last_stage(self) -> float:
        """M_S: share of the slowdown that is gone if the last pipeline stage is ideal."""
        return self.mended((self.trace.stage_O == self.trace.stage_O.max())[None, :])

    def rank(self, worker: tuple[int, int]) -> int:
        """Global rank of a worker (dp_rank, stage)."""
        dp_rank, stage = worker
        return int(self.trace.rank_DS[int(np.argmax(self.trace.dp_rank_D == dp_rank)), stage])

    def only(self, kept: Bools) -> float:
        """Slowdown left if only what `kept` marks (as (D, O), or broadcast to it) is as it was."""
        return self._over_ideal(self.replay.mean_ns(np.ascontiguousarray(self.replay.everything_DO & kept)))

    def mended(self, mended: Bools) -> float:
        """Share of the slowdown that is gone if what is marked is ideal; 0 where there is no slowdown at all."""
        return self.share_gone(self.replay.mean_ns(np.ascontiguousarray(self.replay.everything_DO & ~mended)))

    def share_gone(self, mended_ns: float) -> float:
        """(T - T_mended) / (T - T_ideal). More than 1: steps are then faster than with all operations ideal."""
        lost_ns = self.real_ns - self.ideal_ns
        return (self.real_ns - mended_ns) / lost_ns if abs(lost_ns) > 1.0 else 0.0

    def _over_ideal(self, length_ns: float) -> float:
        return length_ns / self.ideal_ns if self.ideal_ns > 0 else 1.0


def what_if(trace: Trace) -> WhatIf:
    """Answers of one trace; each is computed when it is asked for."""
    return WhatIf(Replay(trace))


def _launched(graph: Graph, begin_TDO: Cube, end_TDO: Cube) -> Cube:
    """How long each operation began after all it waits for had ended, ns; of those that wait for nothing, after the
    step did."""
    delay_TDO = begin_TDO.copy()
    for operation in range(begin_TDO.shape[2]):
        waits = graph.wait[graph.wait_first[operation] : graph.wait_first[operation + 1]]
        if len(waits):
            delay_TDO[:, :, operation] -= end_TDO[:, :, waits].max(axis=2)
    return delay_TDO


def _met(graph: Graph, begin_TDO: Cube) -> Cube:
    """When the last of those that each operation meets began, ns; the operation itself, if it meets none."""
    met_TDO = begin_TDO.copy()
    for group, is_of_all in enumerate(graph.replicas_G.tolist()):
        members = graph.member[graph.member_first[group] : graph.member_first[group + 1]]
        there_TD1 = begin_TDO[:, :, members].max(axis=2, keepdims=True)
        met_TDO[:, :, members] = there_TD1.max(axis=1, keepdims=True) if is_of_all else there_TD1
    return met_TDO
