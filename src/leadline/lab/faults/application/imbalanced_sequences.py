"""Imbalanced sequences: some ranks get longer ones, compute longer, and all others wait for them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import TRAINING
from leadline.lab.faults.measured import step_s, work
from leadline.lab.faults.ranks import RanksFault, tell, tell_no_more
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class ImbalancedSequences(RanksFault):
    """Batches that are not dealt by length: a bucket of long texts always falls to the same ranks."""

    name = "imbalanced-sequences"
    layer = "application"
    fault_class = "gray"
    workloads = TRAINING
    spared = 1  # where all are longer, nothing is imbalanced
    signal = "stretch"
    magnitudes: ClassVar = {"small": {"factor": 1.5}, "large": {"factor": 4.0, "ranks": 2}}

    factor: float = 2.5  # how much longer

    def check(self, topology: Topology) -> None:
        RanksFault.check(self, topology)
        if self.factor <= 1:
            raise UsageError(f"imbalanced-sequences: factor says how much longer, > 1, got {self.factor}")

    def start(self, lab: RunningLab) -> None:
        tell(self, lab, self.befallen(lab), {"sequence_factor": self.factor})

    def stop(self, lab: RunningLab) -> None:
        tell_no_more(self, lab, self.befallen(lab))

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        last = work(self.one(lab))
        return {
            "stretch": last.get("stretch"),
            "compute_s": last.get("compute_s"),
            "tokens": last.get("tokens"),
            "step_s": step_s(lab.job(self.job)),
        }
