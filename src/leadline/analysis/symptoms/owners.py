"""Whom a slowdown is blamed on: what the ledger says, and before it says anything what arrivals and phases do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ints, ints
from leadline.analysis.spec import S
from leadline.analysis.symptoms.calls import RANKS_MAX, numbered
from leadline.analysis.symptoms.lateness import Lateness
from leadline.analysis.symptoms.onsets import TIMES
from leadline.analysis.symptoms.spans import NEAR_NS, Blame
from leadline.model.accounts import Category, Depth
from leadline.model.ids import ENTITY_KINDS, kind_of

# Share of what was lost from which somebody is blamed for it: more than five names are no owner. Source: recordings
# (docs/analyses/slowdowns.md).
SHARE_MIN = 0.2
# Share of the lateness that makes somebody new who had next to none before: a third, as for a clear slow-down
# (SHARE_CLEAR). Source: recordings (two faults in one slow-down; docs/log.md, 2026-11-23).
NEW_SHARE = 1 / 3
# Share of a rank's lateness that its input took more, from which on it waits for data: most of it. Source: definition.
INPUT_SHARE = 0.5
NOT_LOST = (Category.RESTART,)  # what `stalls` tells


@dataclass(frozen=True, slots=True)
class Lost:
    """What the ledger tells as lost since a time: whole, by owner and category; until when it has told."""

    until_ns: int
    gpu_seconds: float
    by_owner: dict[tuple[str, str, str], float]  # owner, category, depth
    unknown: str | None  # the input that is missing for most of what has no owner


def lost_since(ledger: Sequence[Mapping[str, Any]], since_ns: int, to_ns: int, job: str) -> Lost:
    """What windows of the ledger that lie after `since_ns`, or in which it falls, tell as lost.

    Of the window in which it falls only as much counts as of its time is after it.
    """
    by_owner: dict[tuple[str, str, str], float] = defaultdict(float)
    unknown: dict[str, float] = defaultdict(float)
    until_ns, whole = 0, 0.0
    for row in ledger:
        end_ns, window_ns, lost = row["end_ns"], row["window_ns"], row["lost_gpu_seconds"]
        if not since_ns < end_ns <= to_ns or not 0 < window_ns < NEAR_NS or not 0 <= lost < 1e300:
            continue
        until_ns = max(until_ns, end_ns)
        if row["category"] in NOT_LOST or not lost:
            continue
        # What was lost in a window that the onset falls in was lost after it.
        whole += lost
        owner = _owner(row["owner"], row["category"], job)
        if owner is None:
            unknown[str(row["owner"])] += lost
        else:
            by_owner[owner, row["category"], row["depth"]] += lost
    most = max(sorted(unknown), key=lambda name: unknown[name]) if unknown else None
    return Lost(until_ns, whole, dict(by_owner), most)


def _owner(owner: str | None, category: str, job: str) -> str | None:
    """The owner as an entity; the job itself for what the ledger has no owner of; None of what is unknown."""
    if category == Category.UNKNOWN:
        return None
    if owner and kind_of(owner) in ENTITY_KINDS:
        return owner
    return f"job:{job}"


@dataclass(frozen=True, slots=True)
class Phases:
    """By how much phases of a rank's mean step became longer since a time, s; of all ranks in the median."""

    input_s: dict[int, float]
    forward_s: dict[int, float]

    def typical(self, of: Mapping[int, float]) -> float:
        """Median over the ranks."""
        return float(np.median(sorted(of.values()))) if of else 0.0


def phases_since(step: pa.Table, since_ns: int, to_ns: int) -> Phases:
    """Growth of input and forward pass by rank, of steps that ended after `since_ns` against those before."""
    rank_N, begin_N, end_N = (ints(step, name) for name in ("rank", "start_ns", "end_ns"))
    keep_N = (begin_N > 0) & (end_N > begin_N) & (end_N < min(to_ns, NEAR_NS)) & (rank_N >= 0)
    rank_N, end_N = rank_N[keep_N], end_N[keep_N]
    data_N, forward_N = (np.clip(ints(step, name, 0)[keep_N], 0, 3600 * S) for name in ("data_ns", "forward_ns"))
    ranks_R, number_N = _numbered(rank_N)
    return Phases(*(_grown(ranks_R, number_N, end_N > since_ns, value_N) for value_N in (data_N, forward_N)))


def _numbered(rank_N: Ints) -> tuple[Ints, Ints]:
    """Which ranks occur, and the place of each row's among them; sorted only where numbers are no ranks."""
    if len(rank_N) and int(rank_N.max()) >= RANKS_MAX:
        ranks_R, number_N = np.unique(rank_N, return_inverse=True)
        return ranks_R, number_N.ravel()
    return numbered(rank_N)


