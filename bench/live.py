"""The whole, live: what it costs to watch a simulated fleet with everything on, and how soon verdicts come.

    python -m bench.live [--hosts 64 256 1024] [--seconds 120] [--warm 60] [--viewers 5] [--json]

For each size a fleet of hosts with 8 GPUs is simulated, and what its agents, exporters, Prometheus servers and switches
would send is encoded beforehand (`bench.live_parts.fleet`). Then `leadline up` with default settings is sent all of it
at its real pace by another process, while viewers ask for what the page asks for, as often as it does. What counts is
the time after `--warm`: until then look-backs fill. CPU is that of the server's processes, by part as `/metrics` says.

    hosts_per_core         hosts whose telemetry one core can take, judge and show, at the largest size
    lag_p95_s              95th percentile of how old the newest finished window of the analyses of causes is, less its
                           window and grace, at 256 hosts
    private_mb_256         largest private memory of the server's processes at 256 hosts
    growth                 CPU per host at the largest size over that at the smallest
    idle_cpu_share         cores that an empty server takes
    judging_us_per_sample  CPU of runner and analyses for each sample and row taken, at 256 hosts
"""

from __future__ import annotations

import argparse
import json
import re
import subprocess
import sys
import tempfile
import threading
import time
import urllib.error
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import Any

import yaml
from prometheus_client.parser import text_string_to_metric_families

from bench.figures import Figure, conditions, tell
from bench.live_parts.fleet import Told, write_fleet
from bench.live_parts.schedule import Writer
from bench.peers import Peer, free_port, leadline
from leadline.analysis import ANALYSES

S = 10**9
TARGETS = {
    "hosts_per_core": 1000.0, "lag_p95_s": 3.0, "private_mb_256": 1500.0, "growth": 1.1, "idle_cpu_share": 0.02,
    "judging_us_per_sample": 3.0,
}  # fmt: skip
ENCODE_S = 8.0  # before the first body is due: bodies that are encoded later than that are late
ENCODE_HOST_S = 0.5  # the same for each host
READY_S = 4  # seconds that the server has to start in
LATE_MS_MAX = 1000.0  # with senders later than that a bench measures itself, too
LOOK_S = 1.0
PACE_S, PACE_TIMES, PACE_CHARS_PER_S = 2.0, 10.0, 100_000.0  # how often the page asks anew: web/src/lib/pace.ts
VIEWS = ("/api/v1/now", "/api/v1/fleet", "/api/v1/jobs", "/api/v1/incidents")
CAUSES = ("slowdowns", "stalls", "cause")  # what an alert waits for


@dataclass
class Seen:
    """What was seen of one size."""

    told: Told
    seconds: float = 0.0
    cpu_s: dict[str, float] = field(default_factory=dict)
    taken: float = 0.0  # samples and rows while it was measured
    lags_s: dict[str, list[float]] = field(default_factory=dict)
    windows: dict[str, float] = field(default_factory=dict)
    took_s: dict[str, list[float]] = field(default_factory=dict)
    private_bytes: int = 0
    answers_ms: list[float] = field(default_factory=list)
    counters: dict[str, float] = field(default_factory=dict)  # what was refused or lost
    sent: dict[str, Any] = field(default_factory=dict)

    @property
    def cores(self) -> float:
        """Cores that the server takes."""
        return sum(self.cpu_s.values()) / self.seconds

    def lag_s(self, share: float) -> float:
        """Quantile of the lag beyond window and grace, of the worst analysis of causes."""
        worst = [sorted(self.lags_s[name]) for name in CAUSES if self.lags_s.get(name)]
        return max((each[min(int(len(each) * share), len(each) - 1)] for each in worst), default=float("nan"))


