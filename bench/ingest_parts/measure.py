"""One system, one round: all bodies sent, every sample counted back; time, CPU, memory and disk of its processes."""

from __future__ import annotations

import http.client
import threading
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Self

from bench.peers import Peer
from bench.remote_write_bodies import STEP_NS, Load, Shard

REST_S = 3.0  # at rest: less than REST_SHARE of a core for this long
REST_SHARE = 0.05
REST_S_MAX = 90.0
SEND_TRIES = 200
RETRY_S = 0.05
# The last scrape of a load that is not sent at its own pace: what is newer than 30 s VictoriaMetrics does not show.
AGO_NS = 60 * 10**9
_HEADERS = {
    "content-encoding": "snappy",
    "content-type": "application/x-protobuf",
    "x-prometheus-remote-write-version": "0.1.0",
    "user-agent": "bench",
}


@dataclass(frozen=True, slots=True)
class Run:
    """One system, one round."""

    samples: int
    seconds: float  # first body to last answer
    cpu_s: float  # first body to rest
    sending_cpu_s: float  # first body to last answer
    disk_bytes: int  # at rest
    settled_bytes: int | None  # of disk, minutes later; None if that was not waited for
    anonymous_bytes: int  # largest seen
    retries: int
    behind_s: float  # of a load with a pace: how late its latest body was begun

    @property
    def cpu_us(self) -> float:
        """Microseconds of CPU for a sample, until rest."""
        return self.cpu_s / self.samples * 1e6

    def told(self, name: str) -> str:
        """One line for who watches."""
        parts = [
            f"{self.samples / self.seconds:,.0f} samples/s",
            f"{self.cpu_us:.2f} us CPU a sample ({self.sending_cpu_s / self.samples * 1e6:.2f} while sending)",
            f"{self.disk_bytes / self.samples:.2f} bytes on disk a sample",
            f"{self.anonymous_bytes / 1e6:.0f} MB",
            f"{self.retries} bodies sent again",
        ]
        if self.settled_bytes is not None:
            parts.insert(3, f"{self.settled_bytes / self.samples:.2f} settled")
        if self.behind_s:
            parts.append(f"{self.behind_s:.1f} s behind its pace")
        return f"{name}: {', '.join(parts)}"


class Sending:
    """The bodies of a load: made once and kept, or (`streamed`) made while they are sent, for loads of gigabytes.

    `paced`: each scrape is sent at its own time, those of a connection together, the connections spread over the 15 s.
    Else all of it as fast as it is taken, with times that are over already; `begin_ns`: of the first scrape,
    where it is given.
    """

    def __init__(self, load: Load, *, streamed: bool = False, paced: bool = False, begin_ns: int | None = None) -> None:
        self.load = load
        self.paced = paced
        self._shards: list[Shard] = load.senders()
        ago_ns = AGO_NS + (load.steps - 1) * load.step_ns
        self._begin_ns = time.time_ns() - ago_ns if begin_ns is None else begin_ns
        made = [] if streamed or paced else [list(shard.bodies(self._begin_ns)) for shard in self._shards]
        self._made: list[list[tuple[int, bytes]]] = made

    def begin_ns(self) -> int:
        """The time of the first scrape, if it is sent now."""
        return time.time_ns() if self.paced else self._begin_ns

    def bodies(self, begin_ns: int) -> list[Iterable[tuple[int, bytes]]]:
        """(step, body) in turn, by connection."""
        return [*self._made] or [shard.bodies(begin_ns) for shard in self._shards]


def measure(peer: Peer, sending: Sending, *, rest: bool = True, settle: bool = True) -> Run:
    """Send all bodies to a freshly started system; let it come to rest, and its disk `settle`.

    Errors: RuntimeError if it refuses a body or does not have every sample afterwards.
    """
    samples = sending.load.samples
    peer.start()
    try:
        with _Peak(peer) as peak:
            cpu_before = peer.cpu_s()
            began = time.monotonic()
            retries, behind_s = send(peer, sending)
            seconds = time.monotonic() - began
            sending_cpu_s = peer.cpu_s() - cpu_before
            if rest:
                wait_for_rest(peer)
            cpu_s = peer.cpu_s() - cpu_before
        stored = peer.count()
        if stored != samples:
            raise RuntimeError(f"{peer.name} was sent {samples} samples and has {stored}")
        disk = peer.disk_bytes()
        settled = None
        if settle:
            peer.settle()
            settled = peer.disk_bytes()
        return Run(samples, seconds, cpu_s, sending_cpu_s, disk, settled, peak.bytes, retries, behind_s)
    finally:
        peer.stop()


def send(peer: Peer, sending: Sending) -> tuple[int, float]:
    """Send every body, one after the other on each connection.

    Returns: how many had to be sent again (429, 503), and how far the senders fell behind their pace, s.
    """
    begin_ns = sending.begin_ns()
    began = time.monotonic()
    by_connection = sending.bodies(begin_ns)
    step_s = STEP_NS / 1e9
    retries: list[int] = []
    behind: list[float] = [0.0]
    errors: list[str] = []

    def one(number: int, bodies: Iterable[tuple[int, bytes]]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=60)
        phase_s = step_s * number / len(by_connection)
        try:
            for step, body in bodies:
                if sending.paced:
                    wait_s = began + step * step_s + phase_s - time.monotonic()
                    behind.append(-wait_s)
                    time.sleep(max(0.0, wait_s))
                retries.append(_post(connection, peer.write_path, body))
                if errors:
                    return
        except (OSError, http.client.HTTPException, RuntimeError) as error:
            errors.append(f"{type(error).__name__}: {error}")
        finally:
            connection.close()

    senders = [threading.Thread(target=one, args=each) for each in enumerate(by_connection)]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if errors:
        raise RuntimeError(f"{peer.name} did not take a body: {errors[0]}")
    return sum(retries), max(behind)


def _post(connection: http.client.HTTPConnection, path: str, body: bytes) -> int:
    """Send one body until it is taken; returns how often it was sent again. Errors: RuntimeError, OSError."""
    for tried in range(SEND_TRIES):
        connection.request("POST", path, body, _HEADERS)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status < 300:
            return tried
        if answer.status not in (429, 503):
            break
        time.sleep(RETRY_S)
    raise RuntimeError(f"status {answer.status}: {text[:300]!r}")


class _Peak:
    """Largest private memory of a system, looked at five times a second, at the start and at the end.

    A small run is over before the first of five looks a second: without the two it has no value.
    """

    def __init__(self, peer: Peer) -> None:
        self._peer = peer
        self._over = threading.Event()
        self.bytes = peer.anonymous_bytes()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._over.wait(0.2):
            self.bytes = max(self.bytes, self._peer.anonymous_bytes())

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """Look no more; the system still runs."""
        self._over.set()
        self._thread.join()
        self.bytes = max(self.bytes, self._peer.anonymous_bytes())


def wait_for_rest(peer: Peer, s_max: float = REST_S_MAX) -> None:
    """Wait until the system has been at rest for REST_S, `s_max` seconds at most."""
    until = time.monotonic() + s_max
    quiet_since = time.monotonic()
    before = peer.cpu_s()
    while time.monotonic() < until and time.monotonic() - quiet_since < REST_S:
        time.sleep(0.5)
        now = peer.cpu_s()
        if (now - before) / 0.5 > REST_SHARE:
            quiet_since = time.monotonic()
        before = now
