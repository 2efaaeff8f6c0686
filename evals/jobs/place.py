"""One machine as its user runs Leadline on it: `leadline up`, `leadline agent`, and his jobs, with default settings.

    torchrun ── rings ──> agent ── HTTP ──> Relay ── HTTP ──> server

Set are only what lets several run on one machine beside each other: ports, and the directories of store, spool, rings.
"""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import httpx
import psutil

from evals.jobs.relay import Relay
from leadline.host.bound import bound_to_parent
from leadline.model.errors import WorldError

HERE = Path(__file__).parent
MARKED, UNMARKED = HERE / "train.py", HERE / "train_unmarked.py"
READY_S_MAX = 90.0  # of the server; 4 s on an idle machine
END_S_MAX = 40.0  # of a program that was asked to end
START_S_MAX = 180.0  # a job that has made no step then will make none
LOOK_S = 0.05
PORTS = (20_000, 32_000)  # below those that the kernel draws from (ip_local_port_range, from 32768)
# Of the environment that this runs in. Without written bytecode every rank would compile torch anew, for seconds.
NOT_A_USERS = ("LEADLINE_", "TORCH", "PYTHONDONTWRITEBYTECODE")
LEADLINE = (sys.executable, "-m", "leadline.cli.main")


def free_ports(count: int) -> list[int]:
    """Ports of loopback that are free now, and that the kernel gives to nobody else until they are used."""
    found: list[int] = []
    while len(found) < count:
        port = random.randrange(*PORTS)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            found += [port] if port not in found else []
    return found


