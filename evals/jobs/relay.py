"""The way from an agent to the server, which can be cut: what was sent lies on the way until it is mended.

agent ── TCP ──> Relay ── TCP ──> server        cut: nothing is read, written or refused, as with a dead switch
"""

from __future__ import annotations

import asyncio
import contextlib
import threading

CHUNK_BYTES = 1 << 16


class Relay:
    """Listens on loopback in a thread of its own. Inert until `start`."""

    def __init__(self, port: int, to_port: int) -> None:
        self._port, self._to_port = port, to_port
        self._loop = asyncio.new_event_loop()
        self._open = asyncio.Event()
        self._open.set()
        self._server: asyncio.Server | None = None
        self._thread = threading.Thread(target=self._loop.run_forever, name="relay", daemon=True)

    def start(self) -> None:
        """Listen. Errors: OSError if the port is taken."""
        self._thread.start()
        listening = asyncio.start_server(self._relay, "127.0.0.1", self._port)
        self._server = asyncio.run_coroutine_threadsafe(listening, self._loop).result(10)

    def cut(self) -> None:
        """Nothing passes any more."""
        self._loop.call_soon_threadsafe(self._open.clear)

    def mend(self) -> None:
        """What waits goes on its way."""
        self._loop.call_soon_threadsafe(self._open.set)

    def stop(self) -> None:
        """End all connections."""
        asyncio.run_coroutine_threadsafe(self._cancel_all(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    async def _cancel_all(self) -> None:
        if self._server is not None:
            self._server.close()
        others = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _relay(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await self._open.wait()
        try:
            far_reader, far_writer = await asyncio.open_connection("127.0.0.1", self._to_port)
        except OSError:
            writer.close()  # no server: the agent sees its connection close
            return
        ways = [asyncio.ensure_future(self._pass(*way)) for way in ((reader, far_writer), (far_reader, writer))]
        try:
            await asyncio.wait(ways, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for way in ways:
                way.cancel()
            for end in (writer, far_writer):
                end.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(ConnectionError):
            while data := await reader.read(CHUNK_BYTES):
                await self._open.wait()
                writer.write(data)
                await writer.drain()
