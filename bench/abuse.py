"""Hostile neighbours beside honest senders: what those lose, how long they wait, how much memory it takes.

    python -m bench.abuse [--seconds 20] [--only bombs,idle] [--json]

A real `leadline up`; honest senders on 127.0.0.1 write samples and events and ask questions all the time, each again
until it is taken. Beside them, one after the other, each from 127.0.0.2 and in a process of its own:

    bombs    bodies of 130 kB that stand for 127 MB (zeros, line feeds, numbers, rows that are good): whole ones, and
             ones whose last bytes never come
    grpc     the same over gRPC
    idle     connections that say nothing, half a header, half a body; made again as they are closed
    headers  headers, and chunked trailers, without end
    udp      datagrams of sFlow: good, cut, empty, garbage
    sql      questions that take for ever (bracket depth 40 in a type; editDistance over long texts)

After each the bench waits until the honest are served as before. At the end the server is stopped and every sample and
event that was acknowledged is looked for in its store.
"""

from __future__ import annotations

import argparse
import contextlib
import gzip
import http.client
import json
import os
import random
import resource
import socket
import struct
import subprocess
import sys
import tempfile
import threading
import time
import zlib
from collections import Counter as Tally
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import cramjam

from bench.figures import Figure, conditions, tell
from bench.peers import Leadline, anonymous_bytes, free_port
from leadline.host.bound import bound_to_parent
from leadline.model.ids import canonical_labels
from leadline.store import Store, StoreConfig
from leadline.wire.sflow.encode import Agent, InterfaceCounters, counter_sample, interface_counters

ROOT = Path(__file__).parents[1]
ATTACKER = "127.0.0.2"
EVERY_S = 0.2  # between two requests of one honest sender: 20 a second in all
WRITERS, ASKERS = 4, 1
TIMES = 50  # samples of a body
GIVE_UP_S = 60.0  # what was not taken in this time is lost: an agent's spool holds longer, a scrape does not
GOOD_S = 1.0  # answered like this is served as before
GOOD_IN_A_ROW = 3  # of every honest sender
RECOVER_S_MAX = 60.0
TARGETS = {"honest_lost": 0.0, "private_mb_peak": 1500.0, "answer_p99_s": 1.0, "recovered_s": 10.0}


# --- the honest ----------------------------------------------------------------------------------------------


