"""OOM kill: a rank's memory grows until the kernel kills it, by its control group."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OomKill(Fault):
    """A real one: the rank allocates more each step, and its control group has a limit."""

    name = "oom-kill"
    layer = "host"
    fault_class = "transient"
    lasts = False

    job: str | None = None
    rank: int | None = None
    headroom_mb: float = 100.0  # above what it uses now
    growth_mb_per_step: float = 60.0

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.rank is not None else replace(self, rank=lab.some_rank(self.job, rng))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = lab.rank(self.job, self.rank or 0)
        return (f"rank:{lab.job(self.job).name}/{one.rank}", f"host:{one.host}")

    def start(self, lab: RunningLab) -> None:
        process = lab.rank(self.job, self.rank or 0).process
        process.cgroup.set_memory_limit(process.cgroup.memory_bytes() + int(self.headroom_mb * MIB))
        lab.control(self.job, self.rank or 0, allocate_mb_per_step=self.growth_mb_per_step)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        process = lab.rank(self.job, self.rank or 0).process
        return {"oom_kills": process.cgroup.oom_kills(), "exit": process.popen.poll()}