def _grown(ranks: Ints, number_N: Ints, after_N: Bools, value_N: Ints) -> dict[int, float]:
    count = len(ranks)
    sums, counts = [], []
    for part_N in (after_N, ~after_N):
        total_R = np.zeros(count, np.int64)  # integers: their sum does not depend on its order
        np.add.at(total_R, number_N[part_N], value_N[part_N])
        sums.append(total_R)
        counts.append(np.bincount(number_N[part_N], minlength=count))
    both = (counts[0] > 0) & (counts[1] > 0)
    grown_R = np.zeros(count)
    grown_R[both] = (sums[0][both] / counts[0][both] - sums[1][both] / counts[1][both]) / S
    return {int(rank): float(value) for rank, value, known in zip(ranks, grown_R, both, strict=True) if known}


def first_blame(
    late: Lateness, phases: Phases, lost_s: float, gpus: int, steps: int, since_ns: int, job: str
) -> list[Blame]:
    """Whom arrivals and phases blame for `lost_s` seconds of `steps` steps; nobody where they explain too little."""
    if lost_s <= 0:
        return []
    found = []
    for rank, seconds in sorted(late.by_rank_s.items()):
        if seconds >= SHARE_MIN * lost_s:
            waits = phases.input_s.get(rank, 0.0) * steps >= INPUT_SHARE * min(seconds, lost_s)
            category = Category.INPUT if waits else Category.STRAGGLER
            found.append((f"rank:{job}/{rank}", category, Depth.COLLECTIVES, seconds))
    for comm, seconds in sorted(late.by_comm_s.items()):
        if seconds >= SHARE_MIN * lost_s:
            found.append((f"comm:{comm}", Category.COMMUNICATION, Depth.COLLECTIVES, seconds))
    if not found:
        found = _of_phases(phases, lost_s, steps, job)
    scale = min(1.0, lost_s / sum(each[3] for each in found)) if found else 1.0
    return [Blame(owner, category, depth, s * scale * gpus, since_ns) for owner, category, depth, s in found]


def somebody_new(before: Lateness, before_s: float, now: Lateness, now_s: float) -> bool:
    """Whether somebody has a good part of the lateness of `now_s` seconds, who had next to none in those before."""
    total_s = sum(now.by_rank_s.values()) + sum(now.by_comm_s.values())
    shares = [(late_s, before.by_rank_s.get(rank, 0.0)) for rank, late_s in now.by_rank_s.items()]
    shares += [(late_s, before.by_comm_s.get(comm, 0.0)) for comm, late_s in now.by_comm_s.items()]
    return any(
        late_s >= NEW_SHARE * total_s and late_s * before_s >= TIMES * earlier_s * now_s for late_s, earlier_s in shares
    )


def _of_phases(phases: Phases, lost_s: float, steps: int, job: str) -> list[tuple[str, Category, Depth, float]]:
    """Where collectives tell nothing: one rank's own phases that grew, or those of all."""
    typical = {Category.INPUT: phases.typical(phases.input_s), Category.COMPUTE: phases.typical(phases.forward_s)}
    found = []
    for category, of in ((Category.INPUT, phases.input_s), (Category.STRAGGLER, phases.forward_s)):
        for rank, more in sorted(of.items()):
            beyond = (more - typical[Category.INPUT if category is Category.INPUT else Category.COMPUTE]) * steps
            if beyond >= SHARE_MIN * lost_s:
                found.append((f"rank:{job}/{rank}", category, Depth.STEPS, beyond))
    for category, more in typical.items():
        if more * steps >= SHARE_MIN * lost_s:
            found.append((f"job:{job}", category, Depth.STEPS, more * steps))
    return found


def merged(lost: Lost, first: Sequence[Blame], since_ns: int) -> tuple[Blame, ...]:
    """The ledger's owners, and of what it has not told yet those of the first blame; each owner and category once."""
    total: dict[tuple[str, str], Blame] = {}
    ledger = [
        Blame(owner, category, depth, amount, since_ns) for (owner, category, depth), amount in lost.by_owner.items()
    ]
    for each in [*sorted(ledger, key=lambda one: -one.lost_gpu_seconds), *first]:
        key = (each.owner, each.category)
        known = total.get(key)
        more = each.lost_gpu_seconds + (known.lost_gpu_seconds if known else 0.0)
        total[key] = Blame(each.owner, each.category, known.how if known else each.how, more, since_ns)
    return tuple(total[key] for key in sorted(total))
