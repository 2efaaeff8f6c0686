"""A training job that costs hardly anything: a model of 1 kB, steps that mostly sleep, pauses and faults on demand.

What befalls a rank begins when the file `--when` is there; the rank writes the time of it to `FILE.began` first, so
that the truth is known to the step. Each rank writes a line `number end_ns` for every step it made: what should be
stored.
"""

from __future__ import annotations

import argparse
import os
import random
import time
from collections.abc import Iterator
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.nn.parallel import DistributedDataParallel

FEATURES = 16  # a gradient of 1,088 bytes: the network of the machine is no part of this
FORWARD_SHARE, BACKWARD_SHARE = 0.3, 0.6  # of a step; the rest is for loading, reducing and Python
JITTER = 0.05  # of what a step computes: real ones vary, too
SLOWER = 2.0  # a step that befalls takes so many times as long, at least SLOWER_S more
SLOWER_S = 0.3
SLOW_CHECKPOINT = 12.0  # times as long as it should


class Toy:
    """One rank. `rank`, `ranks` and what is asked for; made after the process group."""

    def __init__(self, given: argparse.Namespace) -> None:
        torch.set_num_threads(1)
        _begin_late(given.late_before)
        dist.init_process_group("gloo")
        _begin_late(given.late_after)
        self.rank, self.ranks = dist.get_rank(), dist.get_world_size()
        if given.pin:
            os.sched_setaffinity(0, {self.rank % (os.cpu_count() or 1)})
        self.steps: int = given.steps
        self.model = DistributedDataParallel(nn.Linear(FEATURES, FEATURES))
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self._given = given
        self._random = random.Random(self.rank)
        self._log = (given.did / f"{self.rank}.steps").open("w", buffering=1)
        self._when: Path | None = given.when
        self._began = False

    # -- a step ----------------------------------------------------------------------------------------------------

    def batches(self) -> Iterator[torch.Tensor]:
        """As many as there are steps."""
        for _ in range(self.steps):
            if self._befallen("slow-loader"):
                time.sleep(self._slower_s)
            yield torch.randn(4, FEATURES)

    def forward(self, batch: torch.Tensor) -> torch.Tensor:
        """The loss; takes its share of a step."""
        self._compute(FORWARD_SHARE)
        if self._befallen("slow-step"):
            time.sleep(self._slower_s)
        if self._befallen("raised"):
            raise ValueError("a label is out of range")
        return self.model(batch).square().mean()  # type: ignore[no-any-return]

    def backward(self, loss: torch.Tensor) -> None:
        """Gradients, reduced over all ranks."""
        self._compute(BACKWARD_SHARE)
        while self._befallen("hung"):
            pass  # a loop without an end, before a collective that the others are in
        self.optimizer.zero_grad()
        loss.backward()  # type: ignore[no-untyped-call]

    def mean_loss(self, loss: torch.Tensor) -> None:
        """The mean over all ranks, as many programs print it."""
        if self._befallen("diverged"):
            dist.all_gather([torch.zeros(64) for _ in range(self.ranks)], torch.zeros(64))
        dist.all_reduce(loss.detach().clone())

    def done(self, number: int) -> None:
        """A step has ended."""
        self._log.write(f"{number} {time.time_ns()}\n")
        if self.rank == 0 and number == self._given.breakpoint_at:
            breakpoint()

    # -- pauses ----------------------------------------------------------------------------------------------------

    def saves_after(self, number: int) -> bool:
        """Whether a checkpoint is due after this step."""
        return _due(number, self._given.checkpoint_every)

    def save(self) -> None:
        """A checkpoint, written by rank 0, and by the rank that it takes longer."""
        if self._befallen("slow-checkpoint"):
            time.sleep(SLOW_CHECKPOINT * self._given.checkpoint_s)
        elif self.rank == 0:
            time.sleep(self._given.checkpoint_s)

    def evaluates_after(self, number: int) -> bool:
        """Whether an evaluation is due after this step."""
        return _due(number, self._given.evaluate_every)

    def evaluate(self) -> None:
        """On all ranks, without a collective."""
        time.sleep(self._given.evaluate_s)

    def end(self) -> None:
        """Leave the group, as programs should."""
        dist.destroy_process_group()

    # -- what befalls ----------------------------------------------------------------------------------------------

    @property
    def _slower_s(self) -> float:
        return float(max(SLOWER_S, (SLOWER - 1) * self._given.step_s))

    def _befallen(self, what: str) -> bool:
        if self._when is None or self._given.befalls != f"{what}:{self.rank}" or not self._when.exists():
            return False
        if not self._began:
            self._began = True
            Path(f"{self._when}.began").write_text(str(time.time_ns()))
        return True

    def _compute(self, share: float) -> None:
        seconds = self._given.step_s * share * (1 + JITTER * self._random.uniform(-1, 1))
        burnt_s = seconds * self._given.busy
        began = time.thread_time()
        while time.thread_time() - began < burnt_s:
            pass  # so much of the processor, however long it takes to get it
        time.sleep(seconds - burnt_s)


def _begin_late(late: str) -> None:
    """Sleep, if RANK:SECONDS is about this rank: its host was slower to load, or the last to be scheduled."""
    rank, _, seconds = late.partition(":")
    if rank and int(os.environ["RANK"]) == int(rank):
        time.sleep(float(seconds))


def _due(number: int, every: int) -> bool:
    return every > 0 and (number + 1) % every == 0


def arguments() -> argparse.Namespace:
    """What the two programs can be asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--step-s", type=float, default=0.25, help="length of a step, s")
    parser.add_argument("--steps", type=int, default=400)
    parser.add_argument("--busy", type=float, default=0.0, help="share of a step that needs the processor")
    parser.add_argument("--pin", action="store_true", help="each rank on a core of its own")
    parser.add_argument("--checkpoint-every", type=int, default=0, help="steps; 0: never")
    parser.add_argument("--checkpoint-s", type=float, default=0.5)
    parser.add_argument("--evaluate-every", type=int, default=0, help="steps; 0: never")
    parser.add_argument("--evaluate-s", type=float, default=3.0)
    parser.add_argument("--breakpoint-at", type=int, default=-1, help="step after which rank 0 is in pdb")
    parser.add_argument("--late-before", default="", help="RANK:SECONDS that it sleeps before it joins the group")
    parser.add_argument("--late-after", default="", help="RANK:SECONDS that it sleeps after that, before its model")
    parser.add_argument("--befalls", default="", help="WHAT:RANK")
    parser.add_argument("--when", type=Path, help="what befalls begins when this file is there")
    parser.add_argument("--did", type=Path, required=True, help="directory for what each rank did")
    return parser.parse_args()
