"""Messages over TCP: a connection per edge, opened by the sender, data in one direction only, nothing but payload."""

from __future__ import annotations

import contextlib
import selectors
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Sequence
from typing import Any

from leadline.lab.workloads.transport.base import RECV, SEND, Edge, EdgeFlow, Transfer
from leadline.model.errors import DataError, WorldError
from leadline.model.ids import flow_id

# What is accepted but not yet on the wire stays below this, so that "accepted by the socket" means "sent" to within
# 64 KB (2 ms at 250 Mbit/s); without it a whole megabyte counts as sent at once. Linux, tcp(7), TCP_NOTSENT_LOWAT.
NOT_SENT_BYTES = 65_536
TCP_NOTSENT_LOWAT = getattr(socket, "TCP_NOTSENT_LOWAT", 25)
_TCP_RETRANSMITS_AT = 100  # tcpi_total_retrans in struct tcp_info, include/uapi/linux/tcp.h
_HELLO = struct.Struct("<4sII")  # magic, rank, channel: the first bytes of a connection
_MAGIC = b"LLRG"
CONNECT_S = 10.0


class _Way:
    """One direction of one connection, and what is posted on it."""

    def __init__(self, connection: socket.socket, edge: Edge, side: str) -> None:
        self.socket, self.edge, self.side = connection, edge, side
        self.posted: deque[tuple[memoryview, Transfer]] = deque()
        self.watched = False
        local, remote = connection.getsockname()[:2], connection.getpeername()[:2]
        source, target = (local, remote) if side == SEND else (remote, local)
        self.flow = flow_id(socket.IPPROTO_TCP, source[0], target[0], source[1], target[1])


