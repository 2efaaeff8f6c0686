"""Imbalanced stage: one stage of a pipeline computes longer than the others, which wait for it."""

from __future__ import annotations

import random
import statistics
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import RankFault, Within
from leadline.lab.running import RunningLab
from leadline.lab.workloads.pipeline.job import Pipeline, StageStep

LAST_STEPS = 5  # that are looked at: what they took before and after is then of one kind


@dataclass(frozen=True, slots=True)
class ImbalancedStage(RankFault):
    """A stage got more of the model than the others, as after a bad cut: all ranks that hold it compute longer."""

    name = "imbalanced-stage"
    layer = "application"
    fault_class = "gray"
    workloads = ("pipeline",)
    signal = "ratio"
    bounds: ClassVar = {"factor": Within(1, over=True)}
    magnitudes: ClassVar = {"small": {"factor": 1.4}, "large": {"factor": 4.0}}

    factor: float = 2.0  # so much longer than it should

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        pipelines = (name for name, each in lab.jobs.items() if isinstance(each, Pipeline))
        return RankFault.chosen(replace(self, job=self.job or next(pipelines, None)), lab, rng)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"rank:{self.job}/{rank}" for rank in self.ranks(lab))

    def ranks(self, lab: RunningLab) -> list[int]:
        """All ranks that hold the stage of the chosen one: one in each replica."""
        job = lab.job(self.job)
        stages = job.stages if isinstance(job, Pipeline) else len(lab.ranks(self.job))
        return [one.rank for one in lab.ranks(self.job) if one.rank % stages == (self.rank or 0) % stages]

    def start(self, lab: RunningLab) -> None:
        for rank in self.ranks(lab):
            lab.hold(lab.control(self.job, rank), self, {"stage_factor": self.factor})

    def stop(self, lab: RunningLab) -> None:
        for rank in self.ranks(lab):
            lab.release(lab.control(self.job, rank), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        """What its ranks computed in a step, and all others, in ms: from the program's own log."""
        job = lab.job(self.job)
        return compared(job.stage_steps() if isinstance(job, Pipeline) else {}, self.ranks(lab))


def compared(steps: Mapping[int, list[StageStep]], ranks: list[int]) -> dict[str, object]:
    """Medians over the last steps of these ranks and of the others, and how they compare; None: no step yet."""
    own = _compute_ms(steps, [rank for rank in steps if rank in ranks])
    others = _compute_ms(steps, [rank for rank in steps if rank not in ranks])
    # To a tenth: a healthy pipeline says the same before and after.
    ratio = round(own / others, 1) if own and others else None
    return {"compute_ms": own, "others_compute_ms": others, "ratio": ratio}


def _compute_ms(steps: Mapping[int, list[StageStep]], ranks: list[int]) -> float | None:
    found = [each.compute_s for rank in ranks for each in steps[rank][-LAST_STEPS:]]
    return round(1e3 * statistics.median(found), 2) if found else None
