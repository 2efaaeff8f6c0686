"""Memory of a server that takes telemetry in for an hour while streams come and go.

    python -m bench.memory [--minutes 60] [--rate 5000] [--series 20000] [--churn 0.05] [--json]

A real `leadline up` with its defaults, analyses on, is sent remote-write at a steady rate over `--series` streams, each
in turn. Each minute `--churn` of the streams end and as many new ones begin: those of hosts that were taken out and put
in. Bodies that are answered 429 or 503 are sent again until they are taken.

    senders ── bodies ──> leadline up ── server process ──> private_mb, open files
       └── taken, again        └── its children: workers ──> workers_mb
    each 5 s: smaps_rollup of every process, /proc/PID/fd, how far each analysis is behind

`private_mb` is the 95th percentile of the server process's private anonymous memory after the warm-up, which is 15
minutes, or a quarter of a shorter run; `growth_mb_per_hour` the slope of the same (Theil and Sen's, which a merge that
peaks does not bend). At the end the server is stopped, and the samples that it acknowledged are counted in its store.
"""

from __future__ import annotations

import argparse
import http.client
import itertools
import json
import os
import statistics
import struct
import sys
import tempfile
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import cramjam
import numpy as np

from bench.figures import Figure, conditions, tell
from bench.peers import Leadline, Peer, anonymous_bytes, leadline, process_tree
from bench.remote_write_bodies import stream_labels, varint
from leadline.analysis import ANALYSES
from leadline.runner.plan import rhythms
from leadline.store import Store, StoreConfig

SENDERS = 5  # connections; Prometheus has one shard for 5,000 samples/s and grows when it falls behind
LOOK_S = 5.0
WARM_UP_S = 900.0
CHURN_EVERY_S = 6.0  # a tenth of a minute's churn at a time: hosts do not all change at the full minute
RETRY_S_MAX = 5.0
MB = 1e6
TARGETS = {"private_mb": 1000.0, "growth_mb_per_hour": 20.0, "samples_lost": 0.0}
_HEADERS = {
    "content-encoding": "snappy",
    "content-type": "application/x-protobuf",
    "x-prometheus-remote-write-version": "0.1.0",
    "user-agent": "bench",
}


# What the metrics of `remote_write_bodies` say in a fleet where nothing is wrong, in their order: gauges keep a level
# within their noise, counters rise by so much a second.
_LEVEL = np.array([96.0, 620.0, 70_000.0, 2e9, 0.0, 0.0, 0.0, 0.0, 0.0, 1e12])
_NOISE = np.array([0.005, 0.005, 0.0, 0.01, 0.0, 0.01, 0.01, 0.01, 0.01, 0.0005])
_RISE = np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1e9, 1e6, 1e7, 0.9, 0.0])


@dataclass(frozen=True, slots=True)
class Look:
    """What was seen at one moment. `behind_s`: how long a window that is closed has waited, of the latest analysis."""

    at_s: float
    server_bytes: int
    workers_bytes: int
    files: int
    behind_s: float
    behind: str  # which analysis
    sent_late_s: float  # how far the senders are behind their own clock


@dataclass
class Fleet:
    """Streams that are sent, and new ones in place of a share of them each minute. Not for several threads at once."""

    numbers: list[int]  # of each place, the stream that it has now
    fresh: itertools.count[int]
    rng: np.random.Generator
    period_s: float  # between two samples of a stream
    labels: list[bytes] = field(default_factory=list)
    kinds: np.ndarray[Any, np.dtype[np.int64]] = field(default_factory=lambda: np.zeros(0, np.int64))
    totals: np.ndarray[Any, np.dtype[np.float64]] = field(default_factory=lambda: np.zeros(0))

    def __post_init__(self) -> None:
        self.labels = [stream_labels(number) for number in self.numbers]
        self.kinds = np.array(self.numbers) % len(_LEVEL)
        self.totals = self.rng.uniform(0, 1e12, len(self.numbers))

    def replace(self, count: int) -> None:
        """New streams in `count` places, those longest there first."""
        for place in sorted(range(len(self.numbers)), key=self.numbers.__getitem__)[:count]:
            self.numbers[place] = next(self.fresh)
            self.labels[place] = stream_labels(self.numbers[place])
            self.kinds[place] = self.numbers[place] % len(_LEVEL)

    def body(self, places: range, time_ms: int) -> bytes:
        """A compressed body with a sample of each place."""
        part = slice(places.start, places.stop)
        kinds = self.kinds[part]
        noise = 1 + _NOISE[kinds] * self.rng.normal(size=len(places))
        self.totals[part] += _RISE[kinds] * self.period_s * noise
        values = np.where(_RISE[kinds] > 0, self.totals[part], _LEVEL[kinds] * noise)
        tail = b"\x10" + varint(time_ms)
        raw = bytearray()
        for place, value in zip(places, values.tolist(), strict=True):
            sample = b"\x09" + struct.pack("<d", value) + tail
            stream = self.labels[place] + b"\x12" + varint(len(sample)) + sample
            raw += b"\x0a" + varint(len(stream)) + stream
        return bytes(cramjam.snappy.compress_raw(bytes(raw)))


