"""Slow data loader: one rank waits for its input."""

from __future__ import annotations

import random
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SlowLoader(Fault):
    """Each batch of one rank comes late, by a fixed time."""

    name = "slow-loader"
    layer = "application"
    fault_class = "gray"

    job: str | None = None
    rank: int | None = None
    delay_s: float = 1.0

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.rank is not None else replace(self, rank=lab.some_rank(self.job, rng))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"rank:{lab.job(self.job).name}/{self.rank}",)

    def start(self, lab: RunningLab) -> None:
        lab.control(self.job, self.rank or 0, data_delay_s=self.delay_s)

    def stop(self, lab: RunningLab) -> None:
        lab.control(self.job, self.rank or 0, data_delay_s=None)
