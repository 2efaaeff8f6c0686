"""What a rank of the `ray` job does, inside an actor: compute a little, then `ray.util.collective` over gloo, for ever.

Ray's gloo groups are process groups of torch, so `leadline.torch.watch()` sees their collectives like any other; the
job's code says nothing but `watch()`.
"""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import torch
from ray.util import collective
from ray.util.collective.types import Backend

import leadline.torch as leadline_torch
from leadline.lab.workloads.control import Control

DELAY_S_MAX = 60.0


class RayRank:
    """One rank. `steps_file` gets a line of JSON per step: who it is, when the step began and ended."""

    def __init__(self, rank: int, world_size: int, payload_bytes: int, pause_s: float, steps_file: str) -> None:
        self._rank, self._world_size, self._pause_s = rank, world_size, pause_s
        self._steps_file = Path(steps_file)
        torch.set_num_threads(1)
        self._watch = leadline_torch.watch(rank=rank, world_size=world_size)
        self._gradients = torch.zeros(max(1, payload_bytes // 4))
        self._weights = torch.eye(256)
        self._control = Control(os.environ.get("LEADLINE_CONTROL"))

    def run(self, seconds: float) -> int:
        """Join the group and take steps; 0 seconds: until the actor is killed. Returns how many."""
        collective.init_collective_group(self._world_size, self._rank, backend=Backend("gloo"), group_name="default")
        ends = time.monotonic() + seconds if seconds else float("inf")
        number = 0
        with self._steps_file.open("a") as told:
            while self._agreed_to_go_on(time.monotonic() < ends):
                began_ns = time.time_ns()
                self._step(number)
                line = {"rank": self._rank, "pid": os.getpid(), "start_ns": began_ns, "end_ns": time.time_ns()}
                told.write(json.dumps(line) + "\n")
                told.flush()
                number += 1
        self._watch.close()
        return number

    def _step(self, number: int) -> None:
        self._control.changed()
        with self._watch.step(number) as step:
            with step.data():
                time.sleep(self._pause_s + min(self._control.number("data_delay_s"), DELAY_S_MAX))
            with step.forward():
                for _ in range(4):
                    self._weights = torch.tanh(self._weights @ self._weights)
            with step.backward():
                self._gradients.fill_(1.0)
                collective.allreduce(self._gradients)
            assert float(self._gradients[0]) == self._world_size, "every rank added a one"
            step.samples = 1.0

    def _agreed_to_go_on(self, wanted: bool) -> bool:
        """Whether all ranks want another step: one that leaves alone would hang the rest."""
        flag = torch.tensor([0.0 if wanted else 1.0])
        collective.allreduce(flag)
        return float(flag[0]) == 0.0