class Sender:
    """One connection that sends its share of the streams at its share of the rate, in a thread."""

    def __init__(self, port: int, fleet: Fleet, rate: float, churn: float, stop: threading.Event) -> None:
        """`churn`: share of the streams replaced in a minute."""
        self._port, self._fleet, self._stop = port, fleet, stop
        count = len(fleet.numbers)
        groups = max(1, round(count / rate))  # bodies until each stream was sent once
        edges = np.linspace(0, count, groups + 1).astype(int).tolist()
        self._groups = [range(*pair) for pair in itertools.pairwise(edges)]
        self._every_s = count / rate / groups
        self._churn_each = count * churn * CHURN_EVERY_S / 60
        self.acknowledged = self.again = self.wrong = 0
        self.late_s = 0.0
        self.last_error = ""
        self._thread = threading.Thread(target=self._run, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def join(self) -> None:
        self._thread.join(60)

    def _run(self) -> None:
        began = time.monotonic()
        began_ms = time.time_ns() // 10**6
        churned, owed = began, 0.0
        for turn in itertools.count():
            due = began + turn * self._every_s
            self.late_s = time.monotonic() - due
            if self._stop.wait(max(0.0, -self.late_s)):
                return
            if due - churned >= CHURN_EVERY_S:
                churned, owed = due, owed + self._churn_each
                self._fleet.replace(int(owed))
                owed -= int(owed)
            places = self._groups[turn % len(self._groups)]
            body = self._fleet.body(places, began_ms + round(turn * self._every_s * 1000))
            if self._taken(body):
                self.acknowledged += len(places)

    def _taken(self, body: bytes) -> bool:
        """Send until it is taken, however long that takes."""
        wait_s, connection = 0.2, None
        while not self._stop.is_set():
            try:
                connection = connection or http.client.HTTPConnection("127.0.0.1", self._port, timeout=60)
                connection.request("POST", "/api/v1/write", body, _HEADERS)
                answer = connection.getresponse()
                text = answer.read()
                if answer.status < 300:
                    return True
                self.last_error = f"{answer.status}: {text[:200]!r}"
                if answer.status not in (429, 503):
                    self.wrong += 1
                    return False
            except (OSError, http.client.HTTPException) as error:
                self.last_error, connection = repr(error), None
            self.again += 1
            self._stop.wait(wait_s)
            wait_s = min(RETRY_S_MAX, 2 * wait_s)
        return False


class Watch:
    """Looks at the server each LOOK_S, and prints a line a minute."""

    def __init__(self, peer: Peer, senders: list[Sender]) -> None:
        self._peer, self._senders = peer, senders
        self._pid = int(_get(peer.port, "/ready")["pid"])
        times = zip(ANALYSES, rhythms(ANALYSES), strict=True)
        self._baseline_s = {each.name: (rhythm.window_ns + rhythm.grace_ns) / 1e9 for each, rhythm in times}
        self.began = time.monotonic()
        self.looks: list[Look] = []

    def until(self, end_s: float) -> None:
        """Look until so long after the beginning. Errors: RuntimeError if the server is another process by then."""
        told = 0
        print(" min  server MB  workers MB  files  behind s        sent late s  again   load", file=sys.stderr)
        while (at_s := time.monotonic() - self.began) < end_s:
            self.looks.append(self._look(at_s))
            if at_s >= 60 * told:
                self._tell(told)
                told += 1
            time.sleep(max(0.0, min(LOOK_S, end_s - (time.monotonic() - self.began))))
        self._tell(round(end_s / 60, 1))
        if self._pid not in self._peer.pids():  # /ready may be 503, for want of memory
            raise RuntimeError("the server was started again while it was measured; see its log")

    def _look(self, at_s: float) -> Look:
        children = process_tree(self._pid)[1:]
        behind_s, behind = self._behind()
        return Look(
            at_s,
            anonymous_bytes(self._pid),
            sum(anonymous_bytes(pid) for pid in children),
            len(os.listdir(f"/proc/{self._pid}/fd")),
            behind_s,
            behind,
            max((sender.late_s for sender in self._senders), default=0.0),
        )

    def _behind(self) -> tuple[float, str]:
        states = _get(self._peer.port, "/api/v1/analyses")["analyses"]
        waits = [(each["lag_s"] - self._baseline_s[each["name"]], each["name"]) for each in states if each["windows"]]
        return max([(0.0, "-"), *waits])

    def _tell(self, minute: float) -> None:
        look = self.looks[-1]
        again = sum(sender.again for sender in self._senders)
        print(
            f"{minute:4}  {look.server_bytes / MB:9.0f}  {look.workers_bytes / MB:10.0f}  {look.files:5}  "
            f"{look.behind_s:8.1f} {look.behind:<10} {look.sent_late_s:8.1f}  {again:5}  {os.getloadavg()[0]:5.1f}",
            file=sys.stderr,
            flush=True,
        )


def main() -> int:
    """Run the benchmark and print its figures."""
    options = _options()
    print(f"writing for {options.minutes:g} minutes", file=sys.stderr)
    with tempfile.TemporaryDirectory(prefix="leadline-memory-") as folder:
        peer = leadline(Path(folder))
        assert isinstance(peer, Leadline)
        peer.environ |= dict(each.partition("=")[::2] for each in options.set)
        senders, looks = run(peer, options)
        stored = _stored(peer.environ["LEADLINE_STORE__PATH"])
    found = figures(looks, senders, stored, 60 * options.minutes)
    taken_under = conditions(
        seed=options.seed, minutes=options.minutes, series=options.series, rate=options.rate, churn=options.churn,
        warm_up_s=warm_up_s(60 * options.minutes), streams_in_all=options.series + replaced(options),
        settings=options.set, load_at_end=round(os.getloadavg()[0], 2),
    )  # fmt: skip
    tell("memory", taken_under, found, as_json=options.json)
    return 0


def run(peer: Peer, options: argparse.Namespace) -> tuple[list[Sender], list[Look]]:
    """Start it, send and look for `--minutes`, and stop it."""
    peer.start()
    stop = threading.Event()
    senders: list[Sender] = []
    try:
        fresh = itertools.count(options.series)
        shares = np.array_split(np.arange(options.series), min(SENDERS, options.series))
        for place, share in enumerate(shares):
            period_s = options.series / options.rate
            fleet = Fleet(share.tolist(), fresh, np.random.default_rng([options.seed, place]), period_s)
            rate = len(share) / period_s
            senders.append(Sender(peer.port, fleet, rate, options.churn, stop))
        watch = Watch(peer, senders)
        for sender in senders:
            sender.start()
        watch.until(60 * options.minutes)
        stop.set()
        for sender in senders:
            sender.join()
        return senders, watch.looks
    finally:
        stop.set()
        peer.stop()


def figures(looks: list[Look], senders: list[Sender], stored: int, seconds: float) -> list[Figure]:
    """The named figures."""
    warm = [look for look in looks if look.at_s >= warm_up_s(seconds)]
    server_mb = [look.server_bytes / MB for look in warm]
    acknowledged = sum(sender.acknowledged for sender in senders)
    growth = slope([look.at_s / 3600 for look in warm], server_mb)
    rate = acknowledged / seconds
    few = None if growth is not None else "fewer than two looks after the warm-up"
    wrong = next((sender.last_error for sender in senders if sender.wrong), None)
    late_s = max((look.behind_s for look in warm), default=0.0)
    values: list[tuple[str, float | None, str, str | None]] = [
        ("private_mb", float(np.percentile(server_mb, 95)) if server_mb else None, "MB", few),
        ("growth_mb_per_hour", growth, "MB/h", few),
        ("private_mb_max", max(look.server_bytes for look in looks) / MB, "MB", None),
        ("workers_mb", max(look.workers_bytes for look in looks) / MB, "MB", None),
        ("open_files_max", float(max(look.files for look in looks)), "files", None),
        ("samples_lost", float(max(0, acknowledged - stored)), "samples", wrong),
        ("judging_lag_s_max", late_s, "s", None),
        ("samples_per_second", rate, "samples/s", None),
        ("bodies_sent_again", float(sum(sender.again for sender in senders)), "bodies", None),
    ]
    better = {"samples_per_second": "higher"}
    return [
        Figure(name, value, unit, TARGETS.get(name), better.get(name, "lower"), reason=reason)
        for name, value, unit, reason in values
    ]


def slope(x: list[float], y: list[float]) -> float | None:
    """The median of the slopes between all pairs of points; None of fewer than two.

    Source: P. K. Sen, "Estimates of the regression coefficient based on Kendall's tau", J. Am. Stat. Assoc. 63 (1968).
    """
    found = [(b[1] - a[1]) / (b[0] - a[0]) for a, b in itertools.combinations(zip(x, y, strict=True), 2)]
    return statistics.median(found) if found else None


def warm_up_s(seconds: float) -> float:
    """Of a run of so many seconds, what does not count."""
    return min(WARM_UP_S, seconds / 4)


def replaced(options: argparse.Namespace) -> int:
    """About how many streams are new in the run."""
    return int(options.series * options.churn * options.minutes)


def _stored(path: str) -> int:
    """Samples in the store of a server that has stopped, each once."""
    store = Store(StoreConfig(path=path))
    store.start()
    try:
        return int(store.query("SELECT count() AS n FROM leadline.metric_sample")["n"][0].as_py())
    finally:
        store.stop()


def _get(port: int, path: str) -> Any:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
    try:
        connection.request("GET", path)
        return json.load(connection.getresponse())
    finally:
        connection.close()


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", action="store_true", help="print one JSON object as the last line")
    parser.add_argument("--minutes", type=float, default=60.0)
    parser.add_argument("--series", type=int, default=20_000, help="streams at any time")
    parser.add_argument("--rate", type=float, default=5_000.0, help="samples/s, all streams together")
    parser.add_argument("--churn", type=float, default=0.05, help="share of the streams that are replaced in a minute")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument(
        "--set", action="append", default=[], metavar="NAME=VALUE", help="environment of the server, to compare"
    )
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
