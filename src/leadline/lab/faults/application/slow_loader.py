"""Slow data loader: one rank waits for its input."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import SOME, TRAINING
from leadline.lab.faults.measured import step_s, work
from leadline.lab.faults.ranks import RanksFault, tell, tell_no_more
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SlowLoader(RanksFault):
    """Each batch of one rank comes late, by a fixed time."""

    name = "slow-loader"
    layer = "application"
    fault_class = "gray"
    workloads = (*TRAINING, "pipeline")  # they log what they waited for
    signal = "data_s"
    bounds: ClassVar = {"delay_s": SOME}
    magnitudes: ClassVar = {"small": {"delay_s": 0.3}, "large": {"delay_s": 2.5}}

    delay_s: float = 1.0

    def start(self, lab: RunningLab) -> None:
        tell(self, lab, self.befallen(lab), {"data_delay_s": self.delay_s})

    def stop(self, lab: RunningLab) -> None:
        tell_no_more(self, lab, self.befallen(lab))

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"data_s": work(self.one(lab)).get("data_s"), "step_s": step_s(lab.job(self.job))}
