"""One host of `incast`: rank 0 asks all others for so many bytes at once, again and again; the others answer.

    RANK=0 WORLD_SIZE=3 MASTER_ADDR=127.0.0.1 MASTER_PORT=29600 python -m leadline.lab.workloads.incast.rank &
    RANK=1 ...   RANK=2 ...

A question is the number of bytes wanted, 8 bytes in network order. Answers are zeros, and are thrown away in the
kernel. Rank 0 prints once a second, and at the end, a JSON object with what it has counted.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import statistics
import struct
import sys
import time
from collections import deque
from collections.abc import Sequence

from leadline.lab.workloads.rank_ring import Announced, Edge, member_from, open_ring
from leadline.lab.workloads.transport.tcp import choose_congestion
from leadline.model.errors import LeadlineError, WorldError
from leadline.model.ids import flow_id

QUESTION = struct.Struct("!Q")
MEET_S = 60.0  # ranks on a busy machine start within seconds of each other
TAKE_BYTES = 1 << 20
REPORT_S = 1.0
LAST_S = 30.0  # more for the last burst: who closes a connection with answers under way resets it
KEPT = 1000  # durations of bursts from which the median is made
RECORDS, STRINGS_BYTES = 1024, 32 * 1024  # announcements only


class Stopped(Exception):
    """SIGTERM."""


class Asker:
    """Rank 0: who is asked, and how long the answers took."""

    def __init__(self, address: tuple[str, int], others: int, burst_bytes: int) -> None:
        self._burst_bytes = burst_bytes
        self._scrap = memoryview(bytearray(TAKE_BYTES))
        self._selector = selectors.DefaultSelector()
        self._owed: dict[socket.socket, int] = {}
        self.bursts = self.received_bytes = 0
        self._took_s: deque[float] = deque(maxlen=KEPT)
        self._longest_s = 0.0
        with _listening(address, others) as listener:
            listener.settimeout(MEET_S)
            for _ in range(others):
                try:
                    connection, _source = listener.accept()
                except TimeoutError:
                    raise WorldError(
                        f"{len(self._owed)} of {others} hosts came to {address[0]} within {MEET_S:g} s"
                    ) from None
                connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                connection.setblocking(False)
                self._owed[connection] = 0
                self._selector.register(connection, selectors.EVENT_READ)

    def run(self, period_s: float, seconds: float) -> None:
        """Ask until the time is over. Errors: WorldError if a host that is asked goes away."""
        began_s = time.monotonic()
        due_s = say_s = began_s
        while (now_s := time.monotonic()) < began_s + seconds:
            if due_s > now_s:
                time.sleep(due_s - now_s)
            due_s = max(due_s + period_s, now_s)
            self._burst(began_s + seconds + LAST_S)
            if time.monotonic() >= say_s:
                say_s = time.monotonic() + REPORT_S
                self.say()

    def _burst(self, until_s: float) -> None:
        began_s = time.monotonic()
        for connection in self._owed:
            self._owed[connection] = self._burst_bytes
            try:
                connection.send(QUESTION.pack(self._burst_bytes))
            except OSError as error:
                raise WorldError(f"a host that should answer is gone: {error.strerror}") from error
        while any(self._owed.values()) and time.monotonic() < until_s:
            for key, _ in self._selector.select(1.0):
                self._take(key.fileobj)  # type: ignore[arg-type]  # only sockets are registered
        took_s = time.monotonic() - began_s
        self._took_s.append(took_s)
        self._longest_s = max(self._longest_s, took_s)
        self.bursts += 1

    def _take(self, connection: socket.socket) -> None:
        try:
            taken = connection.recv_into(self._scrap, TAKE_BYTES, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError as error:
            raise WorldError(f"a host that should answer is gone: {error.strerror}") from error
        if not taken:
            raise WorldError("a host that should answer has closed its connection")
        self._owed[connection] -= taken
        self.received_bytes += taken

    def say(self) -> None:
        """Print what was counted."""
        print(
            json.dumps(
                {
                    "bursts": self.bursts,
                    "received_bytes": self.received_bytes,
                    "burst_s_median": round(statistics.median(self._took_s), 6) if self._took_s else None,
                    "burst_s_max": round(self._longest_s, 6),
                }
            ),
            flush=True,
        )


def serve(connection: socket.socket) -> None:
    """Answer questions until the asker closes the connection."""
    zeros = bytes(TAKE_BYTES)
    while question := _exactly(connection, QUESTION.size):
        (left,) = QUESTION.unpack(question)
        while left:
            left -= connection.send(zeros[:left] if left < TAKE_BYTES else zeros)


def _exactly(connection: socket.socket, size: int) -> bytes:
    """So many bytes, or b"" at the end of the stream."""
    found = b""
    while len(found) < size:
        more = connection.recv(size - len(found))
        if not more:
            return b""
        found += more
    return found


def _listening(address: tuple[str, int], backlog: int) -> socket.socket:
    try:
        return socket.create_server(address, backlog=max(1, backlog))
    except OSError as error:
        raise WorldError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error


def connected(address: tuple[str, int], congestion: str) -> socket.socket:
    """A connection to the asker, who may not listen yet. Errors: WorldError."""
    deadline = time.monotonic() + MEET_S
    while True:
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        try:
            if congestion:
                choose_congestion(made, congestion)  # refused: the host's own
            made.settimeout(5.0)
            made.connect(address)
        except OSError as error:
            made.close()
            if time.monotonic() > deadline:
                raise WorldError(f"nobody at {address[0]}:{address[1]} within {MEET_S:g} s: {error}") from error
            time.sleep(0.1)
            continue
        made.settimeout(None)
        return made


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="incast.rank", description="Bursts from many hosts into one.")
    made.add_argument("--bytes", type=int, default=1 << 18, dest="burst_bytes", help="of each answer")
    made.add_argument("--period", type=float, default=0.5, help="seconds between two questions")
    made.add_argument("--seconds", type=float, default=60.0, help="how long rank 0 asks")
    made.add_argument("--congestion", default="cubic", help="per socket; empty: the host's own")
    return made


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 done or told to stop, 1 the world failed, 2 a wrong option."""
    options = parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, _stop)
    member = member_from(os.environ)
    address = (os.environ.get("MASTER_ADDR", "127.0.0.1"), int(os.environ.get("MASTER_PORT", "29600")))
    announced, ring = Announced(None), None
    try:
        ring = open_ring(os.environ.get("LEADLINE_RING_DIR"), member, RECORDS, STRINGS_BYTES)
        announced = Announced(ring)
        announced.tell(member.edges())
        if int(os.environ.get("RANK", "0")) == 0:
            _ask(address, int(os.environ.get("WORLD_SIZE", "1")) - 1, options)
        else:
            with connected(address, options.congestion) as connection:
                announced.tell([_owned(connection, member.entity)])
                serve(connection)
    except Stopped:
        return 0
    except (LeadlineError, ConnectionError) as error:
        print(f"incast_rank: {error}", file=sys.stderr, flush=True)
        return 1
    finally:
        announced.end()
        if ring is not None:
            ring.close()
    return 0


def _ask(address: tuple[str, int], others: int, options: argparse.Namespace) -> None:
    asker = Asker(address, others, options.burst_bytes)
    try:
        asker.run(options.period, options.seconds)
    finally:
        asker.say()


def _owned(connection: socket.socket, entity: str) -> Edge:
    local, remote = connection.getsockname()[:2], connection.getpeername()[:2]
    return (f"flow:{flow_id(socket.IPPROTO_TCP, local[0], remote[0], local[1], remote[1]):032x}", "owns", entity)


def _stop(_number: int, _frame: object) -> None:
    raise Stopped


if __name__ == "__main__":
    sys.exit(main())
