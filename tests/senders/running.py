"""Real programs for the time of a `with`: `leadline up` itself, and those that send to it. Always stopped."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psutil

READY_S_MAX = 90.0  # a machine that is busy with other things; idle it is 2 to 3 s
T = TypeVar("T")


def free_ports(count: int) -> list[int]:
    """Ports that are free now."""
    probes = [socket.socket() for _ in range(count)]
    try:
        for probe in probes:
            probe.bind(("127.0.0.1", 0))
        return [probe.getsockname()[1] for probe in probes]
    finally:
        for probe in probes:
            probe.close()


def wait_for(what: str, look: Callable[[], T], timeout_s: float = 30.0, every_s: float = 0.1) -> T:
    """The first true value of `look`. Errors: AssertionError naming `what` and the last value."""
    end = time.monotonic() + timeout_s
    while True:
        found = look()
        if found:
            return found
        if time.monotonic() > end:
            raise AssertionError(f"waited {timeout_s:.0f} s for {what}; last seen: {found!r:.2000}")
        time.sleep(every_s)


class RunningLeadline:
    """`leadline up` on free loopback ports with a store of its own, as a process with its children."""

    def __init__(self, directory: Path, environ: Mapping[str, str] | None = None, args: Sequence[str] = ()) -> None:
        self.directory = directory
        self.store = directory / "store"
        self.port, self.otlp_http_port, self.otlp_grpc_port = free_ports(3)
        self.url = f"http://127.0.0.1:{self.port}"
        self.log = directory / "leadline.log"
        self.environ = {
            **{name: value for name, value in os.environ.items() if not name.startswith("LEADLINE_")},
            "LEADLINE_SERVER__PORT": str(self.port),
            "LEADLINE_SERVER__OTLP_HTTP_PORT": str(self.otlp_http_port),
            "LEADLINE_SERVER__OTLP_GRPC_PORT": str(self.otlp_grpc_port),
            "LEADLINE_STORE__PATH": str(self.store),
            # Worker processes take seconds of CPU to start: who tests analyses turns them on.
            "LEADLINE_RUNNER__ENABLED": "false",
            **(environ or {}),
        }
        self.command = [sys.executable, "-m", "leadline.cli.main", "up", *args]
        self.process: subprocess.Popen[bytes] | None = None
        self.http = httpx.Client(base_url=self.url, trust_env=False, timeout=30.0)

    def __enter__(self) -> RunningLeadline:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.end()
        self.http.close()

    def start(self) -> float:
        """Start it; returns the seconds until it was ready."""
        began = time.monotonic()
        self.spawn()
        self.wait_ready()
        return time.monotonic() - began

    def spawn(self) -> None:
        """Start it without waiting."""
        with self.log.open("ab") as log:
            self.process = subprocess.Popen(
                self.command, cwd=self.directory, env=self.environ, stdout=log, stderr=subprocess.STDOUT
            )

    def wait_ready(self, other_than: int = 0) -> int:
        """Wait until a server process other than `other_than` is ready; returns its pid."""

        def look() -> int:
            assert self.process is not None
            assert self.process.poll() is None, f"leadline up ended with {self.process.returncode}:\n{self.said()}"
            try:
                answer = self.http.get("/ready", timeout=5.0)
            except httpx.HTTPError:
                return 0
            pid = int(answer.json()["pid"]) if answer.status_code == 200 else 0
            return pid if pid != other_than else 0

        return wait_for("leadline up to be ready", look, READY_S_MAX, 0.05)

    def said(self) -> str:
        """What it printed."""
        return self.log.read_text(errors="replace") if self.log.exists() else ""

    def stop(self, how: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to stop and return its exit code."""
        assert self.process is not None
        self.process.send_signal(how)
        return self.process.wait(40)

    def children(self) -> list[psutil.Process]:
        """Its processes but the supervisor."""
        assert self.process is not None
        return psutil.Process(self.process.pid).children(recursive=True)

    def end(self) -> None:
        """Stop it whatever its state, and wait for its children."""
        if self.process is None or self.process.poll() is not None:
            return
        children = self.children()
        self.process.terminate()
        try:
            self.process.wait(40)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
        for child in psutil.wait_procs(children, 10)[1]:
            child.kill()

    def sql(self, query: str, **headers: str) -> list[dict[str, Any]]:
        """Rows of a SELECT."""
        given = {name.replace("_", "-"): value for name, value in headers.items()}
        answer = self.http.post("/api/v1/sql", json={"sql": query}, headers=given)
        assert answer.status_code == 200, answer.text
        rows: list[dict[str, Any]] = answer.json()["rows"]
        return rows

    def doctor(self) -> dict[str, Any]:
        """The diagnosis."""
        found: dict[str, Any] = self.http.get("/api/v1/doctor").json()
        return found

    def refused(self) -> dict[tuple[str, str], int]:
        """What was refused since the start, by counter and reason."""
        return {(each["counter"], each["reason"]): each["amount"] for each in self.doctor()["refused"]}

    def source(self, name: str) -> dict[str, Any] | None:
        """The source whose name contains `name`."""
        return next((each for each in self.doctor()["sources"] if name in each["name"]), None)


@contextmanager
def running(command: Sequence[str], log: Path) -> Iterator[subprocess.Popen[bytes]]:
    """Another program for the time of a `with`."""
    with log.open("ab") as out:
        process = subprocess.Popen(command, stdout=out, stderr=subprocess.STDOUT, cwd=log.parent)
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(15)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


class Pages:
    """A double of an exporter: answers each path with what `answers` says; a path not in it is a 404.

    An answer is (status, headers, body) or a function that gets the handler and writes to it.
    """

    def __init__(self) -> None:
        self.answers: dict[str, Any] = {}
        pages = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                answer = pages.answers.get(self.path, (404, {}, b""))
                if callable(answer):
                    answer(self)
                    return
                status, headers, body = answer
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        class Server(ThreadingHTTPServer):
            daemon_threads = True

            def handle_error(self, *_: object) -> None:
                pass  # whoever reads us may hang up when it likes

        self._server = Server(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self._server.server_address[1]}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True)

    def __enter__(self) -> Pages:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


def node_exporter(port: int) -> list[str]:
    """Command of a node_exporter."""
    return ["prometheus-node-exporter", f"--web.listen-address=127.0.0.1:{port}"]


def ndjson(rows: Sequence[Mapping[str, Any]]) -> bytes:
    """Rows as a body for /api/v1/rows."""
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def imported(tenant: str) -> dict[str, str]:
    """Headers of an operator who brings rows of a tenant: verdicts are not for tenants to send."""
    return {"leadline-tenant": tenant, "leadline-role": "operator"}
