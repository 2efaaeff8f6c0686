"""Slow worker: one rank gets less CPU than the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.lab.faults.base import RankFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SlowWorker(RankFault):
    """A CPU quota on one rank's process group, as a noisy neighbour or a throttled machine would leave it."""

    name = "slow-worker"
    layer = "host"
    fault_class = "gray"

    cores: float = 0.04  # of one core; a rank of `bert` on clos8 uses some 0.085

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = self.one(lab)
        return (f"host:{one.host}", f"rank:{self.job}/{self.rank}")

    def start(self, lab: RunningLab) -> None:
        lab.hold(lab.cpu(self.one(lab)), self, self.cores)

    def stop(self, lab: RunningLab) -> None:
        lab.release(lab.cpu(self.one(lab)), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"throttled": self.one(lab).process.cgroup.throttled()}
