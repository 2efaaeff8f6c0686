"""The load of the `serve` workload: requests at times of their own, whether or not those before were answered.

Open loop: a slow server does not slow its clients down, as in the world. So a latency counts from the moment at which
the request was due, not from when it could be sent (else the slowest moments would ask the fewest questions).
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import random
import socket
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import cast

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.serve.batching import Window, arrivals
from leadline.lab.workloads.serve.server import DELAY_S_MAX, WINDOW_S, next_window
from leadline.lab.workloads.serve.wire import ANSWERED, REPLY, REQUEST, Frame, Frames, encode
from leadline.model.errors import DataError

RATE_MAX = 2000.0  # requests per second of one client: what one process can do without being late itself
UNDER_WAY_MAX = 4096  # beyond it requests are held back, and counted
AGAIN_S = 0.5  # between two attempts to connect
LATENCIES_KEPT = 100_000  # for the figures of the whole run


class Connection(asyncio.Protocol):
    """The way to one server, opened again when it breaks."""

    def __init__(self, load: Load, server: tuple[str, int]) -> None:
        self._load, self.server = load, server
        self._frames = Frames(REPLY, f"server {server[0]}:{server[1]}")
        self.transport: asyncio.Transport | None = None
        self.under_way: dict[int, float] = {}  # number -> when it was due

    async def keep(self) -> None:
        """Stay connected for as long as this task lives."""
        loop = asyncio.get_running_loop()
        while True:
            if self.transport is None:
                with contextlib.suppress(OSError):
                    await loop.create_connection(lambda: self, *self.server)
            await asyncio.sleep(AGAIN_S)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)
        self._frames = Frames(REPLY, f"server {self.server[0]}:{self.server[1]}")
        self._load.connected(self.transport.get_extra_info("socket"))

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        self._load.window.failed += len(self.under_way)
        self.under_way.clear()

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                due_s = self.under_way.pop(frame.number, None)
                if due_s is not None:  # else it was given up
                    self._load.answered(due_s, frame)
        except DataError:
            if self.transport is not None:
                self._load.window.refused += 1
                self.transport.abort()

    def send(self, frame: Frame, due_s: float) -> None:
        """Ask. Needs a transport."""
        assert self.transport is not None
        self.under_way[frame.number] = due_s
        self.transport.write(encode(frame))


class Load:
    """One client process, its requests round robin over the servers."""

    def __init__(
        self,
        servers: Sequence[tuple[str, int]],
        rate_per_s: float,
        request_bytes: int,
        timeout_s: float,
        seed: int,
        control: Control,
        tell: Callable[[Window, int], None],
        connected: Callable[[socket.socket], None] = lambda _: None,
    ) -> None:
        assert 0 < rate_per_s <= RATE_MAX
        self._rng = random.Random(seed)
        self._rate_per_s, self._timeout_s, self._control, self._tell = rate_per_s, timeout_s, control, tell
        self._payload = self._rng.randbytes(request_bytes)
        self._connections = [Connection(self, server) for server in servers]
        self.connected = connected
        self.window = Window(0, time.time_ns())
        self.latencies_ms: deque[float] = deque(maxlen=LATENCIES_KEPT)

    async def run(self, stop: asyncio.Event) -> None:
        """Ask until `stop`."""
        loop = asyncio.get_running_loop()
        jobs = [self._ask(), self._windows(), *(each.keep() for each in self._connections)]
        tasks = [loop.create_task(job) for job in jobs]
        stopping = loop.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()  # a task that ended by itself failed: say why
        finally:
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
            self._give_up()
            self.window = next_window(self.window, self._tell)
            for one in self._connections:
                if one.transport is not None:
                    one.transport.abort()
            await asyncio.sleep(0)  # an abort takes effect in the next turn of the loop

    def answered(self, due_s: float, frame: Frame) -> None:
        """A reply came."""
        if frame.status != ANSWERED:
            self.window.shed += 1
            return
        latency_ms = (time.monotonic() - due_s) * 1e3
        self.window.latencies_ms.append(latency_ms)
        self.latencies_ms.append(latency_ms)

    async def _ask(self) -> None:
        while not any(each.transport for each in self._connections):
            await asyncio.sleep(0.05)  # the first requests are not lost to a server that still loads its model
        began_s = time.monotonic()
        turn = itertools.cycle(self._connections)
        for number, at_s in enumerate(arrivals(self._rng, self._rate_per_s)):
            due_s = began_s + at_s
            delay_s = min(max(0.0, self._control.number("data_delay_s")), DELAY_S_MAX)
            rest_s = due_s + delay_s - time.monotonic()
            # Also when we are late: the loop has to read the replies, too.
            await asyncio.sleep(max(0.0, rest_s))
            self._send(next(turn), number, due_s)

    def _send(self, connection: Connection, number: int, due_s: float) -> None:
        if connection.transport is None:
            self.window.failed += 1
        elif sum(len(each.under_way) for each in self._connections) >= UNDER_WAY_MAX:
            self.window.held_back += 1
        else:
            connection.send(Frame(REQUEST, 0, number, self._payload), due_s)

    async def _windows(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_S)
            self._control.changed()
            self._give_up()
            self.window = next_window(self.window, self._tell)

    def _give_up(self) -> None:
        """Forget what was due too long ago."""
        before_s = time.monotonic() - self._timeout_s
        for each in self._connections:
            late = [number for number, due_s in each.under_way.items() if due_s < before_s]
            for number in late:
                del each.under_way[number]
            self.window.timed_out += len(late)
