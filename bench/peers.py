"""The systems under measurement, each started alone with an empty data directory and asked the same things."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import stat
import subprocess
import sys
import time
import urllib.parse
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from leadline.host.bound import bound_to_parent
from leadline.store.disk import ballast
from leadline.store.schema import CLEANUP_S, OLD_PARTS_S, REST_S

TICKS = os.sysconf("SC_CLK_TCK")
START_S_MAX = 60.0
STOP_S_MAX = 60.0
SETTLE_S = REST_S + OLD_PARTS_S + CLEANUP_S + 60.0
STILL_S = 15.0  # disk that did not change for this long is settled


class NotInstalledError(Exception):
    """A program that is measured is not on this machine."""


@dataclass
class Peer(ABC):
    """One running system. `write_path` takes remote-write; `count()` says how many samples it stored."""

    name: str
    command: list[str]
    port: int
    write_path: str
    ready_path: str
    data: Path
    environ: dict[str, str] = field(default_factory=dict)
    held_back: Path | None = None  # a file that only keeps space free
    process: subprocess.Popen[bytes] | None = None

    @property
    def url(self) -> str:
        """Address of its HTTP server."""
        return f"http://127.0.0.1:{self.port}"

    def start(self) -> float:
        """Start it and wait until it is ready; returns the seconds that took. Errors: RuntimeError."""
        self.data.mkdir(parents=True, exist_ok=True)
        began = time.monotonic()
        with (self.data / "log.txt").open("wb") as log:
            self.process = subprocess.Popen(
                bound_to_parent(self.command),
                stdout=log,
                stderr=log,
                env={**os.environ, **self.environ},
                start_new_session=True,
            )
        while time.monotonic() - began < START_S_MAX:
            if self.process.poll() is not None:
                break
            try:
                with urllib.request.urlopen(self.url + self.ready_path, timeout=1) as answer:
                    if answer.status == 200:
                        return time.monotonic() - began
            except OSError:
                time.sleep(0.02)
        text = (self.data / "log.txt").read_text(errors="replace")[-2000:]
        self.stop()
        raise RuntimeError(f"{self.name} did not become ready: {text}")

    def stop(self) -> None:
        """End it, politely first."""
        if self.process is None:
            return
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                os.killpg(self.process.pid, signal.SIGKILL)
                self.process.wait()
        self.process = None

    def pids(self) -> list[int]:
        """Its process and all descendants."""
        assert self.process is not None
        return process_tree(self.process.pid)

    def cpu_s(self) -> float:
        """User and system time of all its processes since they began."""
        return cpu_s(self.pids())

    def anonymous_bytes(self) -> int:
        """Private anonymous memory of all its processes (smaps_rollup)."""
        return sum(anonymous_bytes(pid) for pid in self.pids())

    def disk_bytes(self) -> int:
        """Bytes that its data takes on disk, its log and what it only holds back left out.

        Files and folders that vanish meanwhile (merges and flushes make and remove them all the time) count nothing.
        """
        total = 0
        for folder, _, names in os.walk(self.data):
            for name in names:
                path = Path(folder, name)
                if path in (self.data / "log.txt", self.held_back):
                    continue
                try:
                    found = path.lstat()
                except FileNotFoundError:
                    continue
                if stat.S_ISREG(found.st_mode):
                    total += found.st_blocks * 512
        return total

    @abstractmethod
    def count(self) -> int:
        """Samples stored, duplicates counted once."""

    @abstractmethod
    def settle(self) -> None:
        """Bring its disk to what it will be: ask it to write out what it holds in memory, or wait until it has."""


class Leadline(Peer):
    """Ours, as a user starts it: `leadline up`."""

    def count(self) -> int:
        """Through the SQL end point; FINAL is the server's own."""
        request = urllib.request.Request(
            f"{self.url}/api/v1/sql",
            json.dumps({"sql": "SELECT count() AS n FROM metric_sample"}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request, timeout=150) as answer:
            return int(json.load(answer)["rows"][0]["n"])

    def settle(self) -> None:
        """Wait for the merge of a partition at rest, and until the parts that were merged are gone."""
        began = time.monotonic()
        changed, size = began, self.disk_bytes()
        while time.monotonic() - began < 2 * SETTLE_S:
            time.sleep(2)
            if self.disk_bytes() != size:
                changed, size = time.monotonic(), self.disk_bytes()
            if time.monotonic() - max(changed, began + SETTLE_S) > STILL_S:
                return


class Prometheus(Peer):
    """Prometheus with its remote-write receiver."""

    def count(self) -> int:
        """By PromQL over the whole span."""
        return _promql_count(self.url, "gpu-hosts")

    def settle(self) -> None:
        """Nothing to ask for: its newest two hours stay in its write-ahead log, which is on disk already."""


class VictoriaMetrics(Peer):
    """Single-node VictoriaMetrics."""

    def count(self) -> int:
        """By MetricsQL over the whole span."""
        self.settle()
        return _promql_count(self.url, "gpu-hosts")

    def settle(self) -> None:
        """Flush what it holds in memory to disk."""
        with urllib.request.urlopen(f"{self.url}/internal/force_flush", timeout=60) as answer:
            answer.read()


def leadline(root: Path, *, judging: bool = True) -> Peer:
    """Leadline on free ports with its data under `root`; `judging`: whether analyses run on what comes."""
    port = free_port()
    data = root / "leadline"
    environ = {
        "LEADLINE_SERVER__PORT": str(port),
        "LEADLINE_SERVER__OTLP_HTTP_PORT": str(free_port()),
        "LEADLINE_SERVER__OTLP_GRPC_PORT": str(free_port()),
        "LEADLINE_STORE__PATH": str(data / "store"),
    }
    if not judging:
        environ["LEADLINE_RUNNER__ENABLED"] = "false"
    command = [sys.executable, "-m", "leadline.cli.main", "up"]
    held_back = data / "store" / ballast.NAME
    return Leadline("leadline", command, port, "/api/v1/write", "/ready", data, environ, held_back)


def prometheus(root: Path) -> Peer:
    """Prometheus from Debian. Errors: NotInstalledError."""
    port, data = free_port(), root / "prometheus"
    data.mkdir(parents=True, exist_ok=True)
    config = root / "prometheus.yml"
    config.write_text("global: {scrape_interval: 1h}\n")
    command = [
        _installed("prometheus"),
        f"--config.file={config}",
        f"--web.listen-address=127.0.0.1:{port}",
        f"--storage.tsdb.path={data}/tsdb",
        "--web.enable-remote-write-receiver",
        "--log.level=error",
    ]
    return Prometheus("prometheus", command, port, "/api/v1/write", "/-/ready", data)


def victoriametrics(root: Path) -> Peer:
    """VictoriaMetrics from Debian. Errors: NotInstalledError."""
    port, data = free_port(), root / "victoriametrics"
    command = [
        _installed("victoria-metrics"),
        f"-httpListenAddr=127.0.0.1:{port}",
        f"-storageDataPath={data}/data",
        "-retentionPeriod=1",
        "-loggerLevel=ERROR",
        # For counting back alone; its own bound is 300,000 streams in one answer.
        "-search.maxUniqueTimeseries=5000000",
        "-search.maxQueryDuration=120s",
    ]
    return VictoriaMetrics("victoriametrics", command, port, "/api/v1/write", "/health", data)


def free_port() -> int:
    """A loopback port that is free now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def _installed(name: str) -> str:
    path = shutil.which(name)
    if path is None:
        raise NotInstalledError(f"{name} is not installed; `scripts/install-programs {name}`")
    return path


def _promql_count(url: str, job: str) -> int:
    # `nocache`: else VictoriaMetrics leaves out the newest 30 s.
    query = urllib.parse.urlencode({"query": f'sum(count_over_time({{job="{job}"}}[2h]))', "nocache": "1"})
    with urllib.request.urlopen(f"{url}/api/v1/query?{query}", timeout=150) as answer:
        result: list[Any] = json.load(answer)["data"]["result"]
    return int(float(result[0]["value"][1])) if result else 0


def process_tree(root: int) -> list[int]:
    """A process, first, and all its descendants."""
    parents = {int(entry): _parent(entry) for entry in os.listdir("/proc") if entry.isdigit()}
    found = [root]
    for pid in found:
        found += [child for child, parent in parents.items() if parent == pid]
    return found


def _stat(pid: int | str) -> list[str]:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return []


def _parent(pid: str) -> int:
    fields = _stat(pid)
    return int(fields[1]) if fields else 0


def cpu_s(pids: Iterable[int]) -> float:
    """User and system time of processes, and of their children that ended."""
    return sum(int(field) for pid in pids for field in _stat(pid)[11:15]) / TICKS


def anonymous_bytes(pid: int) -> int:
    """Private anonymous memory of a process (smaps_rollup); 0 of one that has ended."""
    try:
        for line in Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines():
            if line.startswith("Anonymous:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass
    return 0
