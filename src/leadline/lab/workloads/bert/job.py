"""The `bert` workload: masked language modelling, the commonest kind of pre-training."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.lab.workloads.training.job import TrainingJob


@dataclass(kw_only=True)
class Bert(TrainingJob):
    """Data-parallel pre-training of a small BERT."""

    name: str = "bert-1"
    hidden: int = 192
    layers: int = 4

    def __post_init__(self) -> None:
        self.program = "leadline.lab.workloads.bert.rank"

    def task_options(self) -> dict[str, object]:
        return {"hidden": self.hidden, "layers": self.layers}
