"""Slow operator: a new version of the software computes one operator slower, on all ranks of the job."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import TRAINING, JobFault
from leadline.lab.faults.measured import step_s, work
from leadline.lab.faults.ranks import tell, tell_no_more
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class SlowOperator(JobFault):
    """Layer norm costs a multiple after an upgrade, and the job says by an event which version it runs now."""

    name = "slow-operator"
    layer = "application"
    fault_class = "persistent"
    workloads = TRAINING
    signal = "operator_repeats"
    magnitudes: ClassVar = {"small": {"repeats": 100}, "large": {"repeats": 1000}}

    repeats: int = 300  # so many times more; one costs some 0.5 ms of a step of `bert`, which has 150 ms of compute
    version: str = "2.14.0+regressed"

    def check(self, topology: Topology) -> None:
        JobFault.check(self, topology)
        if self.repeats < 1:
            raise UsageError(f"slow-operator: repeats must be at least 1, got {self.repeats}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"job:{self.job}",)

    def start(self, lab: RunningLab) -> None:
        settings = {"operator_repeats": self.repeats, "operator_version": self.version}
        tell(self, lab, lab.ranks(self.job), settings)

    def stop(self, lab: RunningLab) -> None:
        tell_no_more(self, lab, lab.ranks(self.job))

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        last = work(lab.rank(self.job, 0))
        return {
            "operator_repeats": last.get("operator_repeats"),
            "compute_s": last.get("compute_s"),
            "step_s": step_s(lab.job(self.job)),
        }
