"""One rank of the `bert` job: data-parallel masked language modelling on gloo, watched by leadline.torch.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python -m leadline.lab.workloads.bert_rank --help

Phases: set-up, warm-up of the learning rate, training steps, an evaluation every N steps, a checkpoint of rank 0 every
M steps. Exit codes: 0 trained to the end or told to stop (SIGTERM); 1 a collective failed (a peer died, diverged or
hung longer than --timeout); 3 the storage host could not be reached. Killed ranks have their signal.

Faults by the control file (LEADLINE_CONTROL), read before each step: `data_delay_s` makes every batch of this rank
late; `diverge` lets it call the next collective with another shape; `allocate_mb_per_step` makes it grow.
"""

from __future__ import annotations

import argparse
import hashlib
import io
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, IterableDataset
from torchmetrics import MeanMetric, MetricCollection
from torchmetrics.classification import MulticlassAccuracy

import leadline.torch as leadline_torch
from leadline.lab.workloads.bert_model import Bert, Config, masked
from leadline.lab.workloads.control import Control
from leadline.lab.workloads.storage import StorageClient
from leadline.lab.workloads.text import Language
from leadline.model.errors import WorldError

log = logging.getLogger("bert")

EXIT_COLLECTIVE, EXIT_STORAGE = 1, 3
SET_UP_S = 120.0  # from the first rank's start to the last one's
EVALUATION_BATCHES = 4
EVALUATION_SHARD = 900_000_000  # training never comes that far


class Batches(IterableDataset[Tensor]):
    """Batches of token sequences (B, L) from this rank's shards, without end; a shard is fetched when it is needed."""

    def __init__(
        self,
        storage: StorageClient,
        language: Language,
        given: argparse.Namespace,
        control: Control,
        first: int,
        by: int,
    ) -> None:
        """Shards first, first + by, first + 2 by, ...: no two ranks read the same."""
        self._storage, self._language, self._given, self._control = storage, language, given, control
        self._first, self._by = first, by

    def __iter__(self) -> Iterator[Tensor]:
        size, length = self._given.batch, self._given.length
        number, rest = self._first, torch.empty(0, dtype=torch.int64)
        while True:
            while len(rest) >= size * length:
                delay_s = self._control.number("data_delay_s")
                if delay_s > 0:
                    time.sleep(min(delay_s, 60.0))
                yield rest[: size * length].view(size, length)
                rest = rest[size * length :]
            tokens = self._language.tokens(self._storage.shard(number))
            rest = torch.cat([rest, torch.tensor(tokens, dtype=torch.int64)])
            number += self._by


