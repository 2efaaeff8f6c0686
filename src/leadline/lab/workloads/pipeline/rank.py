"""One rank of the `pipeline` job: one stage of a model, trained with 1F1B over gloo's sends and receives.

    RANK=0 WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 MASTER_PORT=29500 python -m leadline.lab.workloads.pipeline.rank --help

WORLD_SIZE is stages x replicas. Activations go forward under tag 0, gradients come back under tag 1. A send is waited
for in a thread of its own: gloo's send ends when its receiver is there, and two neighbours that both wait in a send
would wait for ever. Receives are waited for where their data is needed, as Megatron-LM does without overlap. Every
rank writes down each step's seconds of computing and of waiting (the bubble).
Exit codes: 0 trained to the end or told to stop (SIGTERM); 1 a send, receive or reduction failed.

A device is emulated by waiting: a forward pass takes at least --device-ms, a backward pass twice that, as a host waits
for its GPU. So stages work side by side on any number of cores. 0: only what the CPU computes.

Control file, read before each step: `stage_factor` (this stage computes so much longer: real passes, and the device's
wait), `data_delay_s`, `diverge`, `allocate_mb_per_step`, `pause_s` with `pause_number`, `checkpoint_number`,
`reinit_number`.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import resource
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch
import torch.distributed as dist
from torch import Tensor

import leadline.torch as leadline_torch
from leadline.lab.workloads.control import Control
from leadline.lab.workloads.pipeline.exchange import ACTIVATIONS, GRADIENTS, Clock, Exchange
from leadline.lab.workloads.pipeline.model import Config, Stage, batches
from leadline.lab.workloads.pipeline.schedule import (
    Kind,
    layers_of,
    one_forward_one_backward,
    peers_of,
    place_of,
)
from leadline.lab.workloads.text import Language
from leadline.lab.workloads.training.group import Agreed, Group
from leadline.lab.workloads.training.unwatched import Unwatched

log = logging.getLogger("pipeline")

EXIT_COLLECTIVE = 1
WAIT_S_MAX = 60.0  # of what a control file asks for
FACTOR_MAX = 100.0
CHECKPOINTS_KEPT = 2  # of each stage
FIRST_TOLD = 2  # step whose work is told: the ones before are slower than usual


class Passed(NamedTuple):
    """A micro-batch between its forward and its backward pass."""

    given: Tensor
    out: Tensor
    again: Callable[[], Tensor]  # the forward pass


class Training:
    """The job of one rank, from the first step to the last."""

    def __init__(self, given: argparse.Namespace, group: Group, watch: leadline_torch.Watch | None) -> None:
        self.given, self.group, self.watch = given, group, watch
        self.rank = group.rank
        self.place = place_of(self.rank, given.stages, given.replicas)
        self.is_first, self.is_last = self.place.before is None, self.place.after is None
        self.work = one_forward_one_backward(given.stages, self.place.stage, given.micro_batches)
        self.control = Control(os.environ.get("LEADLINE_CONTROL"))
        self.control.changed()
        self.pauses = self.control.number("pause_number")
        self.agreed = Agreed(
            False, self.control.number("reinit_number"), self.control.number("checkpoint_number"), False
        )
        self.checkpoints = self.agreed.checkpoint_number
        self.stop_asked = self.obeyed = False
        self.hog: list[bytearray] = []
        self.owed_s = 0.0  # CPU time that this stage is still to spend, because it is told to be slower
        language = Language(given.seed)
        config = Config(len(language.vocabulary), given.hidden, given.layers or given.stages, length=given.length)
        torch.manual_seed(given.seed * 1000 + self.place.stage)  # replicas of a stage begin alike
        layers = layers_of(config.layers, given.stages, self.place.stage)
        self.stage = Stage(config, layers, self.is_first, self.is_last)
        self.optimizer = torch.optim.AdamW(self.stage.parameters(), lr=given.lr)
        self.loss = _mean() if self.is_last else None
        self.batches = batches(
            language, given.seed, (given.micro_batches, given.batch, given.length), self.place.replica, given.replicas
        )
        self.exchange = Exchange(self.place, (given.batch, given.length, given.hidden))
        self.peers = self._peers()

    def run(self) -> None:
        """All steps. Errors: RuntimeError from gloo when a peer is gone."""
        ends = time.monotonic() + self.given.seconds if self.given.seconds else float("inf")
        for number in range(self.given.steps or sys.maxsize):
            self.control.changed()
            self._pause()
            if not self._step(number, ends):
                return
            self._grow()

    def _peers(self) -> Any:
        """The group of the ranks that hold this stage; None if we are the only one."""
        if self.given.replicas == 1:
            return None
        made = {}
        for stage in range(self.given.stages):
            # Every rank makes every group, in the same order: torch asks for it.
            made[stage] = dist.new_group(peers_of(stage, self.given.stages, self.given.replicas))
        return made[self.place.stage]

    def _step(self, number: int, ends: float) -> bool:
        """One step; whether there is to be another."""
        clock = Clock()
        with self.watch.step(number) if self.watch else Unwatched() as step:
            with step.data(), clock.data():
                self._delay()
                # The first stage needs the words, the last one the words that follow: both read the same text.
                batch = next(self.batches) if self.is_first or self.is_last else None
            self.optimizer.zero_grad()
            self._pipeline(batch, step, clock)
            self._reduce(clock)
            with step.optimizer():
                self.optimizer.step()
            if self.is_first:
                step.samples = self.given.micro_batches * self.given.batch
                step.tokens = step.samples * self.given.length
            if self.loss is not None:
                step.loss = self.loss.compute()
                step.metrics({"loss": step.loss})
            if self._is_due(number):
                self.checkpoints = self.agreed.checkpoint_number
                with step.checkpoint():
                    self._checkpoint(number)
            # At the end of the step, so that the wait of the stages that are done first counts as theirs.
            before = self.agreed
            clock.waited(lambda: self._agree(time.monotonic() >= ends))
        self._tell_step(number, clock)
        if self.agreed.reinit_number != before.reinit_number:
            self.group.anew()
            self.peers = self._peers()
        return not self.agreed.stop

    def _agree(self, stop: bool) -> None:
        self.agreed = self.group.agree(stop or self.stop_asked, self.control)

    def _tell_step(self, number: int, clock: Clock) -> None:
        loss = {}
        if self.loss is not None:
            loss = {"loss": round(float(self.loss.compute()), 4)}
            self.loss.reset()
        self._tell(
            "step",
            number=number,
            stage=self.place.stage,
            replica=self.place.replica,
            seconds=round(time.perf_counter() - clock.began, 5),
            compute_seconds=round(clock.computing, 5),
            waiting_seconds=round(clock.waiting, 5),
            reduce_seconds=round(clock.reducing, 5),
            **loss,
            end_ns=time.time_ns(),
            monotonic_ns=time.monotonic_ns(),
        )
        # What else a step was made of: once at first, then while the control file asks for something.
        obeys = bool(self.control.settings)
        if obeys or self.obeyed or number == FIRST_TOLD:
            self._tell("work", number=number, data_s=round(clock.loading, 4), compute_s=round(clock.computing, 4))
        self.obeyed = obeys

    # -- the pipeline -----------------------------------------------------------------------------------------

    def _pipeline(self, batch: Tensor | None, step: Any, clock: Clock) -> None:
        """All micro-batches through this stage, forward and backward. `batch` (M, B, L + 1), where it is needed."""
        held: dict[int, Passed] = {}  # the micro-batches that wait for their gradient
        for kind, number in self.work:
            if kind == "forward":
                held[number] = self._forward(None if batch is None else batch[number], step, clock)
            else:
                self._backward(held.pop(number), step, clock)
        self.exchange.flush(clock)

    def _forward(self, words: Tensor | None, step: Any, clock: Clock) -> Passed:
        """One micro-batch; `words` (B, L + 1), where they are needed."""
        place, targets = self.place, words[:, 1:] if self.is_last and words is not None else None
        if place.before is None:
            assert words is not None
            given = words[:, :-1]
        else:
            given = self.exchange.receive(place.before, ACTIVATIONS, clock).requires_grad_()

        def compute() -> Tensor:
            out: Tensor = self.stage(given, targets)
            return out

        with step.forward():
            out = self._compute("forward", compute, compute, clock)
        if self.loss is not None:
            self.loss.update(out.detach())
        self.exchange.send(out.detach(), place.after, ACTIVATIONS)
        return Passed(given, out, compute)

    def _backward(self, passed: Passed, step: Any, clock: Clock) -> None:
        given, out, forward = passed
        if self.place.after is None:
            gradient, out = None, out / self.given.micro_batches  # the mean over the micro-batches
        else:
            gradient = self.exchange.receive(self.place.after, GRADIENTS, clock)
        with step.backward():
            self._compute("backward", lambda: torch.autograd.backward(out, gradient), forward, clock)
        if self.place.before is not None:
            assert given.grad is not None
            self.exchange.send(given.grad, self.place.before, GRADIENTS)

    def _compute(self, kind: Kind, compute: Callable[[], Any], again: Callable[[], Any], clock: Clock) -> Any:
        """Do a pass, in no less than the device's time; if the control file says that we are slower, more of it.

        `again` is a forward pass that may be done over.
        """
        factor = min(max(1.0, self.control.number("stage_factor")), FACTOR_MAX)
        began, cpu_began = time.perf_counter(), time.thread_time()
        out = compute()
        # What was too much the last time is less now.
        self.owed_s = (self.owed_s if factor > 1.0 else 0.0) + (factor - 1.0) * (time.thread_time() - cpu_began)
        with torch.no_grad():
            while self.owed_s > 0.0:
                cpu_began = time.thread_time()
                again()
                self.owed_s -= time.thread_time() - cpu_began
        device_s = self.given.device_ms / 1e3 * (2 if kind == "backward" else 1) * factor
        time.sleep(max(0.0, device_s - (time.perf_counter() - began)))
        clock.computing += time.perf_counter() - began
        return out

    def _reduce(self, clock: Clock) -> None:
        """Mean gradients over the replicas of this stage."""
        if self.peers is None:
            return
        gradients = [one.grad for one in self.stage.parameters() if one.grad is not None]
        flat = torch.cat([one.flatten() for one in gradients])
        clock.reduced(lambda: dist.all_reduce(flat, group=self.peers))
        flat /= self.given.replicas
        at = 0
        for one in gradients:
            one.copy_(flat[at : at + one.numel()].view_as(one))
            at += one.numel()

    # -- what else happens ------------------------------------------------------------------------------------

    def _is_due(self, number: int) -> bool:
        """Whether this rank writes a checkpoint after this step: every stage, by its first replica."""
        told = self.agreed.checkpoint_number != self.checkpoints
        regular = bool(self.given.checkpoint_every) and (number + 1) % self.given.checkpoint_every == 0
        return self.place.replica == 0 and bool(self.given.directory) and (regular or told)

    def _checkpoint(self, number: int) -> None:
        began = time.perf_counter()
        directory = Path(self.given.directory)
        directory.mkdir(parents=True, exist_ok=True)
        path = directory / f"step{number:06d}-stage{self.place.stage}.pt"
        part = path.with_name(path.name + ".part")
        torch.save({"step": number, "stage": self.stage.state_dict(), "optimizer": self.optimizer.state_dict()}, part)
        part.replace(path)
        for old in sorted(directory.glob(f"step*-stage{self.place.stage}.pt"))[:-CHECKPOINTS_KEPT]:
            old.unlink(missing_ok=True)
        size, seconds = path.stat().st_size, time.perf_counter() - began
        if self.watch:
            told = {"bytes": str(size), "seconds": f"{seconds:.3f}", "object": path.name}
            self.watch.event("checkpoint", f"stage {self.place.stage}, {size} bytes", attributes=told)
        self._tell("checkpoint", number=number, bytes=size, seconds=round(seconds, 4))

    def _delay(self) -> None:
        time.sleep(min(max(0.0, self.control.number("data_delay_s")), WAIT_S_MAX))

    def _pause(self) -> None:
        """Once for each new number: what a recompilation looks like."""
        asked = self.control.number("pause_number")
        if asked != self.pauses:
            self.pauses = asked
            seconds = min(max(0.0, self.control.number("pause_s")), WAIT_S_MAX)
            if self.watch:
                self.watch.event("recompilation", f"stage {self.place.stage}, {seconds:g} s")
            time.sleep(seconds)

    def _grow(self) -> None:
        megabytes = self.control.number("allocate_mb_per_step")
        if megabytes > 0:
            # Written to, not only asked for: untouched memory costs no page.
            self.hog.append(bytearray(b"\x01") * int(megabytes * 1e6))

    def _tell(self, what: str, **values: object) -> None:
        print(json.dumps({"rank": self.rank, "event": what, **values}), flush=True)


def _mean() -> Any:
    from torchmetrics import MeanMetric  # here: two seconds of import that only the last stage needs

    return MeanMetric(sync_on_compute=False)


def arguments() -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(description="One rank of the lab's pipeline-parallel training.")
    add = parser.add_argument
    add("--stages", type=int, required=True, help="stages of the pipeline; WORLD_SIZE is stages x replicas")
    add("--replicas", type=int, default=1, help="pipelines side by side (default 1)")
    add("--micro-batches", type=int, default=8, help="micro-batches of a step (default 8)")
    add("--device-ms", type=float, default=10.0, help="least time of a forward pass (default 10); backward twice that")
    add("--steps", type=int, default=0, help="steps to train; 0 (default): no limit")
    add("--seconds", type=float, default=0, help="time to train; 0 (default): no limit")
    add("--seed", type=int, default=0)
    add("--batch", type=int, default=4, help="sequences of a micro-batch (default 4)")
    add("--length", type=int, default=48, help="tokens of a sequence (default 48)")
    add("--hidden", type=int, default=96)
    add("--layers", type=int, default=0, help="of the whole model; 0 (default): one a stage")
    add("--lr", type=float, default=2e-3)
    add("--checkpoint-every", type=int, default=0, help="steps; 0 (default): never")
    add("--directory", default="", help="where checkpoints go")
    add("--timeout", type=float, default=12, help="seconds until a send, receive or reduction fails (default 12)")
    add("--no-watch", action="store_true", help="without leadline.torch, to tell what it costs")
    return parser.parse_args()


def main() -> None:
    """Train, and leave with an honest exit code."""
    given = arguments()
    logging.basicConfig(level=logging.INFO, format="%(message)s")
    torch.set_num_threads(1)
    began = time.perf_counter()
    watch = None if given.no_watch else leadline_torch.watch()
    code = 0
    try:
        training = Training(given, Group(given.timeout, watch), watch)
        signal.signal(signal.SIGTERM, lambda *_: setattr(training, "stop_asked", True))
        training._tell("start", seconds=round(time.perf_counter() - began, 3))
        training.run()
        used = resource.getrusage(resource.RUSAGE_SELF)
        training._tell("end", cpu_seconds=round(used.ru_utime + used.ru_stime, 2))
        dist.destroy_process_group()
    except RuntimeError as error:
        code = EXIT_COLLECTIVE
        log.error("rank %s ends: a send, receive or reduction failed: %s", os.environ.get("RANK"), error)
        if watch:
            watch.event("rank-failed", str(error)[:500], severity="error")
    if watch:
        watch.close()
    sys.stdout.flush()
    # Not through the interpreter's end: gloo's threads abort there, which would turn an honest code into a SIGABRT.
    os._exit(code)


if __name__ == "__main__":
    main()
