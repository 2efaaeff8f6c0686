"""Divergence: one rank calls a collective with another shape than the others."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Divergence(Fault):
    """The commonest bug of one's own code: a branch that only one rank takes."""

    name = "divergence"
    layer = "application"
    fault_class = "persistent"
    lasts = False

    job: str | None = None
    rank: int | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.rank is not None else replace(self, rank=lab.some_rank(self.job, rng))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"rank:{lab.job(self.job).name}/{self.rank}",)

    def start(self, lab: RunningLab) -> None:
        lab.control(self.job, self.rank or 0, diverge=True)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"exits": [one.process.popen.poll() for one in lab.job(self.job).ranks]}