class Training:
    """The job of one rank, from the first step to the last."""

    def __init__(self, given: argparse.Namespace, watch: leadline_torch.Watch | None) -> None:
        self.given, self.watch = given, watch
        self.rank, self.world_size = dist.get_rank(), dist.get_world_size()
        self.control = Control(os.environ.get("LEADLINE_CONTROL"))
        self.storage = StorageClient(given.storage)
        self.language = Language(given.seed)
        self.stop_asked = False
        self.hog: list[bytearray] = []
        torch.manual_seed(given.seed)
        vocabulary = len(self.language.vocabulary)
        config = Config(vocabulary, given.hidden, given.layers, length=given.length)
        self.model = DistributedDataParallel(Bert(config), bucket_cap_mb=given.bucket_mb)
        self.optimizer = torch.optim.AdamW(self.model.parameters(), lr=given.lr)
        self.warm_up = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / max(1, given.warm_up))
        )
        self.chance = torch.Generator().manual_seed(given.seed * 1000 + self.rank)
        self.batches = iter(self._loader(self.rank, self.world_size))
        # Training metrics stay local: a sum over all ranks per step would be one more collective that nobody needs.
        self.metrics = self._metrics(sync=False)
        self.evaluation = self._metrics(sync=True)
        self.flag = torch.zeros(1)

    def run(self) -> None:
        """All steps. Errors: RuntimeError from gloo when a peer is gone, WorldError from the storage host."""
        ends = time.monotonic() + self.given.seconds if self.given.seconds else float("inf")
        for number in range(self.given.steps or sys.maxsize):
            self.control.changed()
            if not self._agreed_to_go_on(time.monotonic() < ends):
                break
            self._step(number)
            self._grow()
            if self.given.evaluate_every and (number + 1) % self.given.evaluate_every == 0:
                self._evaluate(number)

    def _agreed_to_go_on(self, wanted: bool) -> bool:
        """Whether all ranks want another step: clocks and signals differ, and one that leaves alone hangs the rest."""
        diverged = bool(self.control.settings.get("diverge"))
        # The divergent rank has another number of elements here than its peers.
        flag = torch.zeros(1024) if diverged else self.flag
        flag.fill_(0.0 if wanted and not self.stop_asked else 1.0)
        dist.all_reduce(flag, op=dist.ReduceOp.MAX)
        return float(flag[0]) == 0.0

    def _step(self, number: int) -> None:
        began = time.perf_counter()
        with self._watched_step(number) as step:
            with step.data():
                tokens = next(self.batches)
                shown, targets = masked(tokens, len(self.language.vocabulary), self.chance)
            with step.forward():
                loss, logits = self.model(shown, targets)
            with step.backward():
                self.optimizer.zero_grad()
                loss.backward()
            with step.optimizer():
                self.optimizer.step()
                self.warm_up.step()
            self.metrics["loss"].update(loss.detach())
            self.metrics["accuracy"].update(logits.detach(), targets[targets >= 0])
            step.metrics(self.metrics.compute())
            self.metrics.reset()
            step.loss, step.samples, step.tokens = loss, len(tokens), tokens.numel()
            if self.given.checkpoint_every and (number + 1) % self.given.checkpoint_every == 0 and self.rank == 0:
                with step.checkpoint():
                    self._checkpoint(number)
        self._tell(
            "step",
            number=number,
            loss=round(float(loss.detach()), 4),
            seconds=round(time.perf_counter() - began, 4),
            end_ns=time.time_ns(),
        )

    def _watched_step(self, number: int) -> Any:
        return self.watch.step(number) if self.watch else Unwatched()

    def _evaluate(self, number: int) -> None:
        began = time.perf_counter()
        if self.watch:
            self.watch.event("evaluation-begin", f"after step {number}")
        self.model.eval()
        batches = iter(self._loader(EVALUATION_SHARD + self.rank, self.world_size))
        with torch.no_grad():
            for _ in range(EVALUATION_BATCHES):
                shown, targets = masked(next(batches), len(self.language.vocabulary), self.chance)
                loss, logits = self.model.module(shown, targets)
                self.evaluation["loss"].update(loss)
                self.evaluation["accuracy"].update(logits, targets[targets >= 0])
        self.model.train(True)  # type: ignore[no-untyped-call]
        values = {name: round(float(value), 4) for name, value in self.evaluation.compute().items()}
        self.evaluation.reset()
        if self.watch:
            told = {name: f"{value:.4f}" for name, value in values.items()}
            self.watch.event("evaluation-end", f"after step {number}", attributes=told)
        self._tell("evaluation", number=number, **values, seconds=round(time.perf_counter() - began, 4))

    def _checkpoint(self, number: int) -> None:
        """Rank 0 writes model and optimiser; the others wait for it in their next collective, as everywhere."""
        began = time.perf_counter()
        body = io.BytesIO()
        torch.save(
            {"step": number, "model": self.model.module.state_dict(), "optimizer": self.optimizer.state_dict()}, body
        )
        data = body.getvalue()
        name = f"checkpoint/step{number:06d}.pt"
        self.storage.put(name, data)
        seconds = time.perf_counter() - began
        if self.watch:
            told = {"bytes": str(len(data)), "seconds": f"{seconds:.3f}", "object": name}
            self.watch.event("checkpoint", f"{len(data)} bytes to {self.given.storage}", attributes=told)
        self._tell("checkpoint", number=number, bytes=len(data), seconds=round(seconds, 4))

    def _grow(self) -> None:
        megabytes = self.control.number("allocate_mb_per_step")
        if megabytes > 0:
            # Written to, not only asked for: untouched memory costs no page.
            self.hog.append(bytearray(b"\x01") * int(megabytes * 1e6))

    def _loader(self, first: int, by: int) -> DataLoader[Tensor]:
        batches = Batches(self.storage, self.language, self.given, self.control, first, by)
        return DataLoader(batches, batch_size=None)

    def _metrics(self, sync: bool) -> MetricCollection:
        classes = len(self.language.vocabulary)
        accuracy = MulticlassAccuracy(classes, average="micro", validate_args=False, sync_on_compute=sync)
        return MetricCollection({"loss": MeanMetric(sync_on_compute=sync), "accuracy": accuracy}, compute_groups=False)

    def _tell(self, what: str, **values: object) -> None:
        if self.rank == 0 or what != "step":
            print(json.dumps({"rank": self.rank, "event": what, **values}), flush=True)

    def digest(self) -> str:
        """A hash of the weights: equal on all ranks if they trained together."""
        digest = hashlib.sha256()
        for one in self.model.parameters():
            digest.update(one.detach().numpy().tobytes())
        return digest.hexdigest()[:16]


