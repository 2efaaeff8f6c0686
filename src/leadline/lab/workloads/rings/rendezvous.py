"""Where the ranks of a job meet: rank 0 listens, everyone says something, everyone hears what all said.

One operation, `exchange`, gives addresses at the start, a barrier before each measurement, and the results after it.
Lines of JSON over one TCP connection per rank. While it waits it keeps the data transport alive (`meanwhile`), because
an acknowledgement of the last message may still be owed to a neighbour.
"""

from __future__ import annotations

import json
import select
import socket
import time
from collections.abc import Callable
from typing import Any

from leadline.model.errors import DataError, WorldError

LINE_BYTES_MAX = 1 << 20  # addresses and queue pairs of a thousand channels
CONNECT_PAUSE_S = 0.05
_MOST = 1 << 16

Meanwhile = Callable[[list[socket.socket]], None]


class Meeting:
    """One rank's place in it. Use as a context manager."""

    def __init__(self, rank: int, ranks: int, address: str, port: int, timeout_s: float) -> None:
        self._rank, self._ranks, self._timeout_s = rank, ranks, timeout_s
        self._at = (address, port)
        self._peers: dict[int, _Lines] = {}  # rank 0: everyone else; others: rank 0

    def __enter__(self) -> Meeting:
        deadline = time.monotonic() + self._timeout_s
        try:
            if self._rank == 0:
                self._gather(deadline)
            else:
                self._peers[0] = _Lines(_connected(self._at, deadline))
                self._peers[0].send(self._rank)
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        for peer in self._peers.values():
            peer.socket.close()
        self._peers = {}

    def exchange(self, value: Any, meanwhile: Meanwhile | None = None) -> list[Any]:
        """Every rank's value, by rank. Returns when all have said theirs.

        `meanwhile` waits a moment until one of the sockets it is given can be read, and does what else is to be done.
        Errors: WorldError if a rank is gone or silent for longer than the timeout.
        """
        if self._rank:
            self._peers[0].send(value)
            return list(self._hear([0], meanwhile)[0])
        said = {0: value} | self._hear(list(self._peers), meanwhile)
        everything = [said[rank] for rank in range(self._ranks)]
        for peer in self._peers.values():
            peer.send(everything)
        return everything

    def _hear(self, ranks: list[int], meanwhile: Meanwhile | None) -> dict[int, Any]:
        heard: dict[int, Any] = {}
        deadline = time.monotonic() + self._timeout_s
        while len(heard) < len(ranks):
            waiting = [rank for rank in ranks if rank not in heard]
            for rank in waiting:
                line = self._peers[rank].take()
                if line is not None:
                    heard[rank] = line[0]
            if len(heard) == len(ranks):
                break
            if time.monotonic() > deadline:
                missing = ", ".join(str(rank) for rank in waiting)
                raise WorldError(f"rank {self._rank}: heard nothing from rank {missing} for {self._timeout_s:g} s")
            (meanwhile or _wait)([self._peers[rank].socket for rank in waiting])
        return heard

    def _gather(self, deadline: float) -> None:
        with socket.create_server(self._at, backlog=self._ranks) as listener:
            while len(self._peers) < self._ranks - 1:
                listener.settimeout(max(0.01, deadline - time.monotonic()))
                try:
                    connection, source = listener.accept()
                except TimeoutError as error:
                    here = sorted(self._peers)
                    raise WorldError(
                        f"only ranks {[0, *here]} of {self._ranks} came to {self._at[0]}:{self._at[1]}"
                    ) from error
                lines = _Lines(connection)
                self._peers[_rank_from(lines.wait(deadline), self._ranks, source)] = lines


class _Lines:
    """A socket that carries lines of JSON, read without blocking."""

    def __init__(self, connection: socket.socket) -> None:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        connection.setblocking(False)
        self.socket = connection
        self._buffer = bytearray()

    def send(self, value: Any) -> None:
        self.socket.setblocking(True)
        try:
            self.socket.sendall(json.dumps(value).encode() + b"\n")
        except OSError as error:
            raise WorldError(f"a rank left the meeting: {error}") from error
        finally:
            self.socket.setblocking(False)

    def take(self) -> tuple[Any] | None:
        """One line's value, in a tuple, if it is complete."""
        while b"\n" not in self._buffer:
            try:
                piece = self.socket.recv(_MOST)
            except BlockingIOError:
                return None
            except OSError as error:
                raise WorldError(f"a rank left the meeting: {error}") from error
            if not piece:
                raise WorldError("a rank left the meeting; its own log says why")
            self._buffer += piece
            if len(self._buffer) > LINE_BYTES_MAX:
                raise DataError("meeting", f"a line of at most {LINE_BYTES_MAX} bytes", f"{len(self._buffer)}")
        line, _, rest = self._buffer.partition(b"\n")
        self._buffer = rest
        try:
            return (json.loads(line),)
        except ValueError as error:
            raise DataError("meeting", "a line of JSON", f"{bytes(line[:60])!r}") from error

    def wait(self, deadline: float) -> Any:
        while (line := self.take()) is None:
            if time.monotonic() > deadline:
                raise WorldError("someone came to the meeting and said nothing")
            _wait([self.socket])
        return line[0]


def _wait(sockets: list[socket.socket]) -> None:
    select.select(sockets, [], [], 0.2)


def _rank_from(value: Any, ranks: int, source: Any) -> int:
    if not isinstance(value, int) or not 0 < value < ranks:
        raise DataError(f"meeting, from {source}", f"a rank from 1 to {ranks - 1}", f"{value!r}")
    return value


def _connected(at: tuple[str, int], deadline: float) -> socket.socket:
    """Rank 0 may not listen yet: try again until it does."""
    while True:
        try:
            return socket.create_connection(at, timeout=max(0.05, deadline - time.monotonic()))
        except OSError as error:
            if time.monotonic() > deadline:
                raise WorldError(f"rank 0 does not answer at {at[0]}:{at[1]}: {error}") from error
            time.sleep(CONNECT_PAUSE_S)
