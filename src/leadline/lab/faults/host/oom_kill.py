"""OOM kill: a rank's memory grows until the kernel kills it, by its control group."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import SOME, TRAINING
from leadline.lab.faults.ranks import RanksFault, tell, tell_no_more
from leadline.lab.running import RunningLab

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class OomKill(RanksFault):
    """A real one: the rank allocates more each step, and its control group has a limit."""

    name = "oom-kill"
    layer = "host"
    fault_class = "transient"
    lasts = False
    workloads = TRAINING
    signal = "oom_kills"
    bounds: ClassVar = {"headroom_mb": SOME, "growth_mb_per_step": SOME}
    magnitudes: ClassVar = {"small": {"growth_mb_per_step": 20.0}, "large": {"growth_mb_per_step": 60.0, "ranks": 3}}

    headroom_mb: float = 100.0  # above what it uses now
    growth_mb_per_step: float = 60.0

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ranks = self.befallen(lab)
        hosts = dict.fromkeys(f"host:{one.host}" for one in ranks)
        return (*(f"rank:{self.job}/{one.rank}" for one in ranks), *hosts)

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            limit_bytes = one.process.cgroup.memory_bytes() + int(self.headroom_mb * MIB)
            lab.hold(lab.memory(one), self, limit_bytes)
        tell(self, lab, self.befallen(lab), {"allocate_mb_per_step": self.growth_mb_per_step})

    def stop(self, lab: RunningLab) -> None:
        """It grows no more, and has no limit; who was killed stays dead."""
        tell_no_more(self, lab, self.befallen(lab))
        for one in self.befallen(lab):
            lab.release(lab.memory(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ranks = self.befallen(lab)
        return {
            "oom_kills": sum(one.process.cgroup.oom_kills() for one in ranks),
            "memory_mb": round(sum(one.process.cgroup.memory_bytes() for one in ranks) / 1e6),
            "exits": [one.process.popen.poll() for one in ranks],
        }
