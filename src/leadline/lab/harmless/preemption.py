"""Preemption: the scheduler takes a job's hosts for a while, and it goes on from its checkpoint."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from leadline.lab.faults.base import TRAINING, Harmless, JobFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Preemption(Harmless, JobFault):
    """SIGTERM to all ranks; when it is over the job is started again and resumes."""

    name = "preemption"
    layer = "application"
    workloads = TRAINING

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"job:{self.job}",)

    def start(self, lab: RunningLab) -> None:
        lab.preempt(self.job or "")

    def stop(self, lab: RunningLab) -> None:
        lab.resume(self.job or "")

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        job = lab.jobs.get(self.job or "")
        return {"ranks": len(job.ranks) if job else 0, "steps": len(job.steps_done()) if job else 0}