class Unwatched:
    """Takes the place of a step when nobody watches."""

    loss: Any = None

    def __enter__(self) -> Unwatched:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    data = forward = backward = optimizer = checkpoint = lambda self: self

    def metrics(self, values: object) -> None:
        """Nobody asked."""


def join(timeout_s: float) -> None:
    """Join the job's group. Set-up may take longer than a collective: ranks import torch on few cores.

    So the store, where they meet, has a time limit of its own.
    """
    rank, world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
    address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
    store = dist.TCPStore(address, port, world_size, rank == 0, timedelta(seconds=SET_UP_S))  # type: ignore[attr-defined]
    limit = timedelta(seconds=timeout_s)
    dist.init_process_group("gloo", store=store, rank=rank, world_size=world_size, timeout=limit)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="One rank of the lab's BERT pre-training.")
    add = parser.add_argument
    add("--storage", required=True, metavar="ADDRESS:PORT", help="storage server, see storage_server")
    add("--steps", type=int, default=0, help="steps to train; 0 (default): no limit")
    add("--seconds", type=float, default=0, help="time to train; 0 (default): no limit")
    add("--seed", type=int, default=0)
    add("--batch", type=int, default=8, help="sequences of a rank per step (default 8)")
    add("--length", type=int, default=64, help="tokens of a sequence (default 64)")
    add("--hidden", type=int, default=192)
    add("--layers", type=int, default=4)
    add("--bucket-mb", type=float, default=2.0, help="gradients reduced at once (default 2.0 MB)")
    add("--lr", type=float, default=1.5e-3)
    add("--warm-up", type=int, default=10, help="steps until the learning rate is reached (default 10)")
    add("--evaluate-every", type=int, default=50, help="steps; 0: never (default 50)")
    add("--checkpoint-every", type=int, default=50, help="steps; 0: never (default 50)")
    add("--timeout", type=float, default=12, help="seconds until a collective fails (default 12)")
    add("--no-watch", action="store_true", help="without leadline.torch, to tell what it costs")
    return parser.parse_args()


def main() -> None:
    """Train, and leave with an honest exit code."""
    given = arguments()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    began = time.perf_counter()
    watch = None if given.no_watch else leadline_torch.watch()
    code, told = 0, "trained to the end"
    try:
        join(given.timeout)
        training = Training(given, watch)
        signal.signal(signal.SIGTERM, lambda *_: setattr(training, "stop_asked", True))
        training._tell("start", seconds=round(time.perf_counter() - began, 3))
        training.run()
        used = resource.getrusage(resource.RUSAGE_SELF)
        training._tell("end", digest=training.digest(), cpu_seconds=round(used.ru_utime + used.ru_stime, 2))
        dist.destroy_process_group()
    except WorldError as error:
        code, told = EXIT_STORAGE, str(error)
    except RuntimeError as error:
        code, told = EXIT_COLLECTIVE, f"a collective failed: {error}"
    if code:
        log.error("rank %s ends: %s", os.environ.get("RANK"), told)
        if watch:
            watch.event("rank-failed", told[:500], severity="error")
    if watch:
        watch.close()
    sys.stdout.flush()
    # Not through the interpreter's end: gloo's threads abort there ("terminate called without an active exception"),
    # which would turn an honest code into a SIGABRT.
    os._exit(code)


if __name__ == "__main__":
    main()