class TcpTransport:
    """TCP between ranks. `addresses`: ours, channel c uses number c modulo how many there are.

    `congestion`: name of the congestion control, or None for the host's own; one that is refused is told in
    `refused`, and the host's own is used.
    """

    name = "tcp"

    def __init__(
        self,
        rank: int,
        addresses: Sequence[str],
        congestion: str | None = None,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        self._rank, self._addresses, self._clock = rank, list(addresses), clock
        self._congestion = congestion
        self.refused: str | None = None
        self._selector = selectors.DefaultSelector()
        self._listeners: list[socket.socket] = []
        self._wanted: tuple[list[Edge], list[Edge]] = ([], [])
        self._out: dict[Edge, _Way] = {}
        self._in: dict[Edge, _Way] = {}

    def offer(self, outgoing: Sequence[Edge], incoming: Sequence[Edge]) -> dict[str, Any]:
        """Listen on every address of ours."""
        self._wanted = (list(outgoing), list(incoming))
        for address in self._addresses:
            self._listeners.append(socket.create_server((address, 0), backlog=max(8, len(incoming))))
        return {"listens": [listener.getsockname()[:2] for listener in self._listeners]}

    def connect(self, offers: Sequence[dict[str, Any]]) -> None:
        """Open what we send on, accept what we receive on. The backlog holds a connection until we accept it."""
        outgoing, incoming = self._wanted
        for channel, peer in outgoing:
            listens = offers[peer]["listens"]
            address, port = listens[channel % len(listens)]
            connection = self._opened((address, port), self._addresses[channel % len(self._addresses)])
            connection.sendall(_HELLO.pack(_MAGIC, self._rank, channel))
            connection.setblocking(False)
            self._out[channel, peer] = _Way(connection, (channel, peer), SEND)
        self._accept(set(incoming))
        for listener in self._listeners:
            listener.close()

    def _opened(self, at: tuple[str, int], source: str) -> socket.socket:
        connection = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            connection.bind((source, 0))
            connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            connection.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, NOT_SENT_BYTES)
            if self._congestion:
                self.refused = self.refused or choose_congestion(connection, self._congestion)
            connection.settimeout(CONNECT_S)
            connection.connect(at)
        except OSError as error:
            connection.close()
            raise WorldError(f"rank {self._rank}: no connection from {source} to {at[0]}:{at[1]}: {error}") from error
        return connection

    def _accept(self, missing: set[Edge]) -> None:
        deadline = time.monotonic() + CONNECT_S
        while missing:
            for listener in self._listeners:
                listener.settimeout(0.05)
                try:
                    connection, source = listener.accept()
                except TimeoutError:
                    continue
                edge = _hello(connection, source)
                if edge not in missing:
                    connection.close()
                    continue
                missing.discard(edge)
                connection.setblocking(False)
                self._in[edge] = _Way(connection, edge, RECV)
            if missing and time.monotonic() > deadline:
                raise WorldError(f"rank {self._rank}: no connection came for (channel, rank) {sorted(missing)}")

    # -- messages ---------------------------------------------------------------------------------------------

    def send(self, edge: Edge, data: memoryview) -> Transfer:
        """Post a message, and send at once what goes."""
        return self._post(self._out[edge], data)

    def receive(self, edge: Edge, into: memoryview) -> Transfer:
        """Post a receive, and take at once what is there."""
        return self._post(self._in[edge], into)

    def _post(self, way: _Way, data: memoryview) -> Transfer:
        transfer = Transfer()
        way.posted.append((data, transfer))
        if len(way.posted) == 1:
            self._pump(way)
        return transfer

    def turn(self, timeout_s: float, also: Sequence[socket.socket] = ()) -> None:
        """Wait until a socket is ready, then move what it takes or gives."""
        for other in also:
            self._selector.register(other, selectors.EVENT_READ)
        try:
            for key, _ in self._selector.select(timeout_s):
                if key.data is not None:
                    self._pump(key.data)
        finally:
            for other in also:
                self._selector.unregister(other)

    def _pump(self, way: _Way) -> None:
        """Move bytes until the socket has enough or nothing is posted; then watch it exactly as long as needed."""
        try:
            while way.posted:
                data, transfer = way.posted[0]
                moved = way.socket.send(data) if way.side == SEND else way.socket.recv_into(data)
                if moved == 0:
                    raise WorldError(f"{self._label(way)}: the other end closed the connection")
                if moved < len(data):
                    way.posted[0] = (data[moved:], transfer)
                    continue
                transfer.end_ns, transfer.done = self._clock(), True
                way.posted.popleft()
        except BlockingIOError:
            pass
        except OSError as error:
            raise WorldError(f"{self._label(way)}: {error}") from error
        self._watch(way, bool(way.posted))

    def _watch(self, way: _Way, wanted: bool) -> None:
        if wanted == way.watched:
            return
        way.watched = wanted
        if wanted:
            events = selectors.EVENT_WRITE if way.side == SEND else selectors.EVENT_READ
            self._selector.register(way.socket, events, way)
        else:
            self._selector.unregister(way.socket)

    def _label(self, way: _Way) -> str:
        direction = "to" if way.side == SEND else "from"
        return f"rank {self._rank}, channel {way.edge[0]}, {direction} rank {way.edge[1]}"

    # -- what is told about it --------------------------------------------------------------------------------

    def flows(self) -> list[EdgeFlow]:
        """The flow of every connection."""
        ways = [*self._out.values(), *self._in.values()]
        return [EdgeFlow(way.edge, way.side, f"{way.flow:032x}", "") for way in ways]

    def report(self) -> dict[str, int]:
        """Segments that the kernel sent again."""
        return {"tcp_retransmits": sum(retransmits(way.socket) for way in self._out.values())}

    def close(self) -> None:
        """Close all."""
        self._selector.close()
        for way in [*self._out.values(), *self._in.values()]:
            way.socket.close()
        for listener in self._listeners:
            listener.close()


def _hello(connection: socket.socket, source: Any) -> Edge:
    """Who connected: (channel, rank). Errors: DataError."""
    connection.settimeout(CONNECT_S)
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    said = b""
    with contextlib.suppress(OSError):
        said = connection.recv(_HELLO.size, socket.MSG_WAITALL)
    if len(said) != _HELLO.size or not said.startswith(_MAGIC):
        connection.close()
        raise DataError(f"connection from {source}", "a rank's greeting", repr(said))
    _, rank, channel = _HELLO.unpack(said)
    return channel, rank


def choose_congestion(connection: socket.socket, name: str) -> str | None:
    """Set a socket's congestion control. Returns None, or why it was refused (it keeps the host's own then)."""
    try:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, name.encode())
    except OSError as error:
        return f"{name}: {error.strerror}"
    return None


def retransmits(connection: socket.socket) -> int:
    """Segments that the kernel sent again on this connection, since it was opened; 0 if it is closed already."""
    try:
        info = connection.getsockopt(socket.IPPROTO_TCP, socket.TCP_INFO, 256)
    except OSError:
        return 0
    if len(info) < _TCP_RETRANSMITS_AT + 4:
        return 0
    return int.from_bytes(info[_TCP_RETRANSMITS_AT : _TCP_RETRANSMITS_AT + 4], "little")
