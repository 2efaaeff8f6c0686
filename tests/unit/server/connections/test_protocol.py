"""Connections over real sockets: endless headers, half requests, floods; and that honest ones go on beside them."""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvicorn
from uvicorn.server import ServerState

from leadline.model.counters import Counter
from leadline.server.connections import gate, protocol
from leadline.server.connections.bodies import BODY_BYTES_MAX, BoundedBodies
from leadline.server.connections.gate import Phase
from leadline.server.connections.protocol import Connections

GET = b"GET / HTTP/1.1\r\nhost: x\r\n\r\n"


class Server:
    """One listener with these limits; `closed` counts what was closed and why."""

    def __init__(self, connections_max: int = 100) -> None:
        self.closed: Tally[str] = Tally()
        self.limits = Connections(connections_max, self._count)
        self.go_on = asyncio.Event()
        self.refused = 0
        self.port = 0

    def _count(self, counter: Counter) -> None:
        self.closed[counter.reason] += 1

    def _refuse(self) -> None:
        self.refused += 1

    async def _app(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/wait":
            await self.go_on.wait()
        size, more = 0, True
        while more:
            message = await receive()
            if message["type"] == "http.disconnect":
                return
            size += len(message["body"])
            more = message["more_body"]
        body = b"%d bytes" % size
        headers = [(b"content-length", b"%d" % len(body))]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": body})

    async def start(self) -> asyncio.Server:
        app = BoundedBodies(self._app, self._refuse)
        config = uvicorn.Config(app, http=self.limits.protocol, lifespan="off", log_config=None)
        config.load()
        state = ServerState()
        loop = asyncio.get_running_loop()
        made: Any = config.http_protocol_class
        server = await loop.create_server(
            lambda: made(config=config, server_state=state, app_state={}, _loop=loop), "127.0.0.1", 0
        )
        self.port = server.sockets[0].getsockname()[1]
        return server

    async def connect(self, address: str = "127.0.0.1") -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        return await asyncio.open_connection("127.0.0.1", self.port, local_addr=(address, 0))


def with_server(test: Callable[[Server], Awaitable[None]], **limits: int) -> None:
    async def run() -> None:
        server = Server(**limits)
        async with await server.start():
            await asyncio.wait_for(test(server), 20)
            for connection in list(server.limits.gate):
                connection.owner.transport.abort()
            await asyncio.sleep(0)

    asyncio.run(run())


async def answer(reader: asyncio.StreamReader) -> bytes:
    """The next answer, its header and body."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length")
    )
    return head + await reader.readexactly(length)


async def end(reader: asyncio.StreamReader) -> bytes:
    """All that comes until the other end closes."""
    try:
        return await reader.read()
    except ConnectionError:  # what we sent was not read to its end
        return b""


@pytest.fixture
def hasty(monkeypatch: pytest.MonkeyPatch) -> None:
    """Limits of time that a test can wait for."""
    monkeypatch.setattr(protocol, "SWEEP_S", 0.02)
    monkeypatch.setattr(gate, "_TIMES", {phase: (0.2, reason) for phase, (_, reason) in gate._TIMES.items()})


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(
    ("sent", "reason", "status"),
    [
        (b"", "header_slow", b"408"),
        (b"GET / HTTP/1.1\r\nhost: x\r\n", "header_slow", b"408"),
        (b"\r\n", "header_slow", b"408"),
        (b"POST / HTTP/1.1\r\nhost: x\r\ncontent-length: 10\r\n\r\nhalf", "body_slow", b"408"),
    ],
)
def test_half_a_request_is_closed_in_time(sent: bytes, reason: str, status: bytes) -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(sent)
        assert (await end(reader)).split(b" ")[1] == status
        writer.close()
        assert server.closed == {reason: 1}
        assert len(server.limits.gate) == 0

    with_server(test)


@pytest.mark.usefixtures("hasty")
@pytest.mark.parametrize(("then", "reason"), [(b"", "idle"), (b"\r\n", "idle"), (b"GET /", "header_slow")])
def test_a_connection_that_was_served_is_closed_when_nothing_more_comes(then: bytes, reason: str) -> None:
    """Stray line ends between requests begin none: they kept a connection for ever."""

    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(GET)
        assert (await answer(reader)).endswith(b"0 bytes")
        writer.write(then)
        await end(reader)
        writer.close()
        assert server.closed == {reason: 1}

    with_server(test)


@pytest.mark.usefixtures("hasty")
def test_an_answer_that_takes_long_is_waited_for() -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(GET.replace(b"/ ", b"/wait "))
        await asyncio.sleep(0.4)
        assert [each.phase for each in server.limits.gate] == [Phase.ANSWER]
        server.go_on.set()
        assert (await answer(reader)).endswith(b"0 bytes")
        writer.close()
        assert server.closed == {}

    with_server(test)


LINE = b"x: " + b"a" * 1000 + b"\r\n"
START = b"GET / HTTP/1.1\r\nhost: x\r\n"
CHUNKED = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n1\r\na\r\n"


@pytest.mark.parametrize(
    ("begin", "more"),
    [
        (START, LINE),
        (START + b"x: ", b"a" * 1000),
        (b"GET /", b"a" * 1000),
        (CHUNKED + b"0\r\n", LINE),
        (CHUNKED + b"0\r\nx: ", b"a" * 1000),
        (CHUNKED + b"1;x=", b"a" * 1000),
    ],
    ids=["lines", "one line", "a path", "trailers", "one trailer", "a chunk's extension"],
)
def test_what_is_no_body_ends(begin: bytes, more: bytes) -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(begin)
        sent = 0
        try:
            while sent < 4 << 20:
                writer.write(more * 16)
                sent += 16 * len(more)
                await writer.drain()
                await asyncio.sleep(0)
        except ConnectionError:
            pass
        said = await end(reader)
        writer.close()
        assert not said or said.split(b" ")[1] == b"431"
        assert server.closed == {"header_too_large": 1}
        assert sent < 4 << 20

    with_server(test)


def test_a_header_that_comes_in_one_piece_is_measured_too() -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(START + LINE * 100 + b"\r\n")
        assert (await end(reader)).split(b" ")[1] in (b"431",)
        writer.close()

    with_server(test)


def test_what_is_usual_is_taken() -> None:
    """60 kB of header, a large body in a piece with it, chunks of one byte, requests sent ahead."""

    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        body = bytes(900_000)
        header = b"POST / HTTP/1.1\r\nhost: x\r\n" + LINE * 60
        writer.write(header + b"content-length: %d\r\n\r\n" % len(body) + body)
        assert (await answer(reader)).endswith(b"900000 bytes")
        chunked = b"POST / HTTP/1.1\r\nhost: x\r\ntransfer-encoding: chunked\r\n\r\n"
        writer.write(chunked + b"1\r\na\r\n" * 30_000 + b"0\r\n\r\n")
        assert (await answer(reader)).endswith(b"30000 bytes")
        writer.write((header + b"content-length: 3\r\n\r\nabc") * 10)
        for _ in range(10):
            assert (await answer(reader)).endswith(b"3 bytes")
        writer.close()
        assert server.closed == {}

    with_server(test)


def test_requests_sent_ahead_are_bounded() -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        writer.write(GET.replace(b"/ ", b"/wait ") + GET * 1000)
        await end(reader)
        writer.close()
        assert server.closed == {"pipelined": 1}

    with_server(test)


def test_a_flood_of_connections_makes_room_for_others() -> None:
    async def test(server: Server) -> None:
        honest = await server.connect("127.0.0.1")
        honest[1].write(GET)
        await answer(honest[0])
        flood = [await server.connect("127.0.0.2") for _ in range(40)]
        honest[1].write(GET)
        assert (await answer(honest[0])).endswith(b"0 bytes"), "who was connected goes on"
        late = await server.connect("127.0.0.3")
        late[1].write(GET)
        assert (await answer(late[0])).endswith(b"0 bytes"), "others still get in"
        assert len(server.limits.gate) == 20
        assert server.closed["made_room"] == 22
        for _, writer in (honest, late, *flood):
            writer.close()

    with_server(test, connections_max=20)


def test_without_room_a_connection_is_refused_in_words() -> None:
    async def test(server: Server) -> None:
        held = [await server.connect() for _ in range(3)]
        for _, writer in held:
            writer.write(GET.replace(b"/ ", b"/wait "))
        while [each.phase for each in server.limits.gate] != 3 * [Phase.ANSWER]:
            await asyncio.sleep(0.01)
        reader, writer = await server.connect()
        said = await end(reader)
        assert said.startswith(b"HTTP/1.1 503 ")
        assert b"retry-after: 5" in said
        assert server.closed == {"full": 1}
        server.go_on.set()
        for reader, _ in held:
            assert (await answer(reader)).endswith(b"0 bytes")
        for _, each in (*held, (reader, writer)):
            each.close()

    with_server(test, connections_max=3)


@pytest.mark.parametrize("length", [True, False])
def test_a_question_has_a_bounded_body(length: bool) -> None:
    async def test(server: Server) -> None:
        reader, writer = await server.connect()
        how = b"content-length: %d" % (4 * BODY_BYTES_MAX) if length else b"transfer-encoding: chunked"
        writer.write(b"POST / HTTP/1.1\r\nhost: x\r\n" + how + b"\r\n\r\n")
        if not length:
            piece = b"%x\r\n" % (BODY_BYTES_MAX + 1) + bytes(BODY_BYTES_MAX + 1) + b"\r\n"
            writer.write(piece)
        said = await end(reader)
        writer.close()
        assert said.startswith(b"HTTP/1.1 413 ")
        assert server.refused == 1

    with_server(test)


def test_a_server_that_stops_answers_who_asks_at_once_and_says_that_it_was_the_last() -> None:
    async def test(server: Server) -> None:
        asks, waits, is_idle = [await server.connect() for _ in range(3)]
        for _, writer in (asks, is_idle):
            writer.write(GET)
        waits[1].write(GET.replace(b"/ ", b"/wait "))
        for reader, _ in (asks, is_idle):
            assert b"connection: close" not in await reader.readuntil(b"0 bytes")
        for connection in list(server.limits.gate):
            connection.owner.shutdown()
        asks[1].write(GET)  # as a client does that has read one answer and has the next question ready
        server.go_on.set()
        for reader, _ in (asks, waits):
            answer = await reader.read()
            assert answer.startswith(b"HTTP/1.1 200")
            assert b"connection: close" in answer
        assert await is_idle[0].read() == b"", "it is closed a little later"
        for _, writer in (asks, waits, is_idle):
            writer.close()

    with_server(test)
