"""The `vision` workload: image classification, whose compute is convolutions and whose samples are all alike."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.lab.workloads.training.job import TrainingJob


@dataclass(kw_only=True)
class Vision(TrainingJob):
    """Data-parallel training of a small residual network."""

    name: str = "vision-1"
    batch: int = 16
    width: int = 32  # channels of the first stage; twice and four times as many in the others
    side: int = 16  # pixels

    def __post_init__(self) -> None:
        self.program = "leadline.lab.workloads.vision.rank"

    def task_options(self) -> dict[str, object]:
        return {"width": self.width, "side": self.side}
