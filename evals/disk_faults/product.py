"""The product under faults: its server process on a directory of its own, and how it is asked."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import httpx

from evals.disk_faults.judging import COUNTERS, about_rows
from evals.jobs.place import NOT_A_USERS, free_ports
from leadline.host.bound import bound_to_parent
from leadline.model.errors import WorldError

READY_S_MAX = 90.0
STOP_S_MAX = 40.0
ASK_S_MAX = 60.0  # for a statement: OPTIMIZE of all of a table
TABLES = ("metric_sample", "event", "relation")  # that rows are sent to


class Server:
    """One server process and its store. Not thread-safe but for `append` and `engine`."""

    def __init__(self, directory: Path, environ: Mapping[str, str]) -> None:
        """`directory`: new; the store is `directory`/store. `environ`: for the process, of the library."""
        self.directory, self.crashes = directory, 0
        self.store = directory / "store"
        self.port, otlp_http, otlp_grpc = free_ports(3)
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", trust_env=False, timeout=30.0)
        # Abstract: a path may have 108 bytes at most, and directories of tests are longer.
        self._door = f"leadline-faults-on-disk-{os.getpid()}-{self.port}"
        self._environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith(NOT_A_USERS)},
            **environ,
            "LEADLINE_SERVER__PORT": str(self.port),
            "LEADLINE_SERVER__OTLP_HTTP_PORT": str(otlp_http),
            "LEADLINE_SERVER__OTLP_GRPC_PORT": str(otlp_grpc),
            "LEADLINE_STORE__PATH": str(self.store),
            # Verdicts are appends like others, and analyses take half of the time.
            "LEADLINE_RUNNER__ENABLED": "false",
        }
        self._process: subprocess.Popen[bytes] | None = None

    # --- life ---

    def start(self) -> float:
        """Start it and wait until it is ready, s. Errors: WorldError if it ends, or is not ready in time."""
        began = time.monotonic()
        with (self.directory / "log").open("ab") as log:
            self._process = subprocess.Popen(
                bound_to_parent([sys.executable, "-m", "evals.disk_faults.served", self._door]),
                env=self._environ, cwd=Path(__file__).parents[2], stdin=subprocess.DEVNULL, stdout=log, stderr=log,
            )  # fmt: skip
        while time.monotonic() - began < READY_S_MAX:
            if self._process.poll() is not None:
                raise WorldError(f"the server ended with {self._process.returncode}: {self.log()[-1500:]}")
            # It answers 503 while it says that a table cannot be read: it is there all the same.
            if self.ready() != 0:
                return time.monotonic() - began
            time.sleep(0.1)
        raise WorldError(f"the server was not ready within {READY_S_MAX:.0f} s: {self.log()[-1500:]}")

    def stop(self, how: signal.Signals = signal.SIGTERM) -> None:
        """End it; harmless if it has ended."""
        if self._process is None:
            return
        if self._process.poll() is None:
            self._process.send_signal(how)
            try:
                self._process.wait(STOP_S_MAX)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
        self._process = None

    def close(self) -> None:
        """End it at once."""
        self.stop(signal.SIGKILL)
        self.http.close()

    def revived(self) -> bool:
        """Start it again if it ended by itself, as the supervisor does; whether it had. Errors: WorldError."""
        if self._process is None or self._process.poll() is None:
            return False
        self.crashes += 1
        self.start()
        return True

    def log(self) -> str:
        """What it printed."""
        return (self.directory / "log").read_text(errors="replace")

    # --- what it says ---

    def ready(self) -> int:
        """The status of /ready; 0 without an answer."""
        try:
            return self.http.get("/ready", timeout=10.0).status_code
        except httpx.HTTPError:
            return 0

    def says(self) -> list[str]:
        """Everything by which it says that stored rows cannot be read. Without an answer: nothing."""
        found: list[str] = []
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            answer = self.http.get("/ready", timeout=10.0)
            if answer.status_code != 200:
                found.append(f"/ready {answer.status_code}: {answer.text[:200]}")
        with contextlib.suppress(httpx.HTTPError, ValueError, KeyError):
            found += about_rows(self.http.get("/api/v1/doctor").json()["findings"])
        with contextlib.suppress(httpx.HTTPError):
            for line in self.http.get("/metrics").text.splitlines():
                name, _, value = line.rpartition(" ")
                if any(name == f'leadline_store_disk_total{{reason="{each}"}}' for each in COUNTERS) and float(value):
                    found.append(line)
        return found

    def sql(self, query: str) -> list[dict[str, Any]] | None:
        """Rows of a SELECT, as a user asks; None if it fails."""
        try:
            answer = self.http.post("/api/v1/sql", json={"sql": query})
            answer.raise_for_status()
            rows: list[dict[str, Any]] = answer.json()["rows"]
        except (httpx.HTTPError, ValueError, KeyError):
            return None
        return rows

    # --- what only the harness asks ---

    def engine(self, statement: str) -> list[list[Any]]:
        """Have the engine run a statement beside the product. Errors: WorldError with what it says."""
        try:
            with socket.socket(socket.AF_UNIX) as caller:
                caller.settimeout(ASK_S_MAX)
                caller.connect("\0" + self._door)
                with caller.makefile("rw") as lines:
                    lines.write(statement + "\n")
                    lines.flush()
                    answer = json.loads(lines.readline())
        except (OSError, ValueError) as error:
            raise WorldError(f"{statement}: no answer ({error})") from error
        if "error" in answer:
            raise WorldError(f"{statement}: {answer['error']}")
        rows: list[list[Any]] = answer["rows"]
        return rows

    def spoilt(self) -> tuple[str, ...]:
        """Parts of any table that the engine finds broken when it reads all of them."""
        found = []
        names = [str(row[0]) for row in self.engine(_FILLED)]
        for table in names:
            try:
                rows: Sequence[Sequence[Any]] = self.engine(f"CHECK TABLE leadline.{table}")
            except WorldError as error:
                found.append(f"{table}: {str(error)[:200]}")
                continue
            found += [f"{table}/{part}: {why[:200]}" for part, passed, why in rows if not passed]
        return tuple(found)

    def aside(self) -> list[str]:
        """Parts in detached/, by their paths below the store."""
        found = self.store.glob("store/*/*/detached/*")
        return sorted(str(each.relative_to(self.store)) for each in found if each.is_dir())


_FILLED = "SELECT DISTINCT table FROM system.parts WHERE active AND database = 'leadline' ORDER BY table"
