"""The process group of a rank: joined once, and made anew when all ranks agree to it.

It also carries the one small collective before each step by which the ranks agree: a clock, a signal and a control
file are read at different moments on different ranks, and who acts on them alone hangs the others.
"""

from __future__ import annotations

import os
import time
from datetime import timedelta
from typing import Any, NamedTuple

import torch
import torch.distributed as dist

import leadline.torch as leadline_torch
from leadline.lab.workloads.control import Control

SET_UP_S = 120.0  # from the first rank's start to the last one's
DIVERGENT_ELEMENTS = 1024
GO_ON, STOP, SAVE_AND_STOP = range(3)  # save: write a checkpoint first


class Agreed(NamedTuple):
    """What all ranks do before this step: the largest that any of them asks for."""

    stop: int  # GO_ON, STOP or SAVE_AND_STOP
    reinit_number: float
    checkpoint_number: float
    vary_sequences: bool


class Group:
    """The default process group, on gloo."""

    def __init__(self, timeout_s: float, watch: leadline_torch.Watch | None) -> None:
        """Errors: RuntimeError when not all ranks have come within SET_UP_S."""
        self.rank, self.world_size = int(os.environ["RANK"]), int(os.environ["WORLD_SIZE"])
        self._limit, self._watch = timedelta(seconds=timeout_s), watch
        self._made = 0
        address, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        # Set-up may take longer than a collective: ranks import torch on few cores. So the store, where they meet,
        # has a time limit of its own.
        self.store: Any = dist.TCPStore(  # type: ignore[attr-defined]
            address, port, self.world_size, self.rank == 0, timedelta(seconds=SET_UP_S)
        )
        self._init()

    def anew(self) -> None:
        """Leave the group and make it again. No collective may be under way, on any rank."""
        dist.destroy_process_group()
        self._init()

    def _init(self) -> None:
        began = time.perf_counter()
        store = dist.PrefixStore(str(self._made), self.store)  # type: ignore[attr-defined]  # the keys of the group before lie there still
        dist.init_process_group(
            "gloo", store=store, rank=self.rank, world_size=self.world_size, timeout=self._limit
        )  # fmt: skip
        self._made += 1
        if self._watch:
            told = {
                "backend": "gloo",
                "ranks": str(self.world_size),
                "number": str(self._made),
                "seconds": f"{time.perf_counter() - began:.3f}",
            }
            self._watch.event("communicator-init", f"group of {self.world_size} ranks", attributes=told)

    def agree(self, stop: int, control: Control) -> Agreed:
        """Ask all ranks. Errors: RuntimeError from gloo when a peer is gone."""
        # The divergent rank has another number of elements here than its peers.
        asked = torch.zeros(DIVERGENT_ELEMENTS if control.flag("diverge") else len(Agreed._fields), dtype=torch.float64)
        asked[0] = float(stop)
        asked[1] = control.number("reinit_number")
        asked[2] = control.number("checkpoint_number")
        asked[3] = float(control.flag("vary_sequences"))
        dist.all_reduce(asked, op=dist.ReduceOp.MAX)
        told = asked[: len(Agreed._fields)].tolist()
        return Agreed(int(told[0]), told[1], told[2], told[3] > 0)