class Place:
    """Server, agent and relay of one directory. `port`: the first of four; 0: any free ones."""

    def __init__(self, directory: Path, port: int = 0) -> None:
        self.directory = directory
        ports = list(range(port, port + 4)) if port else free_ports(4)
        self.port, otlp_http, otlp_grpc, self.relay_port = ports
        self.relay = Relay(self.relay_port, self.port)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30.0)
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_A_USERS)},
            "LEADLINE_SERVER__OTLP_HTTP_PORT": str(otlp_http),
            "LEADLINE_SERVER__OTLP_GRPC_PORT": str(otlp_grpc),
            "LEADLINE_AGENT__RING_DIR": str(self.rings),
            "LEADLINE_AGENT__SPOOL": str(directory / "spool"),
        }
        self._server: subprocess.Popen[bytes] | None = None
        self._agent: subprocess.Popen[bytes] | None = None

    @property
    def rings(self) -> Path:
        """Where the jobs of this place write."""
        return self.directory / "rings"

    def __enter__(self) -> Self:
        self.rings.mkdir(parents=True)
        self.relay.start()
        self.start_server()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop_agent()
        self.stop_server()
        self.relay.stop()
        self.http.close()

    # -- server ----------------------------------------------------------------------------------------------------

    def start_server(self) -> None:
        """`leadline up` on its directory, ready. Errors: WorldError with what it said."""
        options = ("--data-dir", str(self.directory / "store"), "--port", str(self.port))
        self._server = self._started("server", (*LEADLINE, "up", *options))
        end = time.monotonic() + READY_S_MAX
        while not self._is_ready():
            if self._server.poll() is not None or time.monotonic() > end:
                raise WorldError(f"leadline up is not ready; it said: {self.said('server')[-2000:]}")
            time.sleep(0.1)

    def stop_server(self) -> None:
        """As Ctrl-C does."""
        _end(self._server, signal.SIGTERM)

    def _is_ready(self) -> bool:
        try:
            return self.http.get("/ready", timeout=5.0).status_code == 200
        except httpx.HTTPError:
            return False

    # -- agent -----------------------------------------------------------------------------------------------------

    def start_agent(self) -> None:
        """`leadline agent --server URL`; nobody waits for it."""
        self._agent = self._started("agent", (*LEADLINE, "agent", "--server", f"http://127.0.0.1:{self.relay_port}"))

    def agent_runs(self) -> bool:
        """Whether it is there: one that ended by itself tells nothing, and not because of us."""
        return self._agent is not None and self._agent.poll() is None

    def stop_agent(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it in order, or with SIGKILL."""
        _end(self._agent, how)

    # -- jobs and answers ------------------------------------------------------------------------------------------

    def torchrun(self, job: str, ranks: int, script: Path, options: Sequence[str] = (), called: str = "") -> Job:
        """A job that runs from now on. `called`: the name that it gives itself, if not `job`."""
        directory = self.directory / "jobs" / job
        directory.mkdir(parents=True)
        launcher = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", str(ranks))
        command = [*launcher, "--master-port", str(free_ports(1)[0]), str(script), "--did", str(directory), *options]
        environ = {"LEADLINE_JOB": called or job, "LEADLINE_RING_DIR": str(self.rings), "OMP_NUM_THREADS": "1",
                   "GLOO_SOCKET_IFNAME": "lo"}  # fmt: skip
        with (directory / "said").open("ab") as said:
            process = subprocess.Popen(
                bound_to_parent(command), env={**self.environ, **environ}, cwd=directory, stdin=subprocess.PIPE,
                stdout=said, stderr=subprocess.STDOUT, start_new_session=True,
            )  # fmt: skip
        return Job(job, ranks, directory, process, script.name)

    def sql(self, query: str) -> list[dict[str, Any]]:
        """Rows of a SELECT. Errors: httpx.HTTPError while the server is away."""
        answer = self.http.post("/api/v1/sql", json={"sql": query})
        answer.raise_for_status()
        rows: list[dict[str, Any]] = answer.json()["rows"]
        return rows

    def diagnose(self, job: str) -> dict[str, Any]:
        """What `leadline diagnose JOB --output json` says. Errors: WorldError if it is no JSON."""
        command = [*LEADLINE, "diagnose", job, "--server", str(self.http.base_url), "--output", "json"]
        said = subprocess.run(
            command, env=self.environ, cwd=self.directory, capture_output=True, text=True, check=False
        )
        try:
            found: dict[str, Any] = json.loads(said.stdout)
        except ValueError as error:
            raise WorldError(f"leadline diagnose {job}: {said.stderr[-500:]}{said.stdout[-500:]}") from error
        return found

    def said(self, program: str) -> str:
        """What `server` or `agent` printed."""
        return (self.directory / f"{program}.log").read_text(errors="replace")

    def _started(self, name: str, command: Sequence[str]) -> subprocess.Popen[bytes]:
        with (self.directory / f"{name}.log").open("ab") as log:
            return subprocess.Popen(
                bound_to_parent(list(command)), env=self.environ, cwd=self.directory, stdin=subprocess.DEVNULL,
                stdout=log, stderr=subprocess.STDOUT,
            )  # fmt: skip


@dataclass(slots=True)
class Job:
    """A `torchrun` and its ranks."""

    name: str
    ranks: int
    directory: Path
    process: subprocess.Popen[bytes]
    script: str
    _pids: dict[int, int] = field(default_factory=dict)

    def pids(self) -> Mapping[int, int]:
        """Process of each rank, once all of them are there; else empty."""
        if len(self._pids) < self.ranks:
            self._pids = {rank: pid for rank, pid in self._looked() if self.script in _command(pid)}
        return self._pids if len(self._pids) == self.ranks else {}

    def _looked(self) -> Iterator[tuple[int, int]]:
        with contextlib.suppress(psutil.NoSuchProcess):
            for child in psutil.Process(self.process.pid).children():
                with contextlib.suppress(psutil.Error, KeyError):
                    yield int(child.environ()["RANK"]), child.pid

    def steps(self, rank: int = 0) -> list[tuple[int, int]]:
        """What a rank says that it did: number and end, ns, of each step."""
        path = self.directory / f"{rank}.steps"
        lines = path.read_text().splitlines() if path.exists() else []
        return [(int(number), int(end_ns)) for number, end_ns in map(str.split, lines[:-1])]

    def said(self) -> str:
        """What the launcher and the ranks printed."""
        return (self.directory / "said").read_text(errors="replace")

    def end(self) -> None:
        """SIGTERM as a scheduler sends it; what is left after that is killed. Nothing if it has ended."""
        mine = [*self.pids().values()]
        _end(self.process, signal.SIGTERM)
        for pid in mine:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        if self.process.stdin:
            with contextlib.suppress(BrokenPipeError):
                self.process.stdin.close()


def wait_for_first_step(job: Job) -> float:
    """When it had made its first step, s of the monotonic clock. Errors: WorldError if it makes none."""
    end = time.monotonic() + START_S_MAX
    while not (job.pids() and job.steps()):
        if job.process.poll() is not None or time.monotonic() > end:
            raise WorldError(f"{job.name} made no step: {job.said()[-2000:]}")
        time.sleep(LOOK_S)
    return time.monotonic()


def _command(pid: int) -> str:
    with contextlib.suppress(psutil.Error):
        return " ".join(psutil.Process(pid).cmdline())
    return ""


def _end(process: subprocess.Popen[bytes] | None, how: signal.Signals) -> None:
    if process is None or process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(END_S_MAX)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