def main() -> int:
    """Measure and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--hosts", type=int, nargs="+", default=[64, 256, 1024])
    parser.add_argument("--seconds", type=int, default=120, help="that are measured, at each size")
    parser.add_argument("--warm", type=int, default=60, help="seconds before them")
    parser.add_argument("--idle", type=float, default=30.0, help="seconds for which an empty server is looked at")
    parser.add_argument("--viewers", type=int, default=5)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--json", action="store_true")
    asked = parser.parse_args()
    taken_under = conditions(asked.seed, hosts=asked.hosts, seconds=asked.seconds, warm=asked.warm, seen="simulated")
    idle = idle_share(asked.idle)
    seen = {hosts: measure(hosts, asked) for hosts in sorted(asked.hosts)}
    for hosts, each in seen.items():
        print(json.dumps({"hosts": hosts, **details(each)}), file=sys.stderr, flush=True)
    tell("live", taken_under, figures(seen, idle), asked.json)
    return 0


def figures(seen: dict[int, Seen], idle: float) -> list[Figure]:
    """The named figures; one whose size was left out has no value."""
    least, most, middle = min(seen), max(seen), seen.get(256)
    missing = None if middle else "256 hosts were left out"
    values: dict[str, tuple[float | None, str, str]] = {
        "hosts_per_core": (most / seen[most].cores, "hosts", "higher"),
        "lag_p95_s": (middle.lag_s(0.95) if middle else None, "s", "lower"),
        "private_mb_256": (middle.private_bytes / 1e6 if middle else None, "MB", "lower"),
        "growth": (seen[most].cores / most / (seen[least].cores / least) if most > least else None, "ratio", "lower"),
        "idle_cpu_share": (idle, "cores", "lower"),
        "judging_us_per_sample": (judging_us(middle) if middle else None, "us", "lower"),
    }  # fmt: skip
    found = [
        Figure(name, value, unit, TARGETS[name], better, reason=missing if value is None else None)
        for name, (value, unit, better) in values.items()
    ]
    for hosts, each in seen.items():
        found.append(Figure(f"cores_{hosts}", each.cores, "cores", better="lower"))
        found.append(Figure(f"lag_p95_s_{hosts}", each.lag_s(0.95), "s", better="lower"))
        found.append(Figure(f"bodies_lost_{hosts}", each.sent["lost"], "bodies", 0.0, "lower"))
        found.append(Figure(f"private_mb_of_{hosts}", each.private_bytes / 1e6, "MB", better="lower"))
    return found


def judging_us(seen: Seen) -> float:
    """CPU of runner and analyses for each sample and row that was taken."""
    return (seen.cpu_s.get("runner", 0.0) + seen.cpu_s.get("analyses", 0.0)) / max(seen.taken, 1.0) * 1e6


def details(seen: Seen) -> dict[str, Any]:
    """All that was seen, for whoever looks for what to make cheaper."""
    return {
        "jobs": seen.told.jobs, "series": seen.told.series, "switches": len(seen.told.switches),
        "taken_per_s": round(seen.taken / seen.seconds), "cores": round(seen.cores, 3),
        "cores_by_part": {name: round(each / seen.seconds, 4) for name, each in sorted(seen.cpu_s.items())},
        "judging_us_per_sample": round(judging_us(seen), 2), "private_mb": round(seen.private_bytes / 1e6),
        "lag_p95_s": {
            name: round(sorted(each)[int(len(each) * 0.95)], 2) for name, each in seen.lags_s.items() if each
        },
        "window_s": {name: round(median(each), 3) for name, each in seen.took_s.items() if each},
        "windows": seen.windows,
        "answer_ms_p95": round(sorted(seen.answers_ms or [0.0])[int(len(seen.answers_ms) * 0.95)]),
        "counters": seen.counters, "sent": seen.sent,
    }  # fmt: skip


def idle_share(seconds: float) -> float:
    """Cores that a server takes which nobody sends anything and nobody looks at."""
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as folder:
        server = leadline(Path(folder))
        server.start()
        try:
            time.sleep(seconds / 2)  # what starts it: worker processes load
            before = server.cpu_s()
            time.sleep(seconds)
            return (server.cpu_s() - before) / seconds
        finally:
            server.stop()


def measure(hosts: int, asked: argparse.Namespace) -> Seen:
    """One size. Errors: RuntimeError if bodies cannot be made in time."""
    for times in (1, 3, 9):  # on a busy machine encoding takes longer
        seen = _measured(hosts, asked, times * (ENCODE_S + ENCODE_HOST_S * hosts))
        if seen is not None:
            return seen
    raise RuntimeError("bodies were not encoded in time, three times; is the machine busy?")


def _measured(hosts: int, asked: argparse.Namespace, encode_s: float) -> Seen | None:
    """One size; None if encoding took longer than that."""
    with tempfile.TemporaryDirectory(prefix="leadline-bench-") as name:
        folder = Path(name)
        start_ns = time.time_ns() + round(encode_s * S)
        told = encoded(folder, hosts, asked.warm + asked.seconds, start_ns, asked.seed)
        if told is None:
            return None
        seen = Seen(told)
        server, ports = configured(folder, told)
        server.start()
        try:
            _watch(server, ports, folder, start_ns, asked, seen)
        finally:
            server.stop()
    return seen


def encoded(folder: Path, hosts: int, seconds: int, start_ns: int, seed: int) -> Told | None:
    """What a fleet sends from `start_ns` on, written into a folder; None if that took too long for a start by then."""
    writer = Writer(folder)
    told = write_fleet(hosts, seconds, start_ns, seed, writer)
    writer.close()
    (folder / "told.json").write_text(json.dumps({"targets": told.targets}))
    wrote = f"{hosts} hosts, {told.series:,} series, {told.jobs} jobs: {writer.rows}"
    print(f"{wrote}; {(start_ns - time.time_ns()) / 1e9:.0f} s early", file=sys.stderr, flush=True)
    return told if time.time_ns() < start_ns - READY_S * S else None


def configured(folder: Path, told: Told) -> tuple[Peer, dict[str, int]]:
    """`leadline up` with default settings, but for ports, who may send sFlow and what is scraped."""
    server = leadline(folder)
    ports = {
        "otlp": int(server.environ["LEADLINE_SERVER__OTLP_HTTP_PORT"]),
        "sflow": free_port(),
    }
    scrape = [{"job": "exporters", "targets": told.targets, "honor_labels": True}] if told.targets else []
    config = {"ingest": {"sflow": {"port": ports["sflow"], "senders": told.switches}, "scrape": scrape}}
    path = folder / "leadline.yaml"
    path.write_text(yaml.safe_dump(config))
    server.command += ["--config", str(path)]
    return server, ports


def sending(folder: Path, server: Peer, ports: dict[str, int]) -> subprocess.Popen[str]:
    """The process that sends what was written into a folder; at its end it prints how that went."""
    command = [
        sys.executable, "-m", "bench.live_parts.senders", str(folder), "--port", str(server.port), "--otlp-port",
        str(ports["otlp"]), "--sflow-port", str(ports["sflow"]),
    ]  # fmt: skip
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def _watch(
    server: Peer, ports: dict[str, int], folder: Path, start_ns: int, asked: argparse.Namespace, seen: Seen
) -> None:  # fmt: skip
    sender = sending(folder, server, ports)
    over = threading.Event()
    viewers = [threading.Thread(target=_view, args=(server.url, over, seen), daemon=True) for _ in range(asked.viewers)]
    try:
        time.sleep(max(0.0, (start_ns - time.time_ns()) / 1e9))
        for each in viewers:
            each.start()
        time.sleep(asked.warm)
        first = _metrics(server.url)
        began = time.monotonic()
        newest = first
        while time.monotonic() - began < asked.seconds - 2:
            time.sleep(LOOK_S)
            newest = _metrics(server.url)
            _look(newest, server, seen)
        seen.seconds = time.monotonic() - began
        _compare(first, newest, seen)
        over.set()
        out, _ = sender.communicate(timeout=120)
        seen.sent = json.loads(out)
        if seen.sent["late_ms_p99"] > LATE_MS_MAX:
            late = f"{seen.sent['late_ms_p99']:.0f} ms late (p99)"
            print(f"bodies were sent {late}: the machine is full, senders included", file=sys.stderr, flush=True)
    finally:
        over.set()
        sender.kill()
        sender.wait()


def _metrics(url: str) -> dict[tuple[str, str], float]:
    """Samples of `/metrics` by name and the value of their one label."""
    with urllib.request.urlopen(f"{url}/metrics", timeout=60) as answer:
        text = answer.read().decode()
    return {
        (sample.name, next(iter(sample.labels.values()), "")): sample.value
        for family in text_string_to_metric_families(text)
        if "http_request" not in family.name
        for sample in family.samples
    }


def _look(found: dict[tuple[str, str], float], server: Peer, seen: Seen) -> None:
    for each in ANALYSES:
        if (lag := found.get(("leadline_analysis_lag_seconds", each.name))) is not None:
            beyond_s = lag - each.window_ns / S - each.grace_ns / S
            seen.lags_s.setdefault(each.name, []).append(beyond_s)
        if (took := found.get(("leadline_analysis_seconds", each.name))) is not None:
            seen.took_s.setdefault(each.name, []).append(took)
    seen.private_bytes = max(seen.private_bytes, server.anonymous_bytes())


def _compare(first: dict[tuple[str, str], float], last: dict[tuple[str, str], float], seen: Seen) -> None:
    grown = {key: value - first.get(key, 0.0) for key, value in last.items() if key[0].endswith("_total")}
    for (name, label), amount in grown.items():
        if name == "leadline_cpu_seconds_total":
            seen.cpu_s[label] = amount
        elif name == "leadline_analysis_windows_total":
            seen.windows[label] = amount
        elif name == "leadline_ingest_accepted_total":
            seen.taken += amount if label in ("samples", "rows") else 0.0
        elif amount and name.startswith("leadline_") and "job" not in name:
            seen.counters[f"{name} {label}"] = amount


def _view(url: str, over: threading.Event, seen: Seen) -> None:
    """One viewer: what the page asks, again and again, as often as the page does, and content with what another was
    told meanwhile."""
    due, pace_s = dict.fromkeys(VIEWS, 0.0), dict.fromkeys(VIEWS, 0.0)
    while not over.wait(max(0.0, min(due.values()) - time.monotonic())):
        path = min(due, key=due.__getitem__)
        began = time.monotonic()
        request = urllib.request.Request(url + path, headers={"cache-control": f"max-age={int(pace_s[path])}"})
        chars, took_s = 0, 0.0
        try:
            with urllib.request.urlopen(request, timeout=60) as answer:
                chars = len(answer.read())
                timing = re.search(r"answer;dur=(\d+)", answer.headers["server-timing"] or "")
                took_s = float(timing[1]) / 1e3 if timing else 0.0
            seen.answers_ms.append((time.monotonic() - began) * 1e3)
        except urllib.error.HTTPError as error:
            seen.counters[f"view {path} {error.code}"] = seen.counters.get(f"view {path} {error.code}", 0) + 1
        except OSError:
            seen.counters[f"view {path} failed"] = seen.counters.get(f"view {path} failed", 0) + 1
        took_s = max(took_s, time.monotonic() - began)
        pace_s[path] = max(PACE_S, PACE_TIMES * took_s, chars / PACE_CHARS_PER_S)
        due[path] = began + pace_s[path]


if __name__ == "__main__":
    sys.exit(main())
