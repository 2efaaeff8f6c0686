"""One rank of the `bert` job: masked language modelling on a made-up language. See `training.rank`."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

from leadline.lab.workloads.bert.model import Bert, Config, masked
from leadline.lab.workloads.text import Language
from leadline.lab.workloads.training.rank import main
from leadline.lab.workloads.training.task import Batch, Shards, Surroundings, Task


class BertTask(Task):
    """Items are tokens, a batch is B sequences of L of them, with some masked."""

    name = "bert"
    measure = "accuracy"

    def __init__(self, around: Surroundings) -> None:
        given = around.given
        self._size, self._length = given.batch, given.length
        self._language = Language(given.seed)
        self._vocabulary = len(self._language.vocabulary)
        self._chance = torch.Generator().manual_seed(given.seed * 1000 + around.rank)
        self.model = Bert(Config(self._vocabulary, given.hidden, given.layers, length=given.length))

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--length", type=int, default=64, help="tokens of a sequence (default 64)")
        parser.add_argument("--hidden", type=int, default=192)
        parser.add_argument("--layers", type=int, default=4)

    def items(self, shard: str) -> Tensor:
        return torch.tensor(self._language.tokens(shard), dtype=torch.int64)

    def batch(self, shards: Shards, stretch: float) -> Batch:
        length = max(1, round(self._length * stretch))
        tokens = shards.take(self._size * length).view(self._size, length)
        shown, targets = masked(tokens, self._vocabulary, self._chance)
        return Batch((shown, targets), targets[targets >= 0], len(tokens), tokens.numel())

    def reseed(self, seed: int) -> None:
        self._chance.manual_seed(seed)

    def measured(self, sync: bool) -> Metric:
        return MulticlassAccuracy(self._vocabulary, average="micro", validate_args=False, sync_on_compute=sync)


if __name__ == "__main__":
    main(BertTask)
