"""Slow worker: one rank gets less CPU than the others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.measured import cores_used, step_s
from leadline.lab.faults.ranks import RanksFault
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError

CORES_MIN = 0.002  # the kernel's least quota is a thousandth of a core


@dataclass(frozen=True, slots=True)
class SlowWorker(RanksFault):
    """A CPU quota on one rank's process group, as a noisy neighbour or a throttled machine would leave it."""

    name = "slow-worker"
    layer = "host"
    fault_class = "gray"
    signal = "throttled"
    magnitudes: ClassVar = {"small": {"share": 0.75}, "large": {"share": 0.25}}

    share: float = 0.5  # of the CPU that the rank used over the last seconds; a rank that is bound by it needs 1/share
    cores: float | None = None  # so many instead, whatever it used
    _cores: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)  # by rank, as measured

    def check(self, topology: Topology) -> None:
        RanksFault.check(self, topology)
        if not 0 < self.share < 1:
            raise UsageError(f"slow-worker: share is what is left of a rank's CPU, 0 to 1, got {self.share}")
        if self.cores is not None and self.cores <= 0:
            raise UsageError(f"slow-worker: cores must be > 0, got {self.cores}; leave it out for a share")

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        fault = RanksFault.chosen(self, lab, rng)
        ranks = fault.befallen(lab)
        if fault.cores is not None:
            return replace(fault, _cores={one.rank: fault.cores for one in ranks})
        return replace(fault, _cores=share_of_use(ranks, fault.share))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ranks = self.befallen(lab)
        hosts = dict.fromkeys(f"host:{one.host}" for one in ranks)
        return (*hosts, *(f"rank:{self.job}/{one.rank}" for one in ranks))

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.hold(lab.cpu(one), self, self._cores[one.rank])

    def stop(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.release(lab.cpu(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {
            "throttled": sum(one.process.cgroup.throttled() for one in self.befallen(lab)),
            "cores_left": {f"rank {rank}": round(cores, 4) for rank, cores in self._cores.items()},
            "step_s": step_s(lab.job(self.job)),
        }


def share_of_use(ranks: list[RankProcess], share: float) -> dict[int, float]:
    """By rank of one job, that share of the cores that it uses now; it takes `measured.WINDOW_S`."""
    return {one.rank: max(CORES_MIN, share * cores) for one, cores in zip(ranks, cores_used(ranks), strict=True)}
