"""Loop bug: the iterator of the data is never advanced, every step trains on the same batch."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import TRAINING, JobFault
from leadline.lab.faults.measured import same_batches, step_s
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import RankProcess
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class LoopBug(JobFault):
    """The same batch for ever on all ranks of a job: steps are as quick as ever, and nothing more is learned."""

    name = "loop-bug"
    layer = "application"
    fault_class = "persistent"
    workloads = TRAINING
    signal = "same_batches"
    magnitudes: ClassVar = {"small": {"share": 0.5}, "large": {"every_job": True}}

    share: float = 1.0  # of the ranks, from rank 0 on, at least one
    every_job: bool = False  # a bug of a library that all jobs use

    def check(self, topology: Topology) -> None:
        JobFault.check(self, topology)
        if not 0 < self.share <= 1:
            raise UsageError(f"loop-bug: share is a part of the ranks, 0 to 1, got {self.share}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"job:{name}" for name in jobs_of(self, lab, self.every_job))

    def start(self, lab: RunningLab) -> None:
        for name in jobs_of(self, lab, self.every_job):
            for one in self._ranks(lab, name):
                lab.hold(lab.control(name, one.rank), self, {"loop_batch": True})

    def stop(self, lab: RunningLab) -> None:
        for name in jobs_of(self, lab, self.every_job):
            for one in self._ranks(lab, name):
                lab.release(lab.control(name, one.rank), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"same_batches": same_batches(lab.rank(self.job, 0)), "step_s": step_s(lab.job(self.job))}

    def _ranks(self, lab: RunningLab, job: str) -> list[RankProcess]:
        ranks = lab.ranks(job)
        return ranks[: max(1, math.ceil(self.share * len(ranks)))]


def jobs_of(fault: JobFault, lab: RunningLab, every: bool) -> list[str]:
    """The fault's job first; with `every` also all others of the lab that have ranks."""
    others = [name for name, job in lab.jobs.items() if every and job.ranks and name != fault.job]
    return [fault.job or lab.job(None).name, *others]
