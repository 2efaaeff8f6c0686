"""One host of `bulk`: a sink for what comes, and a sender for each flow that goes. Little CPU: the data is never read.

    python -m leadline.lab.workloads.bulk.rank --listen 127.0.0.1:5201 --seconds 10 &
    python -m leadline.lab.workloads.bulk.rank --flows \\
        '[{"source": "127.0.0.1", "target": "127.0.0.1", "target_port": 5201, "seconds": 5, "rate_bps": 50000000}]'

Senders give pages of one file in memory to the socket (sendfile), sinks throw away in the kernel (MSG_TRUNC). The rate
is kept by the kernel's pacing (SO_MAX_PACING_RATE). Once a second, and at the end, it prints a JSON object with what
each flow has carried.
"""

from __future__ import annotations

import argparse
import json
import os
import selectors
import signal
import socket
import sys
import time
from collections.abc import Sequence
from dataclasses import asdict
from types import FrameType
from typing import Any

from leadline.lab.workloads.bulk.flow import SECONDS_MAX, BulkFlow, loaded
from leadline.lab.workloads.rank_ring import Announced, member_from, open_ring
from leadline.lab.workloads.transport.tcp import TCP_NOTSENT_LOWAT, choose_congestion, retransmits
from leadline.model.errors import LeadlineError, WorldError
from leadline.model.ids import flow_id

FILE_BYTES = 1 << 20
TAKE_BYTES = 1 << 20  # thrown away by one call
PIECE_BYTES = 1 << 18  # given to a socket by one call
TURN_S = 0.1
REPORT_S = 1.0
CONNECT_S = 5.0  # a sink on another host may not listen yet
_SO_MAX_PACING_RATE = 47
RECORDS, STRINGS_BYTES = 1024, 32 * 1024  # announcements only


