"""One rank of a training job, whatever it trains: data-parallel on gloo, watched by leadline.torch.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python -m leadline.lab.workloads.bert.rank --help

Phases: set-up (with a checkpoint to go on from, if --resume), warm-up of the learning rate, training steps, an
evaluation every N steps, a checkpoint every M. Exit codes: 0 trained to the end or told to stop (SIGTERM); 1 a
collective failed (a peer died, diverged or hung longer than --timeout); 3 the storage host could not be reached or
gave what is no checkpoint. Killed ranks have their signal. SIGUSR1 stops like SIGTERM, after a checkpoint (preemption).

Faults come by the control file (LEADLINE_CONTROL), read before each step: see `training.control`.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import logging
import os
import resource
import signal
import sys
import time
import zlib
from pathlib import Path
from typing import Any

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

import leadline.torch as leadline_torch
from leadline.lab.workloads.control import Control
from leadline.lab.workloads.storage.client import StorageClient
from leadline.lab.workloads.training.checkpoint import Checkpoints
from leadline.lab.workloads.training.control import Obedience, SlowOperator, scan_directory
from leadline.lab.workloads.training.group import GO_ON, SAVE_AND_STOP, STOP, Agreed, Group
from leadline.lab.workloads.training.task import Batch, Shards, Surroundings, Task, arguments, loader_of
from leadline.lab.workloads.training.unwatched import Unwatched
from leadline.model.errors import DataError, WorldError

log = logging.getLogger("training")

EXIT_COLLECTIVE, EXIT_STORAGE = 1, 3
EVALUATION_BATCHES = 4
STEP_TOLD = 3  # its work is written down: past the first ones, in which memory and connections are made
EVALUATION_SHARD = 900_000_000  # training never comes that far


class Training:
    """The job of one rank, from the first step to the last."""

    def __init__(
        self, kind: type[Task], given: argparse.Namespace, group: Group, watch: leadline_torch.Watch | None
    ) -> None:
        self.given, self.group, self.watch = given, group, watch
        self.rank, self.world_size = group.rank, group.world_size
        control_path = os.environ.get("LEADLINE_CONTROL")
        self.control = Control(control_path)
        self.storage = StorageClient(given.storage)
        self.checkpoints = Checkpoints(self.storage, given.prefix)
        torch.manual_seed(given.seed)
        self.task = kind(Surroundings(given, self.rank, self.world_size, self.storage, group.store))
        self.model = self._reduced()
        self.optimizer = torch.optim.AdamW(self.task.parameters(), lr=given.lr)
        self.warm_up = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer, lambda step: min(1.0, (step + 1) / max(1, given.warm_up))
        )
        self.shards = self._shards(self.rank)
        self.batches = iter(loader_of(self._draw))
        self.batch: Batch | None = None
        # Training metrics stay local: a sum over all ranks per step would be one more collective that nobody needs.
        self.metrics = self.task.metrics(sync=False)
        self.evaluation = self.task.metrics(sync=True)
        self.first, self.done, self.saved = 0, 0, -1  # numbers of steps: saved is in a checkpoint
        self.stop_asked = GO_ON
        self.obeyed = False  # whether the control file asked for something in the step before
        self.stretch = 1.0
        self.agreed = Agreed(GO_ON, 0.0, 0.0, False)
        mounts = Path("/proc/self/mounts").read_text()
        self.obedience = Obedience(
            self.control, scan_directory(control_path, mounts), self.rank, self.storage,
            SlowOperator(self.task.model, self.task.own), self._event,
        )  # fmt: skip

    def run(self) -> None:
        """All steps. Errors: RuntimeError from gloo when a peer is gone, WorldError from the storage host."""
        self.obedience.begin()
        if self.given.resume:
            self._resume()
        ends = time.monotonic() + self.given.seconds if self.given.seconds else float("inf")
        number = self.done = self.first
        while number < (self.given.steps or sys.maxsize):
            self.obedience.before_step(self.control.changed() or number == self.first)
            stop = self.stop_asked or (STOP if time.monotonic() >= ends else GO_ON)
            before, self.agreed = self.agreed, self.group.agree(stop, self.control)
            if self.agreed.stop:
                break
            if number == self.first:  # numbers that stand there already were obeyed by an earlier attempt
                before = self.agreed
            if self.agreed.reinit_number not in (0, before.reinit_number):
                self._make_group_anew()
            asked = self.agreed.checkpoint_number not in (0, before.checkpoint_number)
            self._step(number, asked or _is_due(number, self.given.checkpoint_every))
            self.obedience.grow()
            if _is_due(number, self.given.evaluate_every):
                self._evaluate(number)
            number += 1
            self.done = number
        wanted = self.given.checkpoint_at_end or self.agreed.stop == SAVE_AND_STOP
        if wanted and self.done > self.first and self.saved != self.done - 1:
            self._checkpoint(self.done - 1)

    def ask_to_stop(self, how: int) -> None:
        """After the step that is under way, together with all ranks: STOP, or SAVE_AND_STOP."""
        self.stop_asked = max(self.stop_asked, how)

    # -- steps ------------------------------------------------------------------------------------------------

    def _step(self, number: int, checkpoint: bool) -> None:
        began, cpu_began = time.perf_counter(), time.process_time()
        self.stretch = self.obedience.stretch(number, self.agreed.vary_sequences)
        with self._watched_step(number) as step:
            with step.data():
                batch = self._next_batch()
                self.obedience.scan()
            data_s = time.perf_counter() - began
            with step.forward():
                loss, predictions = self.task.forward(self.model, batch)
            with step.backward():
                self.optimizer.zero_grad()
                loss.backward()  # type: ignore[no-untyped-call]
            with step.optimizer():
                self.optimizer.step()
                self.warm_up.step()
            self.metrics["loss"].update(loss.detach())
            self.metrics[self.task.measure].update(predictions.detach(), batch.answers)
            step.metrics(self.metrics.compute())
            self.metrics.reset()
            step.loss, step.samples, step.tokens = loss, batch.samples, batch.tokens
            if checkpoint and (self.rank == 0 or self.task.own is not None):
                with step.checkpoint():
                    self._checkpoint(number)
            if self.obedience.storage_bytes:
                with step.checkpoint():
                    self.obedience.burden_storage(number)
        self.tell(
            "step",
            number=number,
            loss=round(float(loss.detach()), 4),
            seconds=round(time.perf_counter() - began, 4),
            end_ns=time.time_ns(),
            monotonic_ns=time.monotonic_ns(),
        )
        self._tell_work(number, batch, data_s, time.process_time() - cpu_began)

    def _tell_work(self, number: int, batch: Batch, data_s: float, compute_s: float) -> None:
        """What this rank itself did in a step: once at first, then while its control file asks for something."""
        obeys = bool(self.control.settings)
        if obeys or self.obeyed or number == self.first + STEP_TOLD:
            self.tell(
                "work",
                number=number,
                data_s=round(data_s, 4),
                compute_s=round(compute_s, 4),
                tokens=batch.tokens,
                stretch=round(self.stretch, 3),
                batch=zlib.crc32(batch.inputs[0].numpy().tobytes()),
                operator_repeats=int(self.control.number("operator_repeats")),
            )
        self.obeyed = obeys

    def _next_batch(self) -> Batch:
        if self.batch is None or not self.control.flag("loop_batch"):
            self.batch = next(self.batches)
        else:
            self.obedience.delay()
        return self.batch

    def _draw(self) -> Batch:
        self.obedience.delay()
        return self.task.batch(self.shards, self.stretch)

    def _evaluate(self, number: int) -> None:
        began = time.perf_counter()
        if self.watch:
            self.watch.event("evaluation-begin", f"after step {number}")
        self.model.eval()
        shards = self._shards(EVALUATION_SHARD + self.rank)
        with torch.no_grad():
            for _ in range(EVALUATION_BATCHES):
                self.obedience.delay()
                batch = self.task.batch(shards, 1.0)
                loss, predictions = self.task.forward(self.model.module, batch)
                self.evaluation["loss"].update(loss)
                self.evaluation[self.task.measure].update(predictions, batch.answers)
        self.model.train(True)  # type: ignore[no-untyped-call]
        values = {name: round(float(value), 4) for name, value in self.evaluation.compute().items()}
        self.evaluation.reset()
        if self.watch:
            told = {name: f"{value:.4f}" for name, value in values.items()}
            self.watch.event("evaluation-end", f"after step {number}", attributes=told)
        self.tell("evaluation", number=number, **values, seconds=round(time.perf_counter() - began, 4))

    # -- checkpoints ------------------------------------------------------------------------------------------

    def _checkpoint(self, number: int) -> None:
        """Rank 0 writes model and optimiser; the others wait for it in their next collective, as everywhere.

        Where ranks have parameters of their own, each writes its own, and what is newest is told when all have.
        """
        began = time.perf_counter()
        self.saved, size = number, 0
        if self.rank == 0 or self.task.own is not None:
            name = self.checkpoints.name(number, None if self.rank == 0 else self.rank)
            size = self.checkpoints.put(name, self._content(number))
        if self.task.own is not None:
            dist.barrier()
        if self.rank == 0:
            self.checkpoints.tell_latest(number)
        if not size:
            return
        seconds = time.perf_counter() - began
        if self.watch:
            told = {"bytes": str(size), "seconds": f"{seconds:.3f}", "object": name}
            self.watch.event("checkpoint", f"{size} bytes to {self.given.storage}", attributes=told)
        self.tell("checkpoint", number=number, bytes=size, seconds=round(seconds, 4))

    def _content(self, number: int) -> dict[str, Any]:
        own = self.task.own
        content: dict[str, Any] = {"step": number, "optimizer": self.optimizer.state_dict()}
        if own is not None:
            content["own"] = own.state_dict()
        if self.rank == 0:
            content |= {"model": self.task.state(), "warm_up": self.warm_up.state_dict(), "place": self.shards.place()}
        return content

    def _resume(self) -> None:
        """Go on after the newest checkpoint, if there is one. Errors: WorldError, DataError."""
        step = self.checkpoints.latest()
        if step is None:
            self.tell("resume", number=-1)
            return
        common = self.checkpoints.get(self.checkpoints.name(step))
        mine = common
        if self.task.own is not None and self.rank:
            mine = self.checkpoints.get(self.checkpoints.name(step, self.rank))
        try:
            self.task.load(common["model"])
            if self.task.own is not None:
                self.task.own.load_state_dict(mine["own"])
            self.optimizer.load_state_dict(mine["optimizer"])
            self.warm_up.load_state_dict(common["warm_up"])
            self.shards.seek(common["place"])
            self.first = int(common["step"]) + 1
        except (KeyError, TypeError, ValueError, RuntimeError) as error:
            raise DataError(f"checkpoint of step {step}", "one of this job's model", str(error)[:300]) from error
        self.task.reseed(self.given.seed * 1000 + self.rank + 7919 * self.first)
        self._event("resume", f"from step {step}", attributes={"step": str(step)})
        self.tell("resume", number=step)

    # -- parts ------------------------------------------------------------------------------------------------

    def _make_group_anew(self) -> None:
        """A new process group, and the reduction of gradients on it; weights and optimiser stay."""
        del self.model  # it holds on to the old group
        self.group.anew()
        self.model = self._reduced()

    def _reduced(self) -> DistributedDataParallel:
        return DistributedDataParallel(self.task.model, bucket_cap_mb=self.given.bucket_mb)

    def _shards(self, first: int) -> Shards:
        return Shards(lambda number: self.task.items(self.storage.shard(number)), first, self.world_size)

    def _watched_step(self, number: int) -> Any:
        return self.watch.step(number) if self.watch else Unwatched()

    def _event(self, kind: str, message: str, attributes: dict[str, str]) -> None:
        if self.watch:
            self.watch.event(kind, message, attributes=attributes)

    def tell(self, what: str, **values: object) -> None:
        """A line of JSON in the log: a step by rank 0 only, all else by every rank."""
        if self.rank == 0 or what != "step":
            print(json.dumps({"rank": self.rank, "event": what, **values}), flush=True)

    def digest(self) -> str:
        """A hash of the weights: equal on all ranks if they trained together."""
        digest = hashlib.sha256()
        for one in self.model.parameters():
            digest.update(one.detach().numpy().tobytes())
        return digest.hexdigest()[:16]


def _is_due(number: int, every: int) -> bool:
    return bool(every) and (number + 1) % every == 0


def main(kind: type[Task]) -> None:
    """Train, and leave with an honest exit code."""
    given = arguments(kind)
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    began = time.perf_counter()
    watch = None if given.no_watch else leadline_torch.watch()
    code, told = 0, "trained to the end"
    try:
        training = Training(kind, given, Group(given.timeout, watch), watch)
        signal.signal(signal.SIGTERM, lambda *_: training.ask_to_stop(STOP))
        signal.signal(signal.SIGUSR1, lambda *_: training.ask_to_stop(SAVE_AND_STOP))
        training.tell("start", seconds=round(time.perf_counter() - began, 3))
        training.run()
        used = resource.getrusage(resource.RUSAGE_SELF)
        training.tell("end", digest=training.digest(), cpu_seconds=round(used.ru_utime + used.ru_stime, 2))
        dist.destroy_process_group()
    except (WorldError, DataError) as error:
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
