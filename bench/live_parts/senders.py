"""Sends a schedule at its pace, as many senders would: a connection for each, pages that are scraped, datagrams.

    python -m bench.live_parts.senders FOLDER --port P --otlp-port P --sflow-port P

Prints one JSON object at the end: requests, answers by status, how late bodies were sent, how long answers took.
What is not taken is kept and tried again as by an agent (`leadline.host.delivery`): while a lane of a host fails, one
request of it at a time, after a wait that doubles up to 10 s. Of watermarks only the newest is kept. What is not taken
by the end is counted.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import mmap
import os
import random
import re
import resource
import socket
import sys
import time
from collections import Counter, defaultdict
from ipaddress import IPv4Address
from pathlib import Path
from typing import Any

import numpy as np

from bench.live_parts.schedule import HTTP, PATHS, UDP, WATERMARKS
from leadline.host.delivery import Delivery, Outcome, Verdict, judge

ANSWER_S_MAX = 30.0  # as agent.timeout_s
WAIT_S_MAX = 10.0  # as agent.retry_s_max
# The lanes of an agent, and how many requests of each are in flight while all goes well; Prometheus has shards.
LANES = {
    "/api/v1/ring": ("ring", 8), "/v1/metrics": ("metrics", 1), "/api/v1/rows/relation": ("urgent", 1),
    "/api/v1/rows/edge_fit": ("metrics", 1), "/api/v1/rows/probe_hop": ("metrics", 1),
    WATERMARKS: ("watermark", 1), "/api/v1/write": ("write", 4),
}  # fmt: skip
_LENGTH = re.compile(rb"content-length: *(\d+)")
_REPORTED = re.compile(rb'"reported_ns": ?\d+')
_RETRY = re.compile(rb"retry-after: *(\d+)")


class Lane:
    """One lane of one sender."""

    def __init__(self, in_flight: int) -> None:
        self.state = Delivery()
        self.free = asyncio.Semaphore(in_flight)
        self.probing = asyncio.Lock()  # while it fails
        self.not_before = 0.0  # monotonic
        self.newest = 0  # number of the last body
        self.took_ns = 0  # by the last request


class Connection(asyncio.Protocol):
    """One HTTP/1.1 connection with one request at a time."""

    def __init__(self) -> None:
        self.transport: asyncio.Transport | None = None
        self._buffer = bytearray()
        self._answer: asyncio.Future[tuple[int, float]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport  # type: ignore[assignment]

    def connection_lost(self, error: Exception | None) -> None:
        self.transport = None
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(error or ConnectionResetError())

    def data_received(self, data: bytes) -> None:
        self._buffer += data
        end = self._buffer.find(b"\r\n\r\n")
        if end < 0 or self._answer is None:
            return
        head = bytes(self._buffer[:end]).lower()
        found = _LENGTH.search(head)
        size = int(found[1]) if found else 0
        if len(self._buffer) >= end + 4 + size:
            del self._buffer[: end + 4 + size]
            if not self._answer.done():
                asked = _RETRY.search(head)
                self._answer.set_result((int(head[9:12]), float(asked[1]) if asked else 0.0))

    def close(self) -> None:
        """Nothing is waited for any more."""
        if self.transport is not None:
            self.transport.abort()

    async def post(self, head: bytes, body: memoryview) -> tuple[int, float]:
        """Send one request; returns the status, and what Retry-After says. Errors: OSError, TimeoutError."""
        if self.transport is None:
            raise ConnectionResetError
        self._answer = asyncio.get_running_loop().create_future()
        self.transport.writelines((head, body))
        return await asyncio.wait_for(self._answer, ANSWER_S_MAX)


class Senders:
    """All senders of one schedule."""

    def __init__(self, folder: Path, port: int, otlp_port: int, sflow_port: int) -> None:
        self._index = np.load(folder / "index.npy")
        with (folder / "bodies").open("rb") as file:
            self._bodies = memoryview(mmap.mmap(file.fileno(), 0, prot=mmap.PROT_READ))
        told = json.loads((folder / "told.json").read_text())
        self._targets = told["targets"]
        self._ports = {path: otlp_port if path.startswith("/v1/") else port for path in PATHS}
        self._udp = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        self._udp.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, 4 << 20)
        self._to = ("127.0.0.1", sflow_port)
        self._idle: dict[tuple[int, int], list[Connection]] = defaultdict(list)
        self._pages: dict[str, bytes] = {}
        self.status: Counter[str] = Counter()
        self._lanes: dict[tuple[int, str], Lane] = {}
        self._chance = random.Random(1)
        self.lost = 0  # bodies that were never taken
        self.superseded = 0  # watermarks that waited until there was a newer one
        self.datagrams = 0  # sent
        self.late_ms: list[float] = []
        self.took_ms: list[float] = []
        self._open: set[asyncio.Task[None]] = set()

    async def run(self) -> dict[str, Any]:
        """Send it all."""
        servers = await self._serve()
        last: dict[int, asyncio.Task[None]] = {}
        for due_ns, at, size, who, path, how, after in self._index.tolist():
            now_ns = time.time_ns()
            if due_ns > now_ns:
                await asyncio.sleep((due_ns - now_ns) / 1e9)
            body = self._bodies[at : at + size]
            if how == UDP:
                self._udp.sendto(body, self._to)
                self.datagrams += 1
                continue
            if how != HTTP:
                self._pages[self._targets[who]] = bytes(body)
                continue
            self.late_ms.append(max(0.0, (time.time_ns() - due_ns) / 1e6))
            task = asyncio.create_task(self._send(who, list(PATHS)[path], body, last.get(who) if after else None))
            last[who] = task
            self._open.add(task)
            task.add_done_callback(self._open.discard)
        if self._open:
            await asyncio.wait(set(self._open), timeout=ANSWER_S_MAX)
        for server in servers:
            server.close()
        late, took = np.array(self.late_ms or [0.0]), np.array(self.took_ms or [0.0])
        used = resource.getrusage(resource.RUSAGE_SELF)
        return {
            "status": dict(self.status), "late_ms_p99": float(np.percentile(late, 99)),
            "answer_ms_p50": float(np.median(took)), "answer_ms_p99": float(np.percentile(took, 99)),
            "lost": self.lost + len(self._open), "superseded": self.superseded, "datagrams": self.datagrams,
            "cpu_s": used.ru_utime + used.ru_stime,
        }  # fmt: skip

    async def _send(self, who: int, path: str, body: memoryview, after: asyncio.Task[None] | None) -> None:
        if after is not None and not after.done():
            await asyncio.wait((after,))
        head = (
            f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nUser-Agent: leadline-agent/0.1.0\r\n"
            f"Content-Type: {PATHS[path]}\r\nContent-Length: {len(body)}\r\n"
        )
        if path == "/api/v1/write":
            head += "Content-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n"
        else:
            head += f"Leadline-Batch: {os.urandom(16).hex()}\r\n"
        began = time.monotonic()
        name, in_flight = LANES[path]
        lane = self._lanes.setdefault((who, name), Lane(in_flight))
        lane.newest += 1
        mine, verdict = lane.newest, Verdict.AGAIN
        async with lane.free:
            while verdict is Verdict.AGAIN:
                if path == WATERMARKS and mine != lane.newest:
                    self.superseded += 1
                    return
                verdict = await self._in_turn(lane, who, path, (head + "\r\n").encode(), body)
        self.lost += verdict is Verdict.POISON
        self.took_ms.append((time.monotonic() - began) * 1e3)

    async def _in_turn(self, lane: Lane, who: int, path: str, head: bytes, body: memoryview) -> Verdict:
        """One try; while the lane fails, alone and not too soon."""
        if not lane.state.failures:
            return await self._judged(lane, who, path, head, body)
        async with lane.probing:
            await asyncio.sleep(max(0.0, lane.not_before - time.monotonic()) if lane.state.failures else 0)
            return await self._judged(lane, who, path, head, body)

    async def _judged(self, lane: Lane, who: int, path: str, head: bytes, body: memoryview) -> Verdict:
        failures, began_ns = lane.state.failures, time.monotonic_ns()
        if path == WATERMARKS:
            head, body = _reported_now(head, body, lane.took_ns)
        status, retry_s = await self._try(who, self._ports[path], head, body)
        lane.took_ns = time.monotonic_ns() - began_ns
        self.status[f"{path} {status}"] += 1
        after, verdict = judge(lane.state, Outcome(status, "", retry_s), WAIT_S_MAX, self._chance.random())
        if verdict is not Verdict.AGAIN or failures == lane.state.failures:  # what fails together is one failure
            lane.state, lane.not_before = after, time.monotonic() + after.wait_s
        return verdict

    async def _try(self, who: int, port: int, head: bytes, body: memoryview) -> tuple[int, float]:
        idle = self._idle[who, port]
        connection = idle.pop() if idle else None
        try:
            if connection is None or connection.transport is None:
                loop = asyncio.get_running_loop()
                _, connection = await loop.create_connection(Connection, "127.0.0.1", port)
            answered = await connection.post(head, body)
        except OSError:  # a time-out among them
            if connection is not None:
                connection.close()
            return 0, 0.0
        idle.append(connection)
        return answered

    async def _serve(self) -> list[asyncio.Server]:
        """The pages of all targets, each at its own address of loopback."""
        servers = []
        for target in self._targets:
            address, _, port = target.partition(":")
            servers.append(await asyncio.start_server(self._page, str(IPv4Address(address)), int(port)))
        return servers

    async def _page(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        name = "{}:{}".format(*writer.get_extra_info("sockname")[:2])
        try:
            while await reader.readuntil(b"\r\n\r\n"):
                page = self._pages.get(name, b"")
                head = (
                    f"HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\nContent-Length: {len(page)}\r\n\r\n"
                )
                writer.write(head.encode() + page)
                await writer.drain()
        except (asyncio.IncompleteReadError, asyncio.CancelledError, ConnectionError):
            return  # whoever scraped is gone, or all is over
        finally:
            writer.close()


def _reported_now(head: bytes, body: memoryview, took_ns: int) -> tuple[bytes, memoryview]:
    """A watermark as it is said at this moment."""
    now = b'"took_ns":%d,"reported_ns":%d' % (took_ns, time.time_ns())
    told = _REPORTED.sub(now, bytes(body))
    return re.sub(rb"Content-Length: \d+", b"Content-Length: %d" % len(told), head), memoryview(told)


def main() -> int:
    """Send and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("folder", type=Path)
    for name in ("--port", "--otlp-port", "--sflow-port"):
        parser.add_argument(name, type=int, required=True)
    asked = parser.parse_args()
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    senders = Senders(asked.folder, asked.port, asked.otlp_port, asked.sflow_port)
    print(json.dumps(asyncio.run(senders.run())), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
