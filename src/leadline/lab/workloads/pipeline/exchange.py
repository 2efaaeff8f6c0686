"""What a stage exchanges with its neighbours: activations forward, gradients back, and how long it waits for them."""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor

from leadline.lab.workloads.pipeline.schedule import Place

ACTIVATIONS, GRADIENTS = 0, 1  # tags


class Clock:
    """Seconds of one step by what they were spent on."""

    def __init__(self) -> None:
        self.began = time.perf_counter()
        self.computing = 0.0
        self.waiting = 0.0
        self.loading = 0.0
        self.reducing = 0.0

    def waited(self, wait: Callable[[], Any]) -> None:
        """Do something that only waits."""
        began = time.perf_counter()
        wait()
        self.waiting += time.perf_counter() - began

    def reduced(self, reduce: Callable[[], Any]) -> None:
        """Reduce gradients, and wait for the replicas that come later."""
        began = time.perf_counter()
        reduce()
        self.reducing += time.perf_counter() - began

    @contextlib.contextmanager
    def data(self) -> Iterator[None]:
        """The wait for input."""
        began = time.perf_counter()
        yield
        self.loading += time.perf_counter() - began


class Exchange:
    """The messages of one stage, all of one shape."""

    def __init__(self, place: Place, shape: tuple[int, ...]) -> None:
        self._shape = shape
        self._outgoing = {peer: Outgoing(peer) for peer in (place.before, place.after) if peer is not None}

    def send(self, tensor: Tensor, to: int | None, tag: int) -> None:
        """Post it; nothing if there is no such neighbour. Its bytes must not change until `flush`."""
        if to is not None:
            self._outgoing[to].send(tensor, tag)

    def receive(self, source: int, tag: int, clock: Clock) -> Tensor:
        """The next one from a neighbour. Errors: RuntimeError from gloo."""
        into = torch.empty(self._shape)
        clock.waited(lambda: dist.recv(into, source, tag=tag))
        return into

    def flush(self, clock: Clock) -> None:
        """Wait until all that was sent is gone. Errors: RuntimeError from gloo, of any of the sends."""
        for each in self._outgoing.values():
            clock.waited(each.flush)


class Outgoing:
    """What is on its way to one neighbour: posted at once, waited for in a thread, so that its end is seen in time."""

    def __init__(self, to: int) -> None:
        self._to = to
        self._posted: queue.SimpleQueue[tuple[Any, Tensor]] = queue.SimpleQueue()
        self._gone = threading.Semaphore(0)
        self._count = 0
        self._failed: RuntimeError | None = None
        threading.Thread(target=self._wait, name=f"sends-to-{to}", daemon=True).start()

    def send(self, tensor: Tensor, tag: int) -> None:
        """Post it. Its bytes must not change until `flush`."""
        self._posted.put((dist.isend(tensor, self._to, tag=tag), tensor))
        self._count += 1

    def flush(self) -> None:
        """Wait until all of it is gone. Errors: RuntimeError from gloo, of any of the sends."""
        for _ in range(self._count):
            self._gone.acquire()
        self._count = 0
        if self._failed is not None:
            raise self._failed

    def _wait(self) -> None:
        while True:
            work, _ = self._posted.get()
            try:
                work.wait()
            except RuntimeError as error:
                self._failed = error
            self._gone.release()
