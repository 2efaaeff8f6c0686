"""Divergence: one rank calls a collective with another shape than the others."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import TRAINING
from leadline.lab.faults.ranks import RanksFault, tell, tell_no_more
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Divergence(RanksFault):
    """The commonest bug of one's own code: a branch that not all ranks take."""

    name = "divergence"
    layer = "application"
    fault_class = "persistent"
    lasts = False
    workloads = (*TRAINING, "pipeline", "rings")
    spared = 1  # where all take the branch, nobody diverges
    signal = "failed"
    magnitudes: ClassVar = {"small": {"ranks": 1}, "large": {"ranks": 4}}

    ranks: int = 2

    def start(self, lab: RunningLab) -> None:
        tell(self, lab, self.befallen(lab), {"diverge": True})

    def stop(self, lab: RunningLab) -> None:
        tell_no_more(self, lab, self.befallen(lab))

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        exits = [one.process.popen.poll() for one in lab.ranks(self.job)]
        return {"failed": sum(bool(code) for code in exits), "exits": exits}
