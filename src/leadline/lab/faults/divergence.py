"""Divergence: one rank calls a collective with another shape than the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.lab.faults.base import RankFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Divergence(RankFault):
    """The commonest bug of one's own code: a branch that only one rank takes."""

    name = "divergence"
    layer = "application"
    fault_class = "persistent"
    lasts = False

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"rank:{self.job}/{self.rank}",)

    def start(self, lab: RunningLab) -> None:
        lab.hold(lab.control(self.job, self.rank or 0), self, {"diverge": True})

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"exits": [one.process.popen.poll() for one in lab.job(self.job).ranks]}
