"""One rank of the `recommendation` job: click prediction with tables spread over the ranks. See `training.rank`."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor, nn
from torchmetrics import Metric
from torchmetrics.classification import BinaryAUROC

from leadline.lab.workloads.recommendation.model import FEATURES, Ranker, Tables, features_of
from leadline.lab.workloads.text import Language
from leadline.lab.workloads.training.rank import main
from leadline.lab.workloads.training.task import Batch, Shards, Surroundings, Task

HISTORY_MIN = 2
THRESHOLDS = 100  # of the ROC curve: its state is then small and of one size, whatever was seen


class RecommendationTask(Task):
    """Items are tokens: B histories of L of them, each with the one that came next."""

    name = "recommendation"
    measure = "auroc"
    own: Tables

    def __init__(self, around: Surroundings) -> None:
        given = around.given
        self._size, self._length = given.batch, given.history
        self._language = Language(given.seed)
        self.model = Ranker(given.width)
        self.own = Tables(around.rank, around.world_size, len(self._language.vocabulary), given.width)

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--history", type=int, default=16, help="items that a user had before (default 16)")
        parser.add_argument("--width", type=int, default=32, help="of an embedding (default 32)")

    def items(self, shard: str) -> Tensor:
        return torch.tensor(self._language.tokens(shard), dtype=torch.int64)

    def batch(self, shards: Shards, stretch: float) -> Batch:
        length = max(HISTORY_MIN, round(self._length * stretch))
        tokens = shards.take(self._size * (length + 1)).view(self._size, length + 1)
        history, came = tokens[:, :-1], tokens[:, -1]
        # Every second candidate is what came next in another history of the batch: as common, but not here.
        labels = torch.arange(self._size) % 2
        ids = features_of(history, torch.where(labels == 1, came, came.roll(1)))
        return Batch((*(ids[name] for name in FEATURES), labels), labels, self._size, tokens.numel())

    def forward(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        *ids, labels = batch.inputs
        rows = self.own.lookup(dict(zip(FEATURES, ids, strict=True)))
        loss, probabilities = model(rows, labels)
        return loss, probabilities

    def measured(self, sync: bool) -> Metric:
        return BinaryAUROC(thresholds=THRESHOLDS, validate_args=False, sync_on_compute=sync)


if __name__ == "__main__":
    main(RecommendationTask)
