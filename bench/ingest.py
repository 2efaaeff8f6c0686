"""Remote-write over HTTP into Leadline, Prometheus and VictoriaMetrics: throughput, CPU, disk, memory.

The same bodies go to each system, which runs alone on the machine with an empty data directory; the systems take turns.
The bodies are made once, as Prometheus' queue sends them when it catches up after an outage: 50 shards (it starts up to
200 then), each with its own streams in the order they were scraped. A run counts only if every sample can be read back.
CPU is that of all processes of the system, from the first body until it has come to rest; what a system does minutes
later (our last merge of a partition at rest) is not in it, only in the disk, which is read when it has settled.

    python -m bench.ingest [--json] [--rounds 3] [--quick] [--only leadline]
"""

from __future__ import annotations

import argparse
import http.client
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from bench.figures import Figure, conditions, tell
from bench.peers import Peer, leadline, prometheus, victoriametrics
from bench.remote_write_bodies import Bodies, make_bodies

REST_S = 3.0  # at rest: less than REST_SHARE of a core for this long
REST_SHARE = 0.05
REST_S_MAX = 90.0
SEND_TRIES = 200
GOALS = {
    "samples_per_second": 1_000_000.0,
    "cpu_ratio_victoriametrics": 2.0,
    "cpu_ratio_prometheus": 5.0,
    "disk_ratio_victoriametrics": 1.0,
}


@dataclass(frozen=True, slots=True)
class Run:
    """One system, one round."""

    seconds: float  # first body to last answer
    cpu_s: float  # first body to rest
    sending_cpu_s: float  # first body to last answer
    disk_bytes: int
    anonymous_bytes: int  # largest seen
    retries: int


