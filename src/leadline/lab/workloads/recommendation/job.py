"""The `recommendation` workload: embedding tables spread over the ranks, exchanged all to all in every step."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.lab.workloads.training.job import TrainingJob


@dataclass(kw_only=True)
class Recommendation(TrainingJob):
    """Model-parallel tables, data-parallel rest, as DLRM."""

    name: str = "recommendation-1"
    batch: int = 64
    history: int = 16  # items that a user had before
    width: int = 32  # of an embedding

    def __post_init__(self) -> None:
        self.program = "leadline.lab.workloads.recommendation.rank"

    def task_options(self) -> dict[str, object]:
        return {"history": self.history, "width": self.width}
