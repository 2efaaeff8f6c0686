"""One rank of the `finetune` job: topic classification on a model that is there already. See `training.rank`.

Where storage has no model yet, rank 0 of the first job trains one for a few steps by itself, and the others wait.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor
from torchmetrics import Metric
from torchmetrics.classification import MulticlassAccuracy

from leadline.lab.workloads.bert.model import Bert, Config, masked
from leadline.lab.workloads.finetune.model import Classifier, topics_of, topics_of_words
from leadline.lab.workloads.text import TOPICS, Language
from leadline.lab.workloads.training.checkpoint import Checkpoints
from leadline.lab.workloads.training.rank import main
from leadline.lab.workloads.training.task import Batch, Shards, Surroundings, Task
from leadline.model.errors import DataError

BASE_SHARD = 800_000_000  # neither training nor evaluation comes there
BASE_LR = 1.5e-3
READY = "base"  # key in the job's store: the step of the base model, once it is there


class FinetuneTask(Task):
    """Items are tokens, a batch is B texts of L of them with their topics."""

    name = "finetune"
    measure = "accuracy"
    model: Classifier

    def __init__(self, around: Surroundings) -> None:
        given = around.given
        self._given, self._storage = given, around.storage
        self._size, self._length = given.batch, given.length
        self._language = Language(given.seed)
        self._vocabulary = len(self._language.vocabulary)
        self._told = topics_of_words(self._language)
        base = Bert(Config(self._vocabulary, given.hidden, given.layers, length=given.length))
        checkpoints = Checkpoints(around.storage)
        if around.rank == 0:
            around.store.set(READY, str(self._made(base, checkpoints)))
        step = int(around.store.get(READY))
        content = checkpoints.get(checkpoints.name(step))
        try:
            base.load_state_dict(content["model"])
        except (KeyError, RuntimeError) as error:
            raise DataError(checkpoints.name(step), "a BERT of this job's size", str(error)[:300]) from error
        self.model = Classifier(base, given.hidden)

    @staticmethod
    def arguments(parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--length", type=int, default=64, help="tokens of a text (default 64)")
        parser.add_argument("--hidden", type=int, default=192)
        parser.add_argument("--layers", type=int, default=4)
        parser.add_argument("--base-steps", type=int, default=30, help="of a base model that is to be made")

    def items(self, shard: str) -> Tensor:
        return torch.tensor(self._language.tokens(shard), dtype=torch.int64)

    def batch(self, shards: Shards, stretch: float) -> Batch:
        tokens = self._tokens(shards, stretch)
        topics = topics_of(tokens, self._told)
        return Batch((tokens, topics), topics, len(tokens), tokens.numel())

    def measured(self, sync: bool) -> Metric:
        return MulticlassAccuracy(TOPICS, average="micro", validate_args=False, sync_on_compute=sync)

    def state(self) -> dict[str, Any]:
        """Only what this job trains: the rest is in the base."""
        trained = {name for name, one in self.model.named_parameters() if one.requires_grad}
        return {name: value for name, value in self.model.state_dict().items() if name in trained}

    def load(self, state: Mapping[str, Any]) -> None:
        if missing := self.state().keys() - state.keys():
            raise RuntimeError(f"missing {', '.join(sorted(missing))}")
        self.model.load_state_dict(state, strict=False)

    def _tokens(self, shards: Shards, stretch: float = 1.0) -> Tensor:
        length = max(1, round(self._length * stretch))
        return shards.take(self._size * length).view(self._size, length)

    def _made(self, base: Bert, checkpoints: Checkpoints) -> int:
        """The step of the base model on storage, made now if there is none. Errors: WorldError, DataError."""
        step = checkpoints.latest()
        if step is not None:
            return step
        optimizer = torch.optim.AdamW(base.parameters(), BASE_LR)
        chance = torch.Generator().manual_seed(self._given.seed)
        shards = Shards(lambda number: self.items(self._storage.shard(number)), BASE_SHARD, 1)
        for _ in range(self._given.base_steps):
            loss, _logits = base(*masked(self._tokens(shards), self._vocabulary, chance))
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        step = max(0, int(self._given.base_steps) - 1)
        checkpoints.put(checkpoints.name(step), {"step": step, "model": base.state_dict()})
        checkpoints.tell_latest(step)
        return step


if __name__ == "__main__":
    main(FinetuneTask)
