"""The `finetune` workload: a short job that starts from a model on storage, trains little of it, and ends by itself."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from leadline.lab.workloads.base import NAME, Lab
from leadline.lab.workloads.training.job import TrainingJob
from leadline.model.errors import UsageError


@dataclass(kw_only=True)
class Finetune(TrainingJob):
    """Topic classification on a frozen encoder. A scenario starts one after the other with `every_s`."""

    name: str = "finetune-1"
    steps: int = 30
    evaluate_every: int = 30
    checkpoint_every: int = 0
    checkpoint_at_end: bool = True
    base: str = "finetune-base"  # whose checkpoint it starts from: a `bert` job, or what the first of these jobs makes
    hidden: int = 192
    layers: int = 4

    def __post_init__(self) -> None:
        self.program = "leadline.lab.workloads.finetune.rank"
        if not NAME.fullmatch(self.base):
            raise UsageError(f"workload {self.name}: base must be the name of a job, got {self.base!r}")

    def storage_directory(self, lab: Lab) -> Path:
        """That of the base: it is there, and what comes out of these jobs lies beside it."""
        return lab.state / "jobs" / self.base / "storage"

    def task_options(self) -> dict[str, object]:
        return {"hidden": self.hidden, "layers": self.layers, "prefix": self.name.replace(".", "_") + "-"}
