"""uvicorn's HTTP connection with limits in size and time, which it has none of: a header may be endless, and half a
request is held until the other end lets go."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, cast

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from leadline.ingest.limits import sender_key
from leadline.model.counters import Counter, counter
from leadline.server.connections.files import last_file_for_connections
from leadline.server.connections.gate import IDLE_S_MAX, Connection, Gate, Phase

HEADER_BYTES_MAX = 65536  # as nginx (4 of 8 KiB) and Go (1 MiB) bound theirs; browsers with many cookies send 16 kB
CHUNK_HEADER_BYTES_MAX = 32  # of each chunk of a chunked body: 16 hex digits, a semicolon and two line ends
PIPELINED_MAX = 64  # requests sent ahead on one connection; nothing that sends to us does it at all
SWEEP_S = 1.0
LINGER_S = 0.2  # a round trip, and what a client does between two requests
KEEP_ALIVE_S = int(2 * IDLE_S_MAX)  # uvicorn's own time-out: ours comes first, and counts

_WORDS = {
    "full": (503, "too many connections (server.connections_max, or open files); try again in some seconds"),
    "header_slow": (408, "the header of a request must be whole within 10 s"),
    "header_too_large": (431, f"what is no body of a request may have {HEADER_BYTES_MAX} bytes"),
    "body_slow": (408, "the body must be whole within 130 s, and no piece of it may take longer than 40 s"),
    "pipelined": (400, f"at most {PIPELINED_MAX} requests may be sent ahead of their answers"),
}


class Connections:
    """The connections of a process, and what makes them: give `protocol` to uvicorn. Construction is inert."""

    def __init__(self, connections_max: int, count: Callable[[Counter], None]) -> None:
        self.gate = Gate(connections_max, last_file_for_connections())
        self._count = count
        self._sweeping = False

    @property
    def protocol(self) -> type[asyncio.Protocol]:
        """The class of a connection, as uvicorn calls it."""
        return cast(type[asyncio.Protocol], partial(LimitedProtocol, limits=self))

    def count(self, reason: str) -> None:
        """A connection was closed or refused by us."""
        self._count(counter("connection_closed", reason))

    def look_after(self, loop: asyncio.AbstractEventLoop) -> None:
        """Close what takes too long, from now on and as long as there are connections."""
        if not self._sweeping:
            self._sweeping = True
            loop.call_later(SWEEP_S, self._sweep, loop)

    def _sweep(self, loop: asyncio.AbstractEventLoop) -> None:
        self._sweeping = False
        if len(self.gate):
            self.look_after(loop)
        for connection, reason in self.gate.overdue(loop.time()):
            connection.owner.give_up(reason)


class LimitedProtocol(HttpToolsProtocol):
    """One connection."""

    def __init__(self, *args: Any, limits: Connections, **named: Any) -> None:
        super().__init__(*args, **named)
        self._limits = limits
        self._given_up = False
        self._stopping = False
        self._open = False  # within a request
        self._in_body = False
        self._fed_bytes = self._body_bytes = self._header_bytes = self._chunks = 0
        self._ended_in_piece = False
        self._wrong = ""  # found by a callback of the parser, acted upon when it returns
        self._connection = Connection("", self, 0.0)

    # -- the connection -----------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        limits = self._limits
        sender = sender_key(self.client[0]) if self.client else "our socket"
        self._connection = Connection(sender, self, self.loop.time())
        room = limits.gate.arrive(self._connection, transport.get_extra_info("socket").fileno())
        if room is None:
            self.give_up("full")
            return
        for each in room:
            each.owner.give_up("made_room")
        limits.look_after(self.loop)

    def connection_lost(self, exc: Exception | None) -> None:
        self._limits.gate.leave(self._connection)
        super().connection_lost(exc)

    def give_up(self, reason: str) -> None:
        """Close the connection for a reason of `connection_closed`, with an answer if none has begun."""
        if self._given_up or self.transport.is_closing():
            return
        self._given_up = True
        self._limits.count(reason)
        if reason in _WORDS and (self.cycle is None or not self.cycle.response_started or self.cycle.response_complete):
            status, words = _WORDS[reason]
            text = f"{words}\n".encode()
            retry = b"retry-after: 5\r\n" if status == 503 else b""
            self.transport.write(
                STATUS_LINE[status] + b"content-type: text/plain; charset=utf-8\r\nconnection: close\r\n" + retry
                + b"content-length: %d\r\n\r\n" % len(text) + text
            )  # fmt: skip
            self.transport.close()
        else:
            self.transport.abort()

    def shutdown(self) -> None:
        """The server stops. A client that is cut off cannot know whether its request was taken: one that asks again at
        once is answered, and told that this was the last answer."""
        self._stopping = True
        if self.cycle is None or self.cycle.response_complete:
            self.loop.call_later(LINGER_S, self._end_if_idle)
        else:
            super().shutdown()

    def _end_if_idle(self) -> None:
        if self.cycle is not None and not self.cycle.response_complete:
            return  # it was told
        if self.config.is_ssl:
            self.transport.abort()  # asyncio would wait 30 s for the goodbye of a peer that does not read
        else:
            self.transport.close()

    def pause_writing(self) -> None:
        super().pause_writing()
        self._connection.stuck = self.loop.time()

    def resume_writing(self) -> None:
        super().resume_writing()
        self._connection.stuck = None

    # -- what comes ---------------------------------------------------------------------------------------

    def data_received(self, data: bytes) -> None:
        if self._given_up:
            return
        self._ended_in_piece = False
        super().data_received(data)
        if self._open and not self._ended_in_piece:
            # Where one request ends in a piece and another begins, how much of it is whose is not known: at most the
            # 256 KiB that asyncio reads at once are not counted then.
            self._fed_bytes += len(data)
            framing = HEADER_BYTES_MAX + CHUNK_HEADER_BYTES_MAX * self._chunks
            if self._fed_bytes - self._body_bytes > framing:
                self._wrong = "header_too_large"
        if self._wrong:
            self.give_up(self._wrong)

    def on_message_begin(self) -> None:
        super().on_message_begin()
        self._open, self._in_body = True, False
        self._fed_bytes = self._body_bytes = self._header_bytes = self._chunks = 0
        self._settle()

    def on_url(self, url: bytes) -> None:
        super().on_url(url)
        self._header_bytes += len(url)

    def on_header(self, name: bytes, value: bytes) -> None:
        self._header_bytes += len(name) + len(value) + 4
        if self._header_bytes > HEADER_BYTES_MAX:
            self._wrong = "header_too_large"
            return
        super().on_header(name, value)

    def on_headers_complete(self) -> None:
        if len(self.pipeline) >= PIPELINED_MAX:
            self._wrong = "pipelined"
        if self._wrong:
            return
        super().on_headers_complete()
        if self._stopping:
            self.cycle.keep_alive = False
        self._in_body = True
        self._settle()

    def on_chunk_header(self) -> None:
        """One more chunk of a body."""
        self._chunks += 1

    def on_body(self, body: bytes) -> None:
        self._body_bytes += len(body)
        self._connection.moved = self.loop.time()
        if not self._wrong:
            super().on_body(body)

    def on_message_complete(self) -> None:
        self._open, self._ended_in_piece = False, True
        if not self._wrong:
            super().on_message_complete()
            self._settle()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._settle()

    def _settle(self) -> None:
        """Tell the gate what this connection is at."""
        connection = self._connection
        waits = self.cycle is not None and not self.cycle.response_complete  # for an answer
        if self._open and self._in_body and not self.pipeline:
            phase = Phase.BODY
        elif waits:
            phase = Phase.ANSWER
        elif connection.phase is Phase.FRESH:
            phase = Phase.FRESH
        else:
            phase = Phase.HEADER if self._open else Phase.IDLE
        connection.enter(phase, self.loop.time())
