"""OOM kill: a rank's memory grows until the kernel kills it, by its control group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.lab.faults.base import RankFault
from leadline.lab.running import RunningLab

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OomKill(RankFault):
    """A real one: the rank allocates more each step, and its control group has a limit."""

    name = "oom-kill"
    layer = "host"
    fault_class = "transient"
    lasts = False

    headroom_mb: float = 100.0  # above what it uses now
    growth_mb_per_step: float = 60.0

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = self.one(lab)
        return (f"rank:{self.job}/{self.rank}", f"host:{one.host}")

    def start(self, lab: RunningLab) -> None:
        process = self.one(lab).process
        limit_bytes = process.cgroup.memory_bytes() + int(self.headroom_mb * MIB)
        lab.hold(lab.memory(self.one(lab)), self, limit_bytes)
        lab.hold(lab.control(self.job, self.rank or 0), self, {"allocate_mb_per_step": self.growth_mb_per_step})

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        process = self.one(lab).process
        return {"oom_kills": process.cgroup.oom_kills(), "exit": process.popen.poll()}
