"""What slows the steps of a trace: a worker, a stage, the lengths of sequences, the network, garbage collection.

The length of a computation is a product: what its kind takes, times how much longer its stage is, times how much slower
its worker is than the same stage elsewhere, times how much more this micro-batch is. Each factor is taken away by
itself, the steps are replayed, and the one whose absence mends most is the cause. These factors are apart; M_W and M_S
are not: a slow worker in the last stage makes M_S 1 too, and where sequences vary, an ideal last stage mends their
variation in it as well.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.operations import kinds
from leadline.analysis.ledger.operations.kernels import Cube
from leadline.analysis.ledger.operations.trace import Trace
from leadline.analysis.ledger.operations.whatif import WhatIf


class Cause(StrEnum):
    """Root-cause classes, as the paper names them in section 5."""

    NONE = "none"  # S below SLOW
    WORKER = "slow-worker"
    STAGE = "stage-imbalance"
    SEQUENCE = "sequence-length"
    COMMUNICATION = "communication"
    GARBAGE = "garbage-collection"
    UNKNOWN = "unknown"  # no single one explains LEAST of it


# Slowdown (ratio of step times) from which a job counts as slowed by stragglers, since less is what healthy jobs have.
# Source: paper: Lin et al., OSDI 2025, section 4.
SLOW = 1.1
# Share that a cause explains at least. The paper asks for half of M_W or M_S to call a job explained by one; with two
# causes at once the larger of two shares that overlap is often less, so we ask for the largest, and at least this.
# Source: measured: docs/analyses/whatif.md.
LEAST = 0.25
# Correlation of forward and backward of the same micro-batch from which their common cause is its length: a value
# between 0, which stalls of the forward alone have, and 0.9, which the paper takes as the sole sign (section 5.3),
# because here the variation was already found to be what slows the steps. Source: measured: docs/analyses/whatif.md.
TOGETHER = 0.75
# Standard errors by which means of a worker and its stage must differ for it to be another: between the largest and the
# lower median of means of one distribution there are more in one of 1,000 groups of 8, in three of 64. Source:
# textbook: order statistics of normal means.
SURE = 4.0
# Links that are replayed by themselves to find the slowest: those with the largest sum of excess transfer time, since
# each replay costs. Source: bound.
LINKS_MAX = 8


@dataclass(frozen=True, slots=True)
class Finding:
    """The cause, and where. `dp_rank`, `stage` and `rank` are -1 where the cause is nowhere in particular.

    share: of each cause, the share of the slowdown that is gone without it. together: correlation of forward and
    backward. link: ranks (from, to) of the slowest transfer, for communication between stages.
    """

    cause: Cause
    share: dict[Cause, float]
    together: float | None
    dp_rank: int = -1
    stage: int = -1
    rank: int = -1
    link: tuple[int, int] | None = None

    @property
    def confidence(self) -> float:
        """0 to 1: how much the cause mends, less what the second best would."""
        best, *others = sorted((min(max(each, 0.0), 1.0) for each in self.share.values()), reverse=True)
        return best * (1.0 - 0.5 * others[0])


def finding(answers: WhatIf) -> Finding:
    """The root cause of a trace's slowdown. Errors: none; `UNKNOWN` where nothing explains it.

    Source: Lin et al., OSDI 2025, section 5, for the classes and their signs. We depart from it in how they are told
    apart; see the head of this file and docs/analyses/whatif.md.
    """
    together = _together(answers.trace, answers.replay.real_TDO)
    share = _shares(answers, together)
    if answers.slowdown < SLOW:
        return Finding(Cause.NONE, share, together)
    cause = max(share, key=lambda each: share[each])
    if share[cause] < LEAST:
        return Finding(Cause.UNKNOWN, share, together)
    return _placed(answers, Finding(cause, share, together))


def _placed(answers: WhatIf, found: Finding) -> Finding:
    if found.cause is Cause.WORKER:
        dp_rank, stage = answers.top_worker
        return Finding(found.cause, found.share, found.together, dp_rank, stage, answers.rank((dp_rank, stage)))
    if found.cause is Cause.STAGE:
        return Finding(found.cause, found.share, found.together, stage=answers.top_stage)
    if found.cause is Cause.COMMUNICATION:
        return _slowest_transfer(answers, found)
    return found


def _shares(answers: WhatIf, together: float | None) -> dict[Cause, float]:
    trace, real_TDO = answers.trace, answers.replay.real_TDO
    factors = _Factors.of(trace, real_TDO)
    varies = _gone(answers, factors.steady_TDO)
    forward = _gone(answers, np.where(trace.of_kinds({kinds.FORWARD}), factors.steady_TDO, real_TDO))
    collected = _gone(answers, np.where(trace.of_kinds({kinds.GC}), np.median(real_TDO, (0, 1)), real_TDO))
    by_length = together is None or together >= TOGETHER
    stalls = 0.0 if by_length or forward < varies / 2 else forward
    return {
        Cause.WORKER: _gone(answers, factors.even_workers_TDO),
        Cause.STAGE: _gone(answers, factors.even_stages_TDO),
        Cause.SEQUENCE: varies if by_length else 0.0,
        Cause.COMMUNICATION: answers.mended(trace.of_kinds(kinds.COMMUNICATION)[None, :]),
        Cause.GARBAGE: max(stalls, collected),
    }


def _gone(answers: WhatIf, mended_TDO: Cube) -> float:
    return answers.share_gone(answers.replay.mean_ns(answers.replay.everything_DO, np.ascontiguousarray(mended_TDO)))


@dataclass(frozen=True, slots=True)
class _Factors:
    """Lengths of all operations, with one factor of those of computations taken away. (T, D, O), ns.

    steady: each as its worker takes in the mean. even_workers: each worker as its stage. even_stages: each stage as the
    mean stage. A stage takes the lower median of the means of its workers: the lesser of two; a few slow workers do not
    move it. A worker whose mean is not surely another than its stage's is as its stage: it happened to have more of the
    long micro-batches, and that is their doing.
    """

    steady_TDO: Cube
    even_workers_TDO: Cube
    even_stages_TDO: Cube

    @staticmethod
    def of(trace: Trace, real_TDO: Cube) -> _Factors:
        steady, workers, stages = real_TDO.copy(), real_TDO.copy(), real_TDO.copy()
        for kind in sorted(kinds.COMPUTE):
            of_kind = trace.of_kinds({kind})
            parts = [of_kind & (trace.stage_O == stage) for stage in np.unique(trace.stage_O[of_kind])]
            levels = [_levels(real_TDO[:, :, part]) for part in parts]
            if not parts:
                continue
            mean = float(np.average([stage for _, stage in levels], weights=[part.sum() for part in parts]))
            for part, (worker_D, stage) in zip(parts, levels, strict=True):
                steady[:, :, part] = worker_D[None, :, None]
                workers[:, :, part] *= _ratio(np.full(len(worker_D), stage), worker_D)[None, :, None]
                stages[:, :, part] *= _ratio(np.array([mean]), np.array([stage]))[0]
        return _Factors(steady, workers, stages)


def _levels(length_TDO: Cube) -> tuple[Floats, float]:
    """What each worker (D,) and the stage take for a computation of one kind, ns."""
    worker_D = length_TDO.mean((0, 2))
    stage = float(np.sort(worker_D)[(len(worker_D) - 1) // 2])
    count = length_TDO.shape[0] * length_TDO.shape[2]
    doubt_D = length_TDO.std((0, 2)) / np.sqrt(count)
    return np.where(np.abs(worker_D - stage) > SURE * doubt_D, worker_D, stage), stage


def _ratio(wanted: Floats, real: Floats) -> Floats:
    return np.divide(wanted, real, out=np.ones_like(real), where=real > 0)


def _together(trace: Trace, real_TDO: Cube) -> float | None:
    """Correlation of forward and backward of the same micro-batch, each by its worker's mean; None if undefined.

    By the mean: or a slow worker, both of whose computations are long, would look like long sequences.
    """
    forward, backward = _pairs(trace)
    if not len(forward):
        return None
    pairs = []
    for operations in (forward, backward):
        length_TDO = real_TDO[:, :, operations]
        mean_DO = np.empty(length_TDO.shape[1:])
        for stage in np.unique(trace.stage_O[operations]):
            part = trace.stage_O[operations] == stage
            mean_DO[:, part] = length_TDO[:, :, part].mean((0, 2))[:, None]
        pairs.append(np.divide(length_TDO, mean_DO, out=np.ones_like(length_TDO), where=mean_DO > 0).ravel())
    if min(pairs[0].std(), pairs[1].std()) < 1e-9:
        return None
    return float(np.corrcoef(pairs[0], pairs[1])[0, 1])


def _pairs(trace: Trace) -> tuple[Ints, Ints]:
    """Forward and backward operations of the same stage, chunk and micro-batch (where it is not told: of its order)."""
    by_key: list[dict[tuple[int, int, int], int]] = []
    for kind in (kinds.FORWARD, kinds.BACKWARD):
        at_O = np.flatnonzero(trace.of_kinds({kind}))
        order = np.lexsort((trace.seq_O[at_O], trace.micro_batch_O[at_O], trace.chunk_O[at_O], trace.stage_O[at_O]))
        found: dict[tuple[int, int, int], int] = {}
        seen: dict[tuple[int, int], int] = {}
        for at in at_O[order].tolist():
            place = (int(trace.stage_O[at]), int(trace.chunk_O[at]))
            seen[place] = seen.get(place, -1) + 1
            found[*place, seen[place]] = at
        by_key.append(found)
    both = sorted(by_key[0].keys() & by_key[1].keys())
    forward, backward = (np.array([found[key] for key in both], np.int64) for found in by_key)
    return forward, backward


def _slowest_transfer(answers: WhatIf, found: Finding) -> Finding:
    """The link or the collective that by itself slows most; a link is all transfers between two workers, one way."""
    trace, replay = answers.trace, answers.replay
    excess_DO = (replay.real_TDO - replay.ideal_O).sum(0)
    sums: dict[tuple[int, int, int], float] = {}  # replica, stage that sends or meets, stage that receives or -1
    marks: dict[tuple[int, int, int], list[int]] = {}
    for at in np.flatnonzero(trace.of_kinds(kinds.COMMUNICATION)).tolist():
        sender, receiver = _ends(trace, at)
        for replica in range(len(trace.dp_rank_D)):
            key = (replica, sender, receiver)
            sums[key] = sums.get(key, 0.0) + float(excess_DO[replica, at])
            marks.setdefault(key, []).append(at)
    best, most = None, 0.0
    for key in sorted(sums, key=lambda each: (-sums[each], each))[:LINKS_MAX]:
        kept_DO = np.zeros_like(replay.everything_DO)
        kept_DO[key[0], marks[key]] = True
        slowdown = answers.only(kept_DO)
        if slowdown > most:
            best, most = key, slowdown
    if best is None:
        return found
    replica, sender, receiver = best
    dp_rank = int(trace.dp_rank_D[replica])
    link = None if receiver < 0 else (int(trace.rank_DS[replica, sender]), int(trace.rank_DS[replica, receiver]))
    return Finding(found.cause, found.share, found.together, dp_rank, sender, int(trace.rank_DS[replica, sender]), link)


def _ends(trace: Trace, operation: int) -> tuple[int, int]:
    """Stages (sender, receiver) of a transfer; of a collective (its stage, -1)."""
    stage, peer = int(trace.stage_O[operation]), int(trace.graph.peer_O[operation])
    if peer < 0:
        return stage, -1
    other = int(trace.stage_O[peer])
    sends = kinds.KINDS[int(trace.kind_O[operation])].endswith("send")
    return (stage, other) if sends else (other, stage)
