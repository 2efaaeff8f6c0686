"""The server side of the `serve` workload: takes requests, batches them, sheds what is too much, tells every window."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import cast

from leadline.lab.workloads.control import Control
from leadline.lab.workloads.serve.batching import Batcher, Policy, Window
from leadline.lab.workloads.serve.wire import ANSWERED, REPLY, REQUEST, SHED, Frame, Frames, encode
from leadline.model.errors import DataError

WINDOW_S = 1.0
CONNECTIONS_MAX = 256
UNREAD_BYTES_MAX = 4 << 20  # replies that a client has not read; more, and its connection is closed
DELAY_S_MAX = 60.0  # of what a control file asks for

Model = Callable[[Sequence[bytes]], list[bytes]]
_now_ns = time.monotonic_ns


@dataclass(frozen=True, slots=True)
class Waiting:
    """A request and where its reply goes."""

    frame: Frame
    connection: Connection


class Connection(asyncio.Protocol):
    """One client."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._frames = Frames(REQUEST, "a client of serve")
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)
        if not self._server.admit(self):
            self.abort()

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._server.connections.discard(self)

    def data_received(self, data: bytes) -> None:
        try:
            for frame in self._frames.feed(data):
                self._server.take(Waiting(frame, self))
        except DataError:
            self.close()

    def reply(self, number: int, status: int, payload: bytes = b"") -> None:
        """Answer, if the client is still there."""
        if self._transport is None:
            return
        self._transport.write(encode(Frame(REPLY, status, number, payload)))
        if self._transport.get_write_buffer_size() > UNREAD_BYTES_MAX:
            self.close()

    def close(self) -> None:
        """Close at once, and count it."""
        if self._transport is not None:
            self._server.window.refused += 1
            self.abort()

    def abort(self) -> None:
        """Close at once."""
        if self._transport is not None:
            self._transport.abort()


class Server:
    """One serving process. `model` answers a batch in a thread of its own; `tell` gets each window that has passed.

    `device_s`: the least time of a batch, whatever its size, as an accelerator takes it.
    """

    def __init__(
        self, policy: Policy, model: Model, device_s: float, control: Control, tell: Callable[[Window, int], None]
    ) -> None:
        self._model, self._device_s, self._control, self._tell = model, device_s, control, tell
        self._batcher: Batcher[Waiting] = Batcher(policy)
        self._arrived = asyncio.Event()
        self._thread = ThreadPoolExecutor(1, "model")
        self.connections: set[Connection] = set()
        self.window = Window(0, time.time_ns())

    async def run(self, address: str, port: int, stop: asyncio.Event, told: Callable[[int], None]) -> None:
        """Serve until `stop`; `told` gets the port once it listens. Errors: OSError if it cannot listen."""
        loop = asyncio.get_running_loop()
        listening = await loop.create_server(lambda: Connection(self), address, port)
        told(listening.sockets[0].getsockname()[1])
        tasks = [loop.create_task(each()) for each in (self._compute, self._windows)]
        stopping = loop.create_task(stop.wait())
        try:
            done, _ = await asyncio.wait([*tasks, stopping], return_when=asyncio.FIRST_COMPLETED)
            for each in done:
                each.result()  # a task that ended by itself failed: say why
        finally:
            listening.close()
            for task in (*tasks, stopping):
                task.cancel()
            await asyncio.gather(*tasks, stopping, return_exceptions=True)
            self.window = next_window(self.window, self._tell)
            for one in list(self.connections):
                one.abort()
            await asyncio.sleep(0)  # an abort takes effect in the next turn of the loop
            self._thread.shutdown()

    def admit(self, connection: Connection) -> bool:
        """Whether there is room for one more client."""
        if len(self.connections) >= CONNECTIONS_MAX:
            self.window.refused += 1
            return False
        self.connections.add(connection)
        return True

    def take(self, waiting: Waiting) -> None:
        """Let a request wait for its batch, or turn it away at once."""
        if self._batcher.offer(waiting, _now_ns()):
            self.window.queue_max = max(self.window.queue_max, len(self._batcher))
            self._arrived.set()
        else:
            self.window.shed += 1
            waiting.connection.reply(waiting.frame.number, SHED)

    async def _compute(self) -> None:
        while True:
            self._arrived.clear()
            due_ns, now_ns = self._batcher.due_ns(_now_ns()), _now_ns()
            if due_ns is not None and due_ns <= now_ns:
                await self._batch(self._batcher.take())
                continue
            rest_s = None if due_ns is None else (due_ns - now_ns) / 1e9
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._arrived.wait(), rest_s)

    async def _batch(self, batch: Sequence[tuple[int, Waiting]]) -> None:
        began_ns = _now_ns()
        loop = asyncio.get_running_loop()
        replies = await loop.run_in_executor(self._thread, self._model, [each.frame.payload for _, each in batch])
        delay_s = min(max(0.0, self._control.number("data_delay_s")), DELAY_S_MAX)
        rest_s = self._device_s + delay_s - (_now_ns() - began_ns) / 1e9
        if rest_s > 0:
            await asyncio.sleep(rest_s)
        ended_ns = _now_ns()
        self.window.batches += 1
        self.window.compute_ns += ended_ns - began_ns
        for (came_ns, each), payload in zip(batch, replies, strict=True):
            self.window.latencies_ms.append((ended_ns - came_ns) / 1e6)
            each.connection.reply(each.frame.number, ANSWERED, payload)

    async def _windows(self) -> None:
        while True:
            await asyncio.sleep(WINDOW_S)
            self._control.changed()
            self.window = next_window(self.window, self._tell)


def next_window(window: Window, tell: Callable[[Window, int], None]) -> Window:
    """Tell a window that has passed; the one that begins."""
    end_ns = time.time_ns()
    tell(window, end_ns)
    return Window(window.number + 1, end_ns)
