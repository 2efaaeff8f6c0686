"""Memory pressure: a rank's control group has hardly room for it, and the kernel reclaims all the time. No kill."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import SOME, TRAINING
from leadline.lab.faults.measured import step_s
from leadline.lab.faults.ranks import RanksFault, tell, tell_no_more
from leadline.lab.running import RunningLab

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class MemoryPressure(RanksFault):
    """A limit little above what cannot be reclaimed, and a file as large as several times the rest, read every step."""

    name = "memory-pressure"
    layer = "host"
    fault_class = "gray"
    workloads = TRAINING
    signal = "limit_hits"
    bounds: ClassVar = {"headroom_mb": SOME, "scan_mb_per_step": SOME}
    magnitudes: ClassVar = {"small": {"scan_mb_per_step": 120.0}, "large": {"scan_mb_per_step": 600.0}}

    # Room for what a rank takes beyond its usual for a moment: a checkpoint of `bert` is packed in some 50 MB.
    headroom_mb: float = 80.0
    scan_mb_per_step: float = 250.0

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        ranks = self.befallen(lab)
        hosts = dict.fromkeys(f"host:{one.host}" for one in ranks)
        return (*hosts, *(f"rank:{self.job}/{one.rank}" for one in ranks))

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            limit_bytes = one.process.cgroup.memory_kept_bytes() + int(self.headroom_mb * MIB)
            lab.hold(lab.memory(one), self, limit_bytes)
        tell(self, lab, self.befallen(lab), {"scan_mb_per_step": self.scan_mb_per_step})

    def stop(self, lab: RunningLab) -> None:
        tell_no_more(self, lab, self.befallen(lab))
        for one in self.befallen(lab):
            lab.release(lab.memory(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        groups = [one.process.cgroup for one in self.befallen(lab)]
        return {
            "limit_hits": sum(group.memory_limit_hits() for group in groups),
            "oom_kills": sum(group.oom_kills() for group in groups),
            "step_s": step_s(lab.job(self.job)),
        }
