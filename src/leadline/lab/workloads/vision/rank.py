"""One rank of the `vision` job: image classification. See `training.rank`."""

from __future__ import annotations

import argparse

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

from leadline.lab.workloads.training.rank import main
from leadline.lab.workloads.training.task import Batch, Shards, Surroundings, Task
from leadline.lab.workloads.vision.model import CLASSES, ResNet, images_of, patterns, resized


class VisionTask(Task):
    """Items are bytes, an image is made of side * side of them. A longer "sequence" is an image of more pixels."""

    name = "vision"
    measure = "accuracy"

    def __init__(self, around: Surroundings) -> None:
        given = around.given
        self._size, self._side = given.batch, given.side
        self._looks = patterns(given.side, given.seed)
        self.model = ResNet(given.width)

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--width", type=int, default=32, help="channels of the first stage (default 32)")
        parser.add_argument("--side", type=int, default=16, help="pixels (default 16)")

    def items(self, shard: str) -> Tensor:
        return torch.frombuffer(bytearray(shard.encode()), dtype=torch.uint8).long()

    def batch(self, shards: Shards, stretch: float) -> Batch:
        octets = shards.take(self._size * self._side**2).view(self._size, -1)
        images, labels = images_of(octets, self._looks)
        return Batch((resized(images, stretch), labels), labels, self._size)

    def measured(self, sync: bool) -> Metric:
        return MulticlassAccuracy(CLASSES, average="micro", validate_args=False, sync_on_compute=sync)


if __name__ == "__main__":
    main(VisionTask)