@dataclass
class Honest:
    """All honest senders and what became of their requests."""

    port: int
    seed: int
    answers: list[tuple[float, float, str]] = field(default_factory=list)  # (when, seconds to success, what)
    events: set[str] = field(default_factory=set)  # codes acknowledged
    samples: int = 0  # acknowledged
    given_up: int = 0  # samples and events
    statuses: Tally[int] = field(default_factory=Tally)  # of all tries; 0 for one without an answer
    good: dict[str, int] = field(default_factory=dict)  # in a row, by sender
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _stop: threading.Event = field(default_factory=threading.Event)
    _threads: list[threading.Thread] = field(default_factory=list)

    def start(self) -> None:
        for number in range(WRITERS + ASKERS):
            thread = threading.Thread(target=self._run, args=(number,), daemon=True)
            self._threads.append(thread)
            thread.start()

    def stop(self) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(GIVE_UP_S + 40)

    def recovered(self, since: float) -> float | None:
        """Seconds from `since` until all are served as before, None if that is not so yet."""
        with self._lock:
            if len(self.good) < WRITERS + ASKERS or min(self.good.values()) < GOOD_IN_A_ROW:
                return None
        return time.monotonic() - since

    def trouble(self) -> None:
        """What was good so far does not count."""
        with self._lock:
            self.good = dict.fromkeys(self.good, 0)

    def _run(self, number: int) -> None:
        client = _Client(self.port)
        turn = 0
        while not self._stop.is_set():
            began = time.monotonic()
            turn += 1
            kind = "ask" if number >= WRITERS else ("event", "sample")[number % 2]
            taken = getattr(self, f"_{kind}")(client, number, turn)
            took = time.monotonic() - began
            with self._lock:
                self.answers.append((began, took, kind))
                name = f"{kind}{number}"
                self.good[name] = self.good.get(name, 0) + 1 if taken and took < GOOD_S else 0
            self._stop.wait(max(0.0, EVERY_S - took))
        client.close()

    def _until_taken(self, client: _Client, path: str, body: bytes | None, headers: dict[str, str]) -> bool:
        end = time.monotonic() + GIVE_UP_S
        wait_s = 0.05
        while time.monotonic() < end:
            status = client.call(path, body, headers)
            with self._lock:
                self.statuses[status] += 1
            if 200 <= status < 300:
                return True
            time.sleep(wait_s)
            wait_s = min(1.0, 2 * wait_s)
        return False

    def _event(self, client: _Client, number: int, turn: int) -> bool:
        code = f"{self.seed}-{number}-{turn}"
        row = {
            "time_ns": time.time_ns(), "entity_kind": "host", "entity": f"host:honest{number}", "kind": "bench",
            "severity": "info", "code": code, "message": "", "attributes": {}, "source": "bench",
        }  # fmt: skip
        headers = {"content-type": "application/x-ndjson"}
        taken = self._until_taken(client, "/api/v1/rows/event", json.dumps(row).encode(), headers)
        with self._lock:
            self.events |= {code} if taken else set()
            self.given_up += not taken
        return taken

    def _sample(self, client: _Client, number: int, turn: int) -> bool:
        labels = canonical_labels({"__name__": "honest_value", "job": "honest", "sender": f"{number}"})
        body = remote_write(labels, time.time_ns() // 10**6 - TIMES, TIMES)
        headers = {"content-type": "application/x-protobuf", "content-encoding": "snappy"}
        taken = self._until_taken(client, "/api/v1/write", body, headers)
        with self._lock:
            self.samples += TIMES if taken else 0
            self.given_up += 0 if taken else TIMES
        return taken

    def _ask(self, client: _Client, number: int, turn: int) -> bool:
        questions: tuple[tuple[str, bytes | None], ...] = (
            ("/health", None),
            ("/api/v1/tables/event?limit=10", None),
            ("/api/v1/sql", b'{"sql": "SELECT count() FROM event"}'),
        )
        path, body = questions[turn % len(questions)]
        return self._until_taken(client, path, body, {"content-type": "application/json"})


class _Client:
    """One kept connection, made again when it breaks."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._connection: http.client.HTTPConnection | None = None

    def call(self, path: str, body: bytes | None, headers: dict[str, str]) -> int:
        """The status of the answer; 0 without one."""
        try:
            if self._connection is None:
                self._connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
            self._connection.request("GET" if body is None else "POST", path, body, headers)
            answer = self._connection.getresponse()
            answer.read()
            return answer.status
        except (OSError, http.client.HTTPException):
            self.close()
            return 0

    def close(self) -> None:
        if self._connection is not None:
            self._connection.close()
        self._connection = None


def remote_write(labels: bytes, first_ms: int, count: int) -> bytes:
    """A body of one stream with a sample in each of `count` milliseconds."""
    samples = b""
    for number in range(count):
        sample = b"\x09" + struct.pack("<d", float(number)) + b"\x10" + _varint(first_ms + number)
        samples += b"\x12" + _varint(len(sample)) + sample
    stream = labels + samples
    return bytes(cramjam.snappy.compress_raw(b"\x0a" + _varint(len(stream)) + stream))


def _varint(value: int) -> bytes:
    out = bytearray()
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes(out) + bytes([value])


# --- the others, each in a process of its own --------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Target:
    """What is attacked, and how hard."""

    port: int
    grpc_port: int
    udp_port: int
    seconds: float
    connections: int


BOMB_BYTES = 127 << 20


def _connect(target: Target, timeout_s: float = 10.0) -> socket.socket:
    return socket.create_connection(("127.0.0.1", target.port), timeout_s, source_address=(ATTACKER, 0))


def _post(path: str, encoding: str, content_type: str, length: int) -> bytes:
    return (
        f"POST {path} HTTP/1.1\r\nhost: localhost\r\ncontent-type: {content_type}\r\n"
        f"content-encoding: {encoding}\r\ncontent-length: {length}\r\n\r\n"
    ).encode()


def bombs(target: Target) -> None:
    """40 bodies held at their last bytes, and whole ones from twelve connections."""
    packed = gzip.compress(bytes(BOMB_BYTES), 9)
    row = {
        "child": "a", "parent": "b", "kind": "in", "from_ns": time.time_ns(), "source": "mallory", "confidence": 1.0
    }  # fmt: skip
    alike = (json.dumps(row).encode() + b"\n") * (BOMB_BYTES // 100)
    good = zlib.compress(alike, 9)
    numbers = zlib.compress(b"[" + b"1," * (BOMB_BYTES // 2) + b"1]", 9)
    feeds = zlib.compress(b"\n" * BOMB_BYTES, 9)
    zstd = bytes(cramjam.zstd.compress(bytes(BOMB_BYTES)))
    rows, metrics = "application/x-ndjson", "application/x-protobuf"
    whole = [
        _post("/v1/metrics", "gzip", metrics, len(packed)) + packed,
        _post("/api/v1/rows/event", "deflate", rows, len(feeds)) + feeds,
        _post("/v1/logs", "zstd", metrics, len(zstd)) + zstd,
        _post("/api/v1/rows/event", "deflate", "application/json", len(numbers)) + numbers,
        _post("/api/v1/rows/relation", "deflate", rows, len(good)) + good,
        _post("/api/v1/write", "snappy", metrics, 5) + b"\xff\xff\xff\xff\x0f",
    ]

    def unfinished() -> None:
        head = _post("/api/v1/rows/event", "gzip", rows, len(packed))
        while True:
            with _connect(target, 600) as made:
                made.sendall(head + packed[:-100])
                made.recv(1)  # until it is closed

    def finished(number: int) -> None:
        while True:
            with _connect(target, 60) as made:
                made.sendall(whole[number % len(whole)])
                made.recv(4096)

    _all([unfinished] * 40 + [partial(finished, number) for number in range(12)], target.seconds)


def grpc(target: Target) -> None:
    """Messages of 126 kB that stand for 127 MB."""
    import grpc as client

    method = "/opentelemetry.proto.collector.metrics.v1.MetricsService/Export"
    # One unknown field of BOMB_BYTES zeros: well-formed, and nothing of it is kept.
    body = b"\x7a" + _varint(BOMB_BYTES) + bytes(BOMB_BYTES)

    def send() -> None:
        with client.insecure_channel(f"127.0.0.1:{target.grpc_port}") as channel:
            call = channel.unary_unary(method, None, None)
            while True:
                with contextlib.suppress(client.RpcError):
                    call(body, timeout=60, compression=client.Compression.Gzip)

    _all([send] * 4, target.seconds)


def idle(target: Target) -> None:
    """Connections with nothing, half a header or half a body."""
    halves = (b"", b"GET / HTTP/1.1\r\nhost: localhost\r\n", _post("/api/v1/rows/event", "", "text/csv", 99) + b"half")
    held: list[socket.socket] = []
    print("begun", flush=True)
    end = time.monotonic() + target.seconds
    while time.monotonic() < end:
        for _ in range(100):
            if len(held) < target.connections:
                try:
                    made = _connect(target, 1.0)
                    made.sendall(random.choice(halves))
                    held.append(made)
                except OSError:
                    break
        for each in list(held):
            each.setblocking(False)
            try:
                if not each.recv(4096):
                    raise ConnectionResetError
            except BlockingIOError:
                continue
            except OSError:
                each.close()
                held.remove(each)
        time.sleep(0.05)


def headers(target: Target) -> None:
    """A header of which no end comes, and a trailer."""
    starts = (
        b"GET / HTTP/1.1\r\nhost: localhost\r\n",
        b"POST /api/v1/rows/event HTTP/1.1\r\nhost: localhost\r\ntransfer-encoding: chunked\r\n\r\n1\r\n \r\n0\r\n",
    )
    line = b"x: " + b"a" * 65_000 + b"\r\n"

    def send(number: int) -> None:
        while True:
            with _connect(target) as made:
                made.sendall(starts[number % 2])
                while True:
                    made.sendall(line)

    _all([partial(send, number) for number in range(8)], target.seconds)


def udp(target: Target) -> None:
    """sFlow as fast as a core sends it."""
    counters = InterfaceCounters(1, 6, 10**11, 1, 3, *[7] * (len(InterfaceCounters.__dataclass_fields__) - 5))
    switch = Agent("10.9.9.9")
    switch.add(counter_sample(1, 1, [interface_counters(counters)]), 1000)
    good = switch.flush(1000) or b""
    sent = (good, good[: len(good) // 2], b"", os.urandom(1400))
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as made:
        made.bind((ATTACKER, 0))
        print("begun", flush=True)
        end = time.monotonic() + target.seconds
        while time.monotonic() < end:
            for _ in range(250):
                for each in sent:
                    with contextlib.suppress(OSError):  # nobody listens for a moment
                        made.sendto(each, ("127.0.0.1", target.udp_port))


def sql(target: Target) -> None:
    """Questions that take for ever: 17 of the parser (robustness audit, M1), and functions without a limit (M8)."""
    depth = 40
    types = "SELECT 1::" + "Tuple(" * depth + "Int8" + ")" * depth
    distance = (
        "SELECT sum(editDistance(repeat('a', 30000), repeat(code, 30000))) FROM (SELECT code FROM event LIMIT 12)"
    )

    def ask(question: str) -> None:
        body = json.dumps({"sql": question}).encode()
        head = {"content-type": "application/json", "leadline-tenant": "mallory", "leadline-role": "tenant-read"}
        while True:
            connection = http.client.HTTPConnection(
                "127.0.0.1", target.port, timeout=target.seconds, source_address=(ATTACKER, 0)
            )
            connection.request("POST", "/api/v1/sql", body, head)
            connection.getresponse().read()
            connection.close()

    _all([lambda: ask(distance)] * 4 + [lambda: ask(types)] * 17, target.seconds)


ATTACKS: dict[str, Callable[[Target], None]] = {
    each.__name__: each for each in (bombs, grpc, idle, headers, udp, sql)
}  # `sql` last: what it holds is not let go


def _all(work: list[Callable[[], None]], seconds: float) -> None:
    """Do all of it at once, each again when it fails, for so long; then the process ends under its threads."""
    print("begun", flush=True)

    def again(each: Callable[[], None]) -> None:
        while True:
            try:
                each()
            except (OSError, http.client.HTTPException):
                time.sleep(0.05)

    for each in work:
        threading.Thread(target=again, args=(each,), daemon=True).start()
    time.sleep(seconds)


# --- the run -------------------------------------------------------------------------------------------------


@dataclass
class Told:
    """What the run found."""

    lost: int
    given_up: int
    acknowledged: int
    peak_bytes: dict[str, int]
    p99_s: dict[str, float]
    recovered_s: dict[str, float]
    honest_requests: int
    statuses: dict[int, int]
    refused: list[dict[str, Any]]


def server(root: Path, port: int, grpc_port: int, udp_port: int) -> Leadline:
    """`leadline up` with its data under `root`, as everybody has it but for the ports and sFlow of anybody."""
    sections = {
        "server": {"port": port, "otlp_http_port": free_port(), "otlp_grpc_port": grpc_port},
        "store": {"path": str(root / "store")},
        "ingest": {"sflow": {"port": udp_port, "accept_unknown": True}},
    }
    (root / "leadline.yaml").write_text(json.dumps(sections))  # JSON is YAML
    command = [sys.executable, "-m", "leadline.cli.main", "up", "-c", str(root / "leadline.yaml")]
    return Leadline("leadline", command, port, "/api/v1/write", "/ready", root)


def run(names: list[str], seconds: float, connections: int, seed: int, first_port: int) -> Told:
    """Attack with each of `names` for `seconds`."""
    port, grpc_port, udp_port = range(first_port, first_port + 3) if first_port else (free_port() for _ in range(3))
    with tempfile.TemporaryDirectory(prefix="leadline-abuse-") as folder:
        peer = server(Path(folder), port, grpc_port, udp_port)
        peer.start()
        honest = Honest(port, seed)
        peak: dict[str, int] = {}
        recovered: dict[str, float] = {}
        began: dict[str, float] = {}
        memory = _Memory(_server_pid(peer))
        try:
            honest.start()
            _recovery(honest)  # its start, which compiles and warms up, is nobody's attack
            honest.answers.clear()
            began["calm"] = time.monotonic()
            time.sleep(min(seconds, 10.0))
            peak["calm"] = memory.peak()
            for name in names:
                began[name] = _attack(name, Target(port, grpc_port, udp_port, seconds, connections))
                recovered[name] = _recovery(honest)
                peak[name] = memory.peak()
                print(
                    f"{name}: {peak[name] / 1e6:.0f} MB, back in {recovered[name]:.1f} s", file=sys.stderr, flush=True
                )
            refused = _refused(port)
        finally:
            honest.stop()
            memory.stop()
            peer.stop()
        lost = _lost(Path(folder) / "store", honest)
    p99 = {"all": _p99([took for _, took, _ in honest.answers])}
    starts = sorted(began.items(), key=lambda each: each[1])
    for (name, start), (_, end) in zip(starts, [*starts[1:], ("", float("inf"))], strict=True):
        p99[name] = _p99([took for at, took, _ in honest.answers if start <= at < end])
    total = honest.samples + len(honest.events)
    return Told(lost, honest.given_up, total, peak, p99, recovered, len(honest.answers), dict(honest.statuses), refused)


def _attack(name: str, target: Target) -> float:
    """Attack, and return when it began, by the monotonic clock."""
    command = [sys.executable, "-m", "bench.abuse", "--attack", name, "--target", json.dumps(
        [target.port, target.grpc_port, target.udp_port, target.seconds, target.connections]
    )]  # fmt: skip
    process = subprocess.Popen(bound_to_parent(command), cwd=ROOT, stdout=subprocess.PIPE)
    assert process.stdout
    try:
        process.stdout.readline()  # "begun": what it needs is made, and its time runs
        began = time.monotonic()
        process.wait(target.seconds + 30)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
    finally:
        process.stdout.close()
    return began


def _recovery(honest: Honest) -> float:
    """Seconds until the honest are served as before; RECOVER_S_MAX if they are not by then."""
    honest.trouble()
    since = time.monotonic()
    while time.monotonic() - since < RECOVER_S_MAX:
        found = honest.recovered(since)
        if found is not None:
            # What is needed to say so, three requests of each, is no part of it.
            return max(0.0, found - GOOD_IN_A_ROW * EVERY_S)
        time.sleep(0.05)
    return RECOVER_S_MAX


def _server_pid(peer: Leadline) -> int:
    connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=10)
    connection.request("GET", "/ready")
    pid: int = json.load(connection.getresponse())["pid"]
    connection.close()
    return pid


def _refused(port: int) -> list[dict[str, Any]]:
    """What Leadline says of it: counters, reasons and amounts."""
    try:
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
        connection.request("GET", "/api/v1/doctor")
        told = json.load(connection.getresponse()).get("refused", [])
        connection.close()
        return [{name: each[name] for name in ("counter", "reason", "amount")} for each in told]
    except (OSError, ValueError, http.client.HTTPException):
        return []


class _Memory:
    """Largest private memory of a process since it was asked last."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._peak = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._look, daemon=True)
        self._thread.start()

    def peak(self) -> int:
        found, self._peak = self._peak, 0
        return found

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()

    def _look(self) -> None:
        while not self._stop.wait(0.2):
            self._peak = max(self._peak, anonymous_bytes(self._pid))


def _lost(path: Path, honest: Honest) -> int:
    """Samples and events that were acknowledged and are not in the store."""
    store = Store(StoreConfig(path=str(path)))
    store.start()
    try:
        found = store.query("SELECT DISTINCT code FROM leadline.event WHERE source = 'bench'")
        events = honest.events - set(found["code"].to_pylist())
        sql = (
            "SELECT count() AS n FROM (SELECT DISTINCT series, time_ns FROM leadline.metric_sample WHERE series IN "
            "(SELECT series FROM leadline.series WHERE name = 'honest_value'))"
        )
        return len(events) + max(0, honest.samples - int(store.query(sql)["n"][0].as_py()))
    finally:
        store.stop()


def _p99(seconds: list[float]) -> float:
    return sorted(seconds)[int(0.99 * (len(seconds) - 1))] if seconds else 0.0


def figures(told: Told) -> list[Figure]:
    """The four that have targets, then what they consist of."""
    found = [
        Figure("honest_lost", told.lost + told.given_up, "rows", TARGETS["honest_lost"], "lower"),
        Figure("private_mb_peak", max(told.peak_bytes.values()) / 1e6, "MB", TARGETS["private_mb_peak"], "lower"),
        Figure("answer_p99_s", told.p99_s["all"], "s", TARGETS["answer_p99_s"], "lower"),
        Figure("recovered_s", max(told.recovered_s.values(), default=0.0), "s", TARGETS["recovered_s"], "lower"),
        Figure("acknowledged", told.acknowledged, "rows"),
        Figure("acknowledged_lost", told.lost, "rows", None, "lower"),
        Figure("honest_given_up", told.given_up, "rows", None, "lower"),
        Figure("honest_requests", told.honest_requests, "requests"),
    ]
    for name in told.peak_bytes:
        found.append(Figure(f"private_mb_peak_{name}", told.peak_bytes[name] / 1e6, "MB", None, "lower"))
        found.append(Figure(f"answer_p99_s_{name}", told.p99_s[name], "s", None, "lower"))
        if name in told.recovered_s:
            found.append(Figure(f"recovered_s_{name}", told.recovered_s[name], "s", None, "lower"))
    return found


def main() -> int:
    """Run the benchmark and print its figures; 1 if something acknowledged was lost."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--seconds", type=float, default=20.0, help="of each attack")
    parser.add_argument("--connections", type=int, default=2000, help="held at once by `idle`")
    parser.add_argument("--only", default="", help=f"of {','.join(ATTACKS)}")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--port", type=int, default=0, help="first of three ports of the server; free ones by default")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--attack", default="", help=argparse.SUPPRESS)
    parser.add_argument("--target", default="", help=argparse.SUPPRESS)
    given = parser.parse_args()
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    if given.attack:
        ATTACKS[given.attack](Target(*json.loads(given.target)))
        sys.stdout.flush()
        os._exit(0)  # its threads hold connections that nobody ends
    names = given.only.split(",") if given.only else list(ATTACKS)
    under = conditions(given.seed, attack_s=given.seconds, connections=given.connections, attacks=",".join(names))
    told = run(names, given.seconds, given.connections, given.seed, given.port)
    tell(
        "abuse",
        {**under, "files_soft": soft, "answers": told.statuses, "refused": told.refused},
        figures(told),
        given.json,
    )
    return 1 if told.lost else 0


if __name__ == "__main__":
    sys.exit(main())