def main() -> int:
    """Run the benchmark and print its figures."""
    options = _options()
    steps = max(options.samples // options.series, 1)
    bodies = make_bodies(
        options.series, steps, options.body_samples, options.connections, time.time_ns() - 60 * 10**9, options.seed
    )
    wanted: list[tuple[str, Callable[[Path], Peer]]] = [
        ("leadline", leadline),
        ("victoriametrics", victoriametrics),
        ("prometheus", prometheus),
    ]
    runs: dict[str, list[Run]] = {}
    missing: dict[str, str] = {}
    for _ in range(options.rounds):
        for name, make in wanted:
            if options.only and name not in options.only:
                missing[name] = "left out by --only"
                continue
            try:
                with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
                    run = measure(make(Path(folder)), bodies, settle=not options.no_settle)
            except FileNotFoundError as error:
                missing[name] = str(error)
                continue
            runs.setdefault(name, []).append(run)
            print(
                f"{name}: {bodies.samples / run.seconds:,.0f} samples/s, "
                f"{run.cpu_s / bodies.samples * 1e6:.2f} us CPU a sample "
                f"({run.sending_cpu_s / bodies.samples * 1e6:.2f} while sending), "
                f"{run.disk_bytes / bodies.samples:.2f} bytes on disk a sample, "
                f"{run.anonymous_bytes / 1e6:.0f} MB, {run.retries} bodies sent again",
                file=sys.stderr,
                flush=True,
            )
    taken_under = conditions(
        seed=options.seed,
        series=bodies.series,
        samples=bodies.samples,
        body_samples=options.body_samples,
        connections=options.connections,
        rounds=options.rounds,
        sent_bytes_per_sample=round(bodies.sent_bytes / bodies.samples, 1),
        seen="lab",
    )
    tell("ingest", taken_under, figures(runs, missing, bodies.samples), as_json=options.json)
    return 0


def figures(runs: dict[str, list[Run]], missing: dict[str, str], samples: int) -> list[Figure]:
    """The named figures; one that could not be taken has no value and says why."""
    ours = runs.get("leadline", [])
    speed = statistics.median(samples / run.seconds for run in ours) if ours else None
    memory = max((run.anonymous_bytes for run in ours), default=None)
    found = [
        Figure("samples_per_second", speed, "samples/s", GOALS["samples_per_second"], "higher"),
        Figure("peak_anonymous_mb", memory / 1e6 if memory else None, "MB", None, "lower"),
    ]
    for peer in ("victoriametrics", "prometheus"):
        theirs = runs.get(peer, [])
        pairs = list(zip(ours, theirs, strict=False))
        name = f"cpu_ratio_{peer}"
        value = statistics.median(their.cpu_s / our.cpu_s for our, their in pairs) if pairs else None
        found.append(Figure(name, value, "ratio", GOALS[name], "higher", reason=missing.get(peer)))
        faster = statistics.median(their.seconds / our.seconds for our, their in pairs) if pairs else None
        found.append(Figure(f"speed_ratio_{peer}", faster, "ratio", None, "higher", reason=missing.get(peer)))
    pairs = list(zip(ours, runs.get("victoriametrics", []), strict=False))
    disk = statistics.median(our.disk_bytes / their.disk_bytes for our, their in pairs) if pairs else None
    name = "disk_ratio_victoriametrics"
    found.append(Figure(name, disk, "ratio", GOALS[name], "lower", reason=missing.get("victoriametrics")))
    return found


def measure(peer: Peer, bodies: Bodies, settle: bool = True) -> Run:
    """Send all bodies to a freshly started system and, to `settle`, let it and its disk come to rest.

    Errors: RuntimeError if it refuses a body or does not have every sample afterwards.
    """
    peer.start()
    try:
        peak = _Peak(peer)
        cpu_before = peer.cpu_s()
        began = time.monotonic()
        retries = send(peer, bodies)
        seconds = time.monotonic() - began
        sending_cpu_s = peer.cpu_s() - cpu_before
        if settle:
            _rest(peer)
        cpu_s = peer.cpu_s() - cpu_before
        peak.stop()
        stored = peer.count()
        if stored != bodies.samples:
            raise RuntimeError(f"{peer.name} was sent {bodies.samples} samples and has {stored}")
        if settle:
            peer.settle()
        return Run(seconds, cpu_s, sending_cpu_s, peer.disk_bytes(), peak.bytes, retries)
    finally:
        peer.stop()


def send(peer: Peer, bodies: Bodies) -> int:
    """Send every body, one after the other on each connection; returns how many had to be sent again (429, 503)."""
    retries: list[int] = []
    errors: list[str] = []

    def one(part: list[bytes]) -> None:
        connection = http.client.HTTPConnection("127.0.0.1", peer.port, timeout=60)
        headers = {
            "content-encoding": "snappy",
            "content-type": "application/x-protobuf",
            "x-prometheus-remote-write-version": "0.1.0",
            "user-agent": "bench",
        }
        for body in part:
            for tried in range(SEND_TRIES):
                connection.request("POST", peer.write_path, body, headers)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status < 300:
                    break
                if answer.status not in (429, 503) or tried + 1 == SEND_TRIES:
                    errors.append(f"status {answer.status}: {text[:300]!r}")
                    return
                retries.append(1)
                time.sleep(0.05)
        connection.close()

    senders = [threading.Thread(target=one, args=(part,)) for part in bodies.by_connection if part]
    for sender in senders:
        sender.start()
    for sender in senders:
        sender.join()
    if errors:
        raise RuntimeError(f"{peer.name} refused: {errors[0]}")
    return len(retries)


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

    def stop(self) -> None:
        """Look no more."""
        self._over.set()
        self._thread.join()
        self.bytes = max(self.bytes, self._peer.anonymous_bytes())


def _rest(peer: Peer) -> None:
    """Wait until the system has been at rest for REST_S, REST_S_MAX at most."""
    until = time.monotonic() + REST_S_MAX
    quiet_since = time.monotonic()
    before = peer.cpu_s()
    while time.monotonic() < until and time.monotonic() - quiet_since < REST_S:
        time.sleep(0.5)
        now = peer.cpu_s()
        if (now - before) / 0.5 > REST_SHARE:
            quiet_since = time.monotonic()
        before = now


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--quick", action="store_true", help="a twentieth of the samples, one round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--series", type=int, default=20_000)
    parser.add_argument("--samples", type=int, default=2_000_000)
    parser.add_argument("--body-samples", type=int, default=2_000, help="samples in one body")
    parser.add_argument("--connections", type=int, default=50, help="senders at once; Prometheus grows to 200")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--no-settle", action="store_true", help="do not wait for rest (1.5 minutes at most) and disk (3)"
    )
    parser.add_argument("--only", nargs="*", help="leadline, victoriametrics, prometheus")
    options = parser.parse_args()
    if options.quick:
        options.samples, options.rounds = options.samples // 20, 1
    return options


if __name__ == "__main__":
    sys.exit(main())
