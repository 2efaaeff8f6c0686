"""Slow data loader: one rank waits for its input."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.lab.faults.base import RankFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SlowLoader(RankFault):
    """Each batch of one rank comes late, by a fixed time."""

    name = "slow-loader"
    layer = "application"
    fault_class = "gray"

    delay_s: float = 1.0

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"rank:{self.job}/{self.rank}",)

    def start(self, lab: RunningLab) -> None:
        lab.hold(lab.control(self.job, self.rank or 0), self, {"data_delay_s": self.delay_s})

    def stop(self, lab: RunningLab) -> None:
        lab.release(lab.control(self.job, self.rank or 0), self)
