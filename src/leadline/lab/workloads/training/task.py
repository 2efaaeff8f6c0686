"""What is trained, apart from how: the seam between `training.rank` and bert, vision, recommendation, finetune.

A task has a model, makes batches from its rank's shards, and says what is measured. `training.rank` does the rest:
joining, steps, evaluation, checkpoints, faults.
"""

from __future__ import annotations

import argparse
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor, nn
from torch.utils.data import DataLoader, IterableDataset
from torchmetrics import MeanMetric, Metric, MetricCollection

from leadline.lab.workloads.storage.client import StorageClient


@dataclass(frozen=True, slots=True)
class Batch:
    """One batch: what the model is given, and what its predictions are measured against."""

    inputs: tuple[Tensor, ...]
    answers: Tensor
    samples: int
    tokens: int | None = None  # where a sample is a sequence


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a task may know when it is made."""

    given: argparse.Namespace
    rank: int
    world_size: int
    storage: StorageClient
    store: Any  # where the ranks of the job meet: torch.distributed.Store


class Shards:
    """This rank's shards one after the other, as one stream of items without end; a shard is fetched when needed."""

    def __init__(self, fetch: Callable[[int], Tensor], first: int, by: int) -> None:
        """Shards first, first + by, first + 2 by, ...: no two ranks read the same. `fetch` gives a shard's items."""
        self._fetch, self._first, self._by = fetch, first, by
        self._fetched = 0
        self._rest: Tensor | None = None

    def take(self, count: int) -> Tensor:
        """The next `count` items (count,). Errors: WorldError from the storage host."""
        rest = self._rest if self._rest is not None else self._next()
        while len(rest) < count:
            rest = torch.cat([rest, self._next()])
        self._rest = rest[count:]
        return rest[:count]

    def place(self) -> dict[str, int]:
        """How far it has come, in a form that is right for every rank: shards fetched, items left of the last one."""
        return {"shards": self._fetched, "left": 0 if self._rest is None else len(self._rest)}

    def seek(self, place: Mapping[str, int]) -> None:
        """Go on where another one was; the last shard is fetched again, if something of it is left."""
        self._fetched, self._rest = place["shards"], None
        if place["left"]:
            self._fetched -= 1
            self._rest = self._next()[-place["left"] :]

    def _next(self) -> Tensor:
        self._fetched += 1
        return self._fetch(self._first + self._by * (self._fetched - 1))


class Task(ABC):
    """A model and its data on one rank."""

    name: ClassVar[str]  # as in WORKLOADS
    measure: ClassVar[str]  # name of what is measured beside the loss
    model: nn.Module  # equal on all ranks: its gradients are reduced over them
    own: nn.Module | None = None  # parameters of this rank alone: never reduced, each rank checkpoints its own

    @abstractmethod
    def __init__(self, around: Surroundings) -> None:
        """Make the model, the same on all ranks. Errors: WorldError from the storage host."""

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        """Add the options that only this task has."""
        return

    @abstractmethod
    def items(self, shard: str) -> Tensor:
        """What a shard of text is to this task: (N,), one number per item."""

    @abstractmethod
    def batch(self, shards: Shards, stretch: float) -> Batch:
        """The next batch, its sequences (or what comes nearest to them) longer by `stretch`; 1.0 is the usual."""

    @abstractmethod
    def measured(self, sync: bool) -> Metric:
        """A fresh TorchMetrics metric of `measure`; `sync`: computed over all ranks."""

    def forward(self, model: nn.Module, batch: Batch) -> tuple[Tensor, Tensor]:
        """Loss () and predictions, as `measured` takes them beside the answers of the batch."""
        loss, predictions = model(*batch.inputs)
        return loss, predictions

    def reseed(self, seed: int) -> None:
        """Random choices of the batches begin anew from here: after a resumption."""
        return

    def state(self) -> dict[str, Any]:
        """What a checkpoint of `model` holds."""
        return self.model.state_dict()

    def load(self, state: Mapping[str, Any]) -> None:
        """Take over what `state` gave. Errors: RuntimeError from torch for a model of another shape."""
        self.model.load_state_dict(state)

    def parameters(self) -> Iterator[nn.Parameter]:
        """What the optimiser is to change."""
        for part in (self.model, self.own):
            if part is not None:
                yield from (each for each in part.parameters() if each.requires_grad)

    def metrics(self, sync: bool) -> MetricCollection:
        """Loss and `measure`."""
        both: dict[str, Metric | MetricCollection] = {
            "loss": MeanMetric(sync_on_compute=sync),
            self.measure: self.measured(sync),
        }
        return MetricCollection(both, compute_groups=False)


class _Stream(IterableDataset[Batch]):
    def __init__(self, draw: Callable[[], Batch]) -> None:
        self._draw = draw

    def __iter__(self) -> Iterator[Batch]:
        while True:
            yield self._draw()


def loader_of(draw: Callable[[], Batch]) -> DataLoader[Batch]:
    """PyTorch's loader around a function that makes the next batch, in this process."""
    return DataLoader(_Stream(draw), batch_size=None)


def arguments(kind: type[Task]) -> argparse.Namespace:
    """The command line: what every training has, and what this task has."""
    parser = argparse.ArgumentParser(description=f"One rank of the lab's {kind.name}.")
    add = parser.add_argument
    add("--storage", required=True, metavar="ADDRESS:PORT", help="storage server, see storage_server")
    add("--steps", type=int, default=0, help="steps to train; 0 (default): no limit")
    add("--seconds", type=float, default=0, help="time to train; 0 (default): no limit")
    add("--seed", type=int, default=0)
    add("--batch", type=int, default=8, help="samples of a rank per step (default 8)")
    add("--bucket-mb", type=float, default=2.0, help="gradients reduced at once (default 2.0 MB)")
    add("--lr", type=float, default=1.5e-3)
    add("--warm-up", type=int, default=10, help="steps until the learning rate is reached (default 10)")
    add("--evaluate-every", type=int, default=50, help="steps; 0: never (default 50)")
    add("--checkpoint-every", type=int, default=50, help="steps; 0: never (default 50)")
    add("--checkpoint-at-end", action="store_true", help="also after the last step, and when told to stop")
    add("--prefix", default="", help="of the job's objects, where several jobs share a storage directory")
    add("--resume", action="store_true", help="go on from the newest checkpoint on the storage host")
    add("--timeout", type=float, default=12, help="seconds until a collective fails (default 12)")
    add("--no-watch", action="store_true", help="without leadline.torch, to tell what it costs")
    kind.arguments(parser)
    return parser.parse_args()