class _Sender:
    """One flow: waits for its start, connects, sends until a bound is met."""

    def __init__(self, flow: BulkFlow, file: int, began_s: float, congestion: str) -> None:
        self.flow = flow
        self.socket: socket.socket | None = None
        self.sent_bytes = self.retransmits = 0
        self.error = ""
        self.flow_id = ""
        self.over = False
        self.started_ns = self.ended_ns = 0
        self._file, self._at, self._congestion = file, 0, congestion
        self._start_s = began_s + flow.start_s
        self._end_s = self._start_s + flow.seconds

    def due(self, now_s: float) -> bool:
        """Whether it is time to connect."""
        return not self.over and self.socket is None and now_s >= self._start_s

    def open(self, now_s: float) -> bool:
        """Connect; on failure try again at the next turn, for a while. Returns whether it is connected."""
        made = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        flow = self.flow
        try:
            made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # the port of an earlier run, in TIME_WAIT
            if self._congestion:
                choose_congestion(made, self._congestion)  # refused: the host's own, told in the report
            if flow.rate_bps:
                made.setsockopt(socket.SOL_SOCKET, _SO_MAX_PACING_RATE, max(1, flow.rate_bps // 8))
            made.bind((flow.source, flow.source_port))
            made.setsockopt(socket.IPPROTO_TCP, TCP_NOTSENT_LOWAT, PIECE_BYTES)  # so it ends when its time does
            made.settimeout(1.0)
            made.connect((flow.target, flow.target_port))
        except OSError as error:
            made.close()
            self.error = str(error)
            if now_s > self._start_s + CONNECT_S:
                self.close()
            return False
        made.setblocking(False)
        self.error = ""
        self.socket = made
        self.started_ns = time.time_ns()
        self.flow_id = f"{flow_id(socket.IPPROTO_TCP, *_ends(made)):032x}"
        return True

    def push(self) -> None:
        """Give the socket what it takes now."""
        assert self.socket is not None, "open() comes first"
        try:
            most = min(PIECE_BYTES, self.flow.bytes_most - self.sent_bytes, FILE_BYTES - self._at)
            taken = os.sendfile(self.socket.fileno(), self._file, self._at, most)
        except BlockingIOError:
            return
        except OSError as error:
            self.error = str(error)
            self.close()
            return
        self.sent_bytes += taken
        self._at = (self._at + taken) % FILE_BYTES
        if self.sent_bytes >= self.flow.bytes_most:
            self.close()

    def expire(self, now_s: float) -> None:
        """Close when the time is over."""
        if not self.over and now_s >= self._end_s:
            self.close()

    def close(self) -> None:
        """The flow is over."""
        self.over = True
        self.ended_ns = time.time_ns()
        if self.socket is not None:
            self.retransmits = retransmits(self.socket)
            self.socket.close()

    def report(self) -> dict[str, Any]:
        """What it carried."""
        return {
            **asdict(self.flow), "sent_bytes": self.sent_bytes, "retransmits": self.retransmits,
            "started_ns": self.started_ns, "ended_ns": self.ended_ns, "flow": self.flow_id, "error": self.error,
        }  # fmt: skip


class Host:
    """The flows of one host, and its sink."""

    def __init__(self, flows: Sequence[BulkFlow], listen: Sequence[tuple[str, int]], congestion: str) -> None:
        self._selector = selectors.DefaultSelector()
        self._file = os.memfd_create("bulk")
        os.truncate(self._file, FILE_BYTES)
        self._scrap = memoryview(bytearray(TAKE_BYTES))
        self._senders = [_Sender(flow, self._file, time.monotonic(), congestion) for flow in flows]
        self._listeners = [_listening(address) for address in listen]
        for listener in self._listeners:
            self._selector.register(listener, selectors.EVENT_READ, self._accept)
        self._watched: set[_Sender] = set()
        self.received: dict[str, int] = {}  # by "address:port" of the sender
        self.stopping = False
        self._say_s = time.monotonic() + REPORT_S

    def run(self, seconds: float, announced: Announced, entity: str) -> None:
        """Until all flows are over (with a sink: until the time is over), or `stopping`."""
        end_s = time.monotonic() + seconds
        while not self.stopping and (now_s := time.monotonic()) < end_s:
            if not self._listeners and all(sender.over for sender in self._senders):
                break
            for sender in self._senders:
                if sender.due(now_s) and sender.open(now_s):
                    announced.tell([(f"flow:{sender.flow_id}", "owns", entity)])
                    assert sender.socket is not None, "it is connected"
                    self._selector.register(sender.socket, selectors.EVENT_WRITE, sender)
                    self._watched.add(sender)
                sender.expire(now_s)
            self._forget()
            self._say(now_s)
            for key, _ in self._selector.select(TURN_S):
                if isinstance(key.data, _Sender):
                    key.data.push()
                else:
                    key.data(key.fileobj)
            self._forget()

    def _say(self, now_s: float) -> None:
        if now_s >= self._say_s:
            self._say_s = now_s + REPORT_S
            print(json.dumps(self.report()), flush=True)

    def _forget(self) -> None:
        """Closed sockets leave the selector."""
        for sender in [each for each in self._watched if each.over]:
            self._watched.discard(sender)
            assert sender.socket is not None, "it was connected"
            self._selector.unregister(sender.socket)

    def _accept(self, listener: socket.socket) -> None:
        connection, source = listener.accept()
        connection.setblocking(False)
        name = f"{source[0]}:{source[1]}"
        self.received.setdefault(name, 0)
        self._selector.register(connection, selectors.EVENT_READ, lambda ready: self._discard(ready, name))

    def _discard(self, connection: socket.socket, name: str) -> None:
        try:
            taken = connection.recv_into(self._scrap, TAKE_BYTES, socket.MSG_TRUNC)
        except BlockingIOError:
            return
        except OSError:
            taken = 0
        self.received[name] += taken
        if not taken:
            self._selector.unregister(connection)
            connection.close()

    def report(self) -> dict[str, Any]:
        """What every flow carried, and what came from whom."""
        return {"flows": [sender.report() for sender in self._senders], "received": self.received}

    def close(self) -> None:
        """Close all."""
        for sender in self._senders:
            if not sender.over:
                sender.close()
        for key in list(self._selector.get_map().values()):
            if isinstance(key.fileobj, socket.socket):
                key.fileobj.close()
        self._selector.close()
        os.close(self._file)


def _listening(address: tuple[str, int]) -> socket.socket:
    try:
        made = socket.create_server(address, backlog=64)
    except OSError as error:
        raise WorldError(f"cannot listen on {address[0]}:{address[1]}: {error.strerror}") from error
    made.setblocking(False)
    return made


def _ends(connection: socket.socket) -> tuple[str, str, int, int]:
    local, remote = connection.getsockname()[:2], connection.getpeername()[:2]
    return local[0], remote[0], local[1], remote[1]


def parser() -> argparse.ArgumentParser:
    """The options."""
    made = argparse.ArgumentParser(prog="bulk.rank", description="TCP flows without content, and a sink for them.")
    made.add_argument("--flows", default="[]", help="JSON list, see BulkFlow")
    made.add_argument("--listen", type=_address, action="append", default=[], help="address:port of a sink; repeatable")
    made.add_argument("--seconds", type=float, default=60.0, help=f"of the sink, at most {SECONDS_MAX:g}")
    made.add_argument("--congestion", default="cubic", help="per socket; empty: the host's own")
    return made


def _address(text: str) -> tuple[str, int]:
    address, colon, port = text.rpartition(":")
    if not colon or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise argparse.ArgumentTypeError(f"expected address:port, got {text!r}")
    return address, int(port)


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code: 0 every flow ran, 1 one did not, 2 a wrong option."""
    options = parser().parse_args(arguments)
    member = member_from(os.environ)
    try:
        ring = open_ring(os.environ.get("LEADLINE_RING_DIR"), member, RECORDS, STRINGS_BYTES)
        host = Host(loaded(options.flows), options.listen, options.congestion)
    except LeadlineError as error:
        print(f"bulk_rank: {error}", file=sys.stderr, flush=True)
        return 1
    announced = Announced(ring)

    def stop(_number: int, _frame: FrameType | None) -> None:
        host.stopping = True

    signal.signal(signal.SIGTERM, stop)
    try:
        announced.tell(member.edges())
        host.run(min(options.seconds, SECONDS_MAX), announced, member.entity)
    finally:
        host.close()
        announced.end()
        if ring is not None:
            ring.close()
    report = host.report()
    print(json.dumps(report), flush=True)
    return 1 if any(flow["error"] for flow in report["flows"]) else 0


if __name__ == "__main__":
    sys.exit(main())
