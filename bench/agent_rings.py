"""What the agent's ring lane can do and what it costs: a real agent with default settings, a real server, over HTTP.

    python -m bench.agent_rings [--ranks 8] [--steps-per-s 20] [--seconds 30] [--backlog-looks 120] [--port N] [--json]

    segments_per_second   of rings, delivered from a backlog in the spool, as it is after a minute without the server
    cpu_share             CPU seconds of the agent per second while the ranks train, all of its sources running
    data_age_s_p50, _p99  how old the newest step is that a query finds, of the rank that is furthest behind
    watermark_age_s_p99   how far behind the clock the agent says its data is, in the newest row that a query finds

Ranks are processes that write with the real ring writer what a DDP rank on gloo writes: steps into the ring of the main
thread, begins of collectives into that of autograd's, ends into those of two threads of the backend, both clocks each
10 s into the announcer's.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import http.client
import json
import mmap
import os
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from bench.figures import Figure, conditions, tell
from leadline.host.bound import bound_to_parent
from leadline.host.found import Segment
from leadline.host.parcels import parcels
from leadline.host.spool import Spool
from leadline.wire.ring.format import read_segment
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

ROOT = Path(__file__).resolve().parents[1]
JOB, BACKLOG_JOB = "bench", "backlog"
COLLECTIVES = 10  # of a step
RINGS, BUSY = 5, 4  # of a rank; those that have news at each look
RECORDS = 8192  # of a ring, as the torch hook makes them
LOOK_S = 0.5  # agent.ring_interval_s: what a look of the backlog holds
WARM_S = 5.0  # first answers of a server compile
READY_S_MAX = 120.0
DRAIN_S_MAX = 120.0
AGE_SQL = f"SELECT min(newest) AS ns FROM (SELECT max(end_ns) AS newest FROM step WHERE job = '{JOB}' GROUP BY rank)"
WATERMARK_SQL = f"SELECT max(to_ns) AS ns FROM watermark WHERE job = '{JOB}'"


def main() -> None:
    """Measure both and tell."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--ranks", type=int, default=8)
    parser.add_argument("--steps-per-s", type=float, default=20.0)
    parser.add_argument("--seconds", type=float, default=30.0, help="of training that is measured (default 30)")
    parser.add_argument("--backlog-looks", type=int, default=120, help="looks that wait in the spool (default 120)")
    parser.add_argument("--port", type=int, default=0, help="first of three for the server; by default free ones")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--rank", type=int, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.rank is not None:
        train(given.rank, given.ranks, given.steps_per_s)
        return
    taken_under = conditions(ranks=given.ranks, steps_per_s=given.steps_per_s, seconds=given.seconds)
    shared = "/dev/shm" if os.path.isdir("/dev/shm") else None
    with (
        tempfile.TemporaryDirectory(prefix="leadline-bench-") as directory,
        tempfile.TemporaryDirectory(prefix="leadline-bench-", dir=shared) as rings,
        Place(Path(directory), Path(rings), given.port) as place,
    ):
        delivered = backlog(place, given.ranks, given.steps_per_s, given.backlog_looks)
        seen = training(place, given.ranks, given.steps_per_s, given.seconds)
    missing = "the server has no watermark of the job"
    watermark = percentile(seen.watermark_ages_s, 0.99)
    figures = [
        Figure("segments_per_second", delivered, "1/s", 500.0),
        Figure("cpu_share", seen.cpu_share, "ratio", 0.02, better="lower"),
        Figure("data_age_s_p50", percentile(seen.data_ages_s, 0.5), "s", better="lower"),
        Figure("data_age_s_p99", percentile(seen.data_ages_s, 0.99), "s", 3.0, better="lower"),
        Figure("watermark_age_s_p99", watermark, "s", better="lower", reason=None if watermark else missing),
    ]
    tell("agent_rings", taken_under, figures, given.json)


@dataclass(slots=True)
class Seen:
    """What was seen of the training."""

    cpu_share: float = 0.0
    data_ages_s: list[float] = field(default_factory=list)
    watermark_ages_s: list[float] = field(default_factory=list)


def backlog(place: Place, ranks: int, steps_per_s: float, looks: int) -> float:
    """Segments that an agent delivers in a second, of `looks` that wait in its spool."""
    ends = spooled(place, ranks, steps_per_s, looks)
    with place.agent():
        began = delivered = 0.0
        end = time.monotonic() + DRAIN_S_MAX
        while delivered < len(ends):
            now, count = time.monotonic(), place.taken_off(ends)
            if count and not delivered:  # from the first answer on: the start of the process is not what is asked
                began, first = now, count
            delivered = count
            if now > end:
                raise SystemExit(f"{delivered} of {len(ends)} requests were delivered in {DRAIN_S_MAX:.0f} s")
            time.sleep(0.01)
    segments = BUSY * ranks  # of a request
    return (len(ends) - first) * segments / max(1e-3, now - began)


