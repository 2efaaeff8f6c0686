"""Slow worker: one rank gets less CPU than the others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SlowWorker(Fault):
    """A CPU quota on one rank's process group, as a noisy neighbour or a throttled machine would leave it."""

    name = "slow-worker"
    layer = "host"
    fault_class = "gray"

    job: str | None = None
    rank: int | None = None
    cores: float = 0.04  # of one core; a rank of `bert` on clos8 uses some 0.085

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.rank is not None else replace(self, rank=lab.some_rank(self.job, rng))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = lab.rank(self.job, self.rank or 0)
        return (f"host:{one.host}", f"rank:{lab.job(self.job).name}/{one.rank}")

    def start(self, lab: RunningLab) -> None:
        lab.rank(self.job, self.rank or 0).process.cgroup.set_cpu_quota(self.cores)

    def stop(self, lab: RunningLab) -> None:
        lab.rank(self.job, self.rank or 0).process.cgroup.set_cpu_quota(None)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"throttled": lab.rank(self.job, self.rank or 0).process.cgroup.throttled()}
