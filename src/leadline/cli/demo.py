"""`leadline up --demo`: real senders of this machine, and a picture on the terminal of what arrives from them."""

from __future__ import annotations

import dataclasses
import shutil
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from typing import Any

import httpx
from rich.console import Group
from rich.live import Live
from rich.text import Text

from leadline.cli.doctor import sources_table
from leadline.cli.output import console, size
from leadline.ingest.config import ScrapeJob
from leadline.server.config import Config, Flag
from leadline.server.supervisor import bound_to_parent

EXPORTERS = ("prometheus-node-exporter", "node_exporter")
SCRAPE_EVERY_S = 5.0
REFRESH_S = 1.0
PATIENCE_S = 60.0  # what `--once` gives the senders
ENOUGH_REQUESTS = 3  # arrived more than once: it keeps arriving


class Senders:
    """The demonstration's senders: the machine's node_exporter and a program with the OpenTelemetry SDK."""

    def __init__(self, settings: Config) -> None:
        self._settings = settings
        self._children: list[subprocess.Popen[bytes]] = []
        self._notes: list[str] = []
        self._expected = 0

    def start_exporter(self) -> Flag:
        """Start node_exporter; returns the setting that makes Leadline scrape it."""
        jobs = [dataclasses.asdict(job) for job in self._settings.ingest.scrape]
        program = next((path for name in EXPORTERS if (path := shutil.which(name))), None)
        if program is None:
            self._notes.append("node_exporter is not installed (Debian: prometheus-node-exporter); going on without")
        else:
            address = f"127.0.0.1:{_free_port()}"
            self._spawn([program, f"--web.listen-address={address}"])
            jobs.append(
                dataclasses.asdict(
                    ScrapeJob(
                        job="node",
                        targets=[address],
                        # The target is a loopback address; this says which host that is.
                        labels={"nodename": socket.gethostname()},
                        interval_s=SCRAPE_EVERY_S,
                        timeout_s=4.0,
                    )
                )
            )
            self._expected += 1
        return Flag("--demo", "ingest", "scrape", jobs)

    def start_program(self) -> None:
        """Start the program with the OpenTelemetry SDK."""
        endpoint = f"{self._settings.server.host_in_url}:{self._settings.server.otlp_grpc_port}"
        self._spawn([sys.executable, "-m", "leadline.cli.otel_example", endpoint])
        self._expected += 1

    def _spawn(self, command: list[str]) -> None:
        self._children.append(
            subprocess.Popen(
                bound_to_parent(command),
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                start_new_session=True,
            )
        )

    def stop(self) -> None:
        """End the senders."""
        for child in self._children:
            child.terminate()
        for child in self._children:
            try:
                child.wait(5.0)
            except subprocess.TimeoutExpired:
                child.kill()
                child.wait()

    def show(self, url: str, once: bool) -> Iterator[int | None]:
        """Draw what arrives, a step at each `next`; yields an exit code when `once` is satisfied or gives up."""
        self.start_program()
        out = console()
        for note in self._notes:
            out.print(f"  {note}")
        began = time.monotonic()
        drawn = 0.0
        told = False
        with ExitStack() as stack:
            client = stack.enter_context(httpx.Client(trust_env=False, timeout=5.0, base_url=url))
            # Where the output is no terminal nothing is redrawn: one picture, when all have arrived.
            live = stack.enter_context(Live(console=out, auto_refresh=False)) if out.is_terminal else None
            while True:
                found = None
                if time.monotonic() - drawn >= REFRESH_S:
                    drawn = time.monotonic()
                    found = _ask(client)
                if found is not None:
                    if live is not None:
                        live.update(picture(found), refresh=True)
                    arrived = self._arrived(found)
                    if arrived and not told:
                        told = True
                        if live is None:
                            out.print(picture(found))
                        if live is None or once:
                            _summary(client, time.monotonic() - began)
                    if once and arrived:
                        yield 0
                    if once and time.monotonic() - began > PATIENCE_S:
                        out.print(picture(found))
                        out.print(f"not every sender arrived within {PATIENCE_S:.0f} s", style="red")
                        yield 1
                yield None

    def _arrived(self, found: dict[str, Any]) -> bool:
        there = sum(1 for source in found["sources"] if source["requests"] >= ENOUGH_REQUESTS)
        return there >= self._expected


def _summary(client: httpx.Client, took_s: float) -> None:
    stored = client.post("/api/v1/sql", json={"sql": SUMMARY_SQL}).json()["rows"][0]
    console().print(
        f"\n{stored['samples']} samples of {stored['streams']} streams about {stored['entities']} entities "
        f"are in the store, {took_s:.0f} s after the first sender started. Ask for them:\n"
        f'  .venv/bin/leadline sql "{EXAMPLE_SQL}"\n',
        soft_wrap=True,
    )
    sys.stdout.flush()


SUMMARY_SQL = (
    "SELECT (SELECT count() FROM metric_sample) AS samples, count() AS streams, "
    "uniqExactIf(entity, entity != '') AS entities FROM series"
)
EXAMPLE_SQL = "SELECT entity, count() AS streams FROM series GROUP BY entity ORDER BY streams DESC LIMIT 5"


def picture(found: dict[str, Any]) -> Group:
    """What arrives, from what, how fresh."""
    taken = found["accepted"]
    stored = sum(each["bytes"] for each in found["tables"])
    line = Text(
        f"{taken['samples']} samples and {taken['rows']} rows stored, {size(stored)} on disk, "
        f"{found['series_known']} streams known"
    )
    return Group(Text(""), sources_table(found), Text(""), line)


def _ask(client: httpx.Client) -> dict[str, Any] | None:
    try:
        answer = client.get("/api/v1/doctor")
    except httpx.HTTPError:
        return None  # the supervisor is starting the server again; the picture stays as it was
    return answer.json() if answer.status_code == 200 else None


def _free_port() -> int:
    """A port that is free now. Another program could take it before we use it; the scrape would then fail openly."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port