def spooled(place: Place, ranks: int, steps_per_s: float, looks: int) -> list[tuple[str, int]]:
    """Fill the agent's spool as looks of the last minutes would have; where each request ends on disk."""
    spool = Spool(place.spool / "ring", 32 << 20, lambda *_: None)
    writers = [Rank(rank, ranks, BACKLOG_JOB) for rank in range(ranks)]
    read = [0] * (BUSY * ranks)
    now_ns = time.time_ns() - round(looks * LOOK_S * 1e9)
    ends = []
    for _ in range(looks):
        segments = []
        for step in range(round(LOOK_S * steps_per_s)):
            for writer in writers:
                writer.step(now_ns + round(step / steps_per_s * 1e9), round(1e9 / steps_per_s))
        now_ns += round(LOOK_S * 1e9)
        memories = [memory for writer in writers for memory in writer.memories[:BUSY]]
        for number, memory in enumerate(memories):
            reading = read_segment(memory, read[number])
            segments.append(Segment(reading.segment, reading.last - read[number], f"ring/{number}", reading.last))
            read[number] = reading.last
        for item in parcels(segments, now_ns):
            spool.append(item)
            last = max((place.spool / "ring").glob("*.spool"))
            ends.append((last.name, last.stat().st_size))
    spool.close()
    return ends


def training(place: Place, ranks: int, steps_per_s: float, seconds: float) -> Seen:
    """Let ranks train and look what the agent takes, and how old the data is."""
    command = [sys.executable, __file__, "--ranks", str(ranks), "--steps-per-s", str(steps_per_s), "--rank"]
    environ = {**os.environ, "LEADLINE_RING_DIR": str(place.rings)}
    seen = Seen()
    with contextlib.ExitStack() as stack:
        agent = stack.enter_context(place.agent())
        for rank in range(ranks):
            stack.enter_context(running([*command, str(rank)], environ))
        time.sleep(min(WARM_S, seconds))
        began, used = time.monotonic(), cpu_s(agent.pid)
        while time.monotonic() - began < seconds:
            time.sleep(0.5)
            for sql, ages in ((AGE_SQL, seen.data_ages_s), (WATERMARK_SQL, seen.watermark_ages_s)):
                now_ns = time.time_ns()
                if newest_ns := place.number(sql):
                    ages.append((now_ns - newest_ns) / 1e9)
        seen.cpu_share = (cpu_s(agent.pid) - used) / (time.monotonic() - began)
    return seen


# --- one machine -------------------------------------------------------------------------------------------------


class Place:
    """A server of its own, and directories for an agent."""

    def __init__(self, directory: Path, rings: Path, port: int) -> None:
        self.rings, self.spool = rings, directory / "spool"
        self._directory = directory
        self._port, *otlp = [port + n for n in range(3)] if port else free_ports(3)
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")},
            "LEADLINE_SERVER__OTLP_HTTP_PORT": str(otlp[0]),
            "LEADLINE_SERVER__OTLP_GRPC_PORT": str(otlp[1]),
        }
        self._stack = contextlib.ExitStack()

    def __enter__(self) -> Place:
        command = [sys.executable, "-m", "leadline.cli.main", "up", "--data-dir", str(self._directory / "store"),
                   "--port", str(self._port)]  # fmt: skip
        server = self._stack.enter_context(running(command, self._environ, self._directory))
        end = time.monotonic() + READY_S_MAX
        while not self._is_ready():
            if server.poll() is not None or time.monotonic() > end:
                self._stack.close()
                raise SystemExit("the server did not start")
            time.sleep(0.2)
        return self

    def __exit__(self, *_: object) -> None:
        self._stack.close()

    def agent(self) -> contextlib.AbstractContextManager[subprocess.Popen[bytes]]:
        """An agent with default settings, but for where things are."""
        command = [sys.executable, "-m", "leadline.host.main", "--server", f"http://127.0.0.1:{self._port}",
                   "--spool", str(self.spool), "--ring-dir", str(self.rings), "--host", "bench"]  # fmt: skip
        return running(command, self._environ, self._directory)

    def taken_off(self, ends: list[tuple[str, int]]) -> int:
        """How many of the spooled requests are delivered."""
        try:
            found = json.loads((self.spool / "ring" / "position").read_text())
        except ValueError:  # read while it is replaced
            return 0
        return sum((name, end) <= (found["file"], found["position"]) for name, end in ends)

    def number(self, sql: str) -> int:
        """The one number that a query finds; 0 if it finds none."""
        status, answer = self._ask("POST", "/api/v1/sql", json.dumps({"sql": sql}))
        rows = json.loads(answer).get("rows", []) if status == 200 else []
        return int(next(iter(rows[0].values())) or 0) if rows else 0

    def _is_ready(self) -> bool:
        try:
            return self._ask("GET", "/ready")[0] == 200
        except OSError:
            return False

    def _ask(self, method: str, path: str, body: str | None = None) -> tuple[int, bytes]:
        connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=30)
        with contextlib.closing(connection):
            connection.request(method, path, body, {"Content-Type": "application/json"})
            answer = connection.getresponse()
            return answer.status, answer.read()


@contextlib.contextmanager
def running(
    command: list[str], environ: dict[str, str], directory: Path | None = None
) -> Iterator[subprocess.Popen[bytes]]:
    """A process that is ended in order."""
    quiet = subprocess.DEVNULL
    process = subprocess.Popen(bound_to_parent(command), env=environ, cwd=directory or ROOT, stdout=quiet, stderr=quiet)
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(30)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now."""
    with contextlib.ExitStack() as stack:
        probes = [stack.enter_context(socket.socket()) for _ in range(count)]
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]


def cpu_s(pid: int) -> float:
    """CPU seconds of a process and all its threads."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def percentile(values: list[float], share: float) -> float | None:
    """That percentile; None of nothing."""
    if len(values) < 2:
        return values[0] if values else None
    return statistics.quantiles(values, n=100, method="inclusive")[round(share * 100) - 1]


# --- a rank ------------------------------------------------------------------------------------------------------


class Rank:
    """The rings of one rank, in files or in memory only, and what a step writes into them."""

    def __init__(self, rank: int, ranks: int, job: str, directory: Path | None = None) -> None:
        self._comm, self._ranks = f"{job}/0x9c", ranks
        self._step = self._seq = 0
        self.memories = [ring_memory(directory, job, rank, ranks, thread) for thread in range(RINGS)]
        self._main, self._autograd, *self._backend, self._announcer = map(RingWriter, self.memories)

    def step(self, start_ns: int, lasts_ns: int) -> None:
        """One step, that begins then."""
        self._main.step_begin(self._step, start_ns)
        for number in range(COLLECTIVES):
            begin_ns = start_ns + lasts_ns * (number + 1) // (COLLECTIVES + 2)
            what = (self._comm, self._seq, "all_reduce", "float32", 25 << 20, self._ranks, begin_ns)
            self._autograd.collective_begin(*what)
            self._backend[number % 2].collective_end(*what, begin_ns + lasts_ns // (COLLECTIVES + 2))
            self._seq += 1
        self._main.step(self._step, start_ns, start_ns + lasts_ns, forward_ns=lasts_ns // 3, backward_ns=lasts_ns // 2)
        if self._step % 200 == 0:
            self._announcer.clock_pair(start_ns, time.monotonic_ns())
        self._step += 1


def ring_memory(directory: Path | None, job: str, rank: int, ranks: int, thread: int) -> mmap.mmap:
    """A ring: a file in `directory`, or nobody's memory."""
    if directory is None:
        memory = mmap.mmap(-1, ring_bytes(RECORDS))
    else:
        part = directory / f".{job}-{rank}-{thread}.part"
        with part.open("w+b") as file:
            file.truncate(ring_bytes(RECORDS))
            memory = mmap.mmap(file.fileno(), 0)
            fcntl.flock(os.dup(file.fileno()), fcntl.LOCK_EX)
    ticks = int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    format_ring(
        memory, host="bench", job=job, rank=rank, world_size=ranks, source="torch-hook", pid=os.getpid(),
        tid=os.getpid() + thread, boot_id=bytes(16), start_ns=time.time_ns(),
        start_monotonic_ns=time.monotonic_ns(), pid_start_ticks=ticks,
    )  # fmt: skip
    if directory is not None:
        part.rename(directory / f"{job}-{rank}-{thread}.ring")
    return memory


def train(rank: int, ranks: int, steps_per_s: float) -> None:
    """One rank: steps until it is ended."""
    writer = Rank(rank, ranks, JOB, Path(os.environ["LEADLINE_RING_DIR"]))
    lasts_s = 1 / steps_per_s
    due = time.time()
    while True:
        due += lasts_s
        time.sleep(max(0.0, due - time.time()))
        writer.step(round((due - lasts_s) * 1e9), round(lasts_s * 1e9))  # told when it has ended


if __name__ == "__main__":
    sys.path.insert(0, str(ROOT))
    main()
