"""The processes of `leadline up`: starting, stopping, dying, refusing to start. Each test runs the real command."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
import time
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
from tests.senders.running import Pages, RunningLeadline, imported, ndjson, wait_for
from tests.unit.views.incidents import incident_rows as made
from typer.testing import CliRunner

from leadline.cli.main import app
from leadline.server.sockets import listening_on
from leadline.store import Store, StoreConfig

EXIT_CANNOT_START = 2


def row(number: int) -> dict[str, object]:
    """A row of `event`, told apart by its number."""
    return {
        "time_ns": time.time_ns(), "entity_kind": "host", "entity": "host:n1", "kind": "test", "severity": "info",
        "code": str(number), "message": "", "attributes": {}, "source": "test", "host": "n1", "clock": "n1/1",
    }  # fmt: skip


class Writer:
    """Sends rows one request after the other until refused; remembers which were acknowledged."""

    def __init__(self, leadline: RunningLeadline, first: int) -> None:
        self.acknowledged: list[int] = []
        self.other: list[str] = []  # answers that are neither an acknowledgement nor a refusal
        self._url = f"{leadline.url}/api/v1/rows/event"
        self._first = first
        self.thread = threading.Thread(target=self._run)
        self.thread.start()

    def _run(self) -> None:
        number = self._first
        with httpx.Client(trust_env=False, timeout=30) as client:
            while True:
                try:
                    answer = client.post(
                        self._url, content=ndjson([row(number)]), headers={"content-type": "application/x-ndjson"}
                    )
                except httpx.ConnectError:
                    return
                except httpx.HTTPError as error:
                    self.other.append(repr(error))
                    return
                if answer.status_code in (429, 503):
                    return
                if answer.status_code != 200:
                    self.other.append(answer.text)
                    return
                self.acknowledged.append(number)
                number += 1


def stored(path: Path) -> list[int]:
    """The numbers of all rows in a store, as another process finds them."""
    store = Store(StoreConfig(path=str(path)))
    store.start()
    try:
        return sorted(int(code) for code in store.query("SELECT code FROM leadline.event")["code"].to_pylist())
    finally:
        store.stop()


def gone(processes: list[psutil.Process], timeout_s: float) -> bool:
    """Whether all of them ended in that time."""
    return not psutil.wait_procs(processes, timeout_s)[1]


def stopped_in_order(leadline: RunningLeadline, how: signal.Signals, first: int) -> list[int]:
    """Stops it while four write; the numbers of theirs that it acknowledged."""
    children = leadline.children()
    assert children
    writers = [Writer(leadline, first + 1_000_000 * n) for n in range(4)]
    wait_for("rows", lambda: all(len(writer.acknowledged) >= 3 for writer in writers))
    assert leadline.stop(how) == 0
    for writer in writers:
        writer.thread.join(30)
    assert gone(children, 5)
    # Requests in flight were answered: a connection is closed between requests, not within one.
    assert [writer.other for writer in writers] == [[]] * 4
    return sorted(number for writer in writers for number in writer.acknowledged)


def test_a_signal_stops_in_order_and_what_was_acknowledged_is_stored(tmp_path: Path) -> None:
    """Also in a folder with files of Python, of which none is taken for a library."""
    for name in ("click", "uvicorn", "numpy", "pyarrow"):
        (tmp_path / f"{name}.py").write_text("raise SystemExit('a file of the working directory was run')")
    started = RunningLeadline(tmp_path)
    started.command[1:1] = ["-P"]  # as the installed program, whose own folder Python looks into
    with started as leadline:
        acknowledged = stopped_in_order(leadline, signal.SIGTERM, 0)
        assert stored(leadline.store) == acknowledged


@pytest.mark.slow
def test_server_that_crashes_is_started_again_and_the_store_is_intact(tmp_path: Path) -> None:
    """And the one that was started again stops in order too, this time by SIGINT."""
    with RunningLeadline(tmp_path) as leadline:
        pid = leadline.wait_ready()
        writers = [Writer(leadline, 1_000_000 * n) for n in range(3)]
        wait_for("rows", lambda: all(len(writer.acknowledged) >= 3 for writer in writers))
        os.kill(pid, signal.SIGKILL)
        for writer in writers:
            writer.thread.join(30)
        began = time.monotonic()
        leadline.wait_ready(other_than=pid)
        print(f"ready again {time.monotonic() - began:.1f} s after kill -9")
        assert "the server ended with signal SIGKILL; starting it again" in leadline.said()
        found = {int(each["code"]) for each in leadline.sql("SELECT code FROM event")}
        acknowledged = {number for writer in writers for number in writer.acknowledged}
        assert acknowledged <= found
        # At most the one request of each writer that was under way may be there too.
        assert len(found - acknowledged) <= len(writers)
        later = stopped_in_order(leadline, signal.SIGINT, 10_000_000)
        assert stored(leadline.store) == sorted([*found, *later])


@pytest.mark.slow
def test_supervisor_that_is_killed_takes_its_children_with_it(tmp_path: Path) -> None:
    with RunningLeadline(tmp_path, {"LEADLINE_RUNNER__ENABLED": "true"}) as leadline:
        children = leadline.children()
        assert len(children) >= 1, "the server, and the workers of its analyses"
        assert leadline.process is not None
        began = time.monotonic()
        leadline.process.kill()
        leadline.process.wait()
        assert gone(children, 10)  # 2 s at most on an idle machine; it stops in order, as by SIGTERM
        took_s = time.monotonic() - began
        print(f"children gone {took_s:.1f} s after the supervisor was killed")
        # The store was given back in order: the next one starts.
        leadline.spawn()
        leadline.wait_ready()


@pytest.mark.slow
def test_stop_while_a_target_hangs_and_a_connection_idles(tmp_path: Path) -> None:
    with Pages() as pages, socket.socket() as idle:
        pages.answers["/metrics"] = lambda handler: time.sleep(3)
        environ = {"LEADLINE_INGEST__SCRAPE": json.dumps([{"job": "x", "targets": [pages.address], "interval_s": 0.5}])}
        with RunningLeadline(tmp_path, environ) as leadline:
            idle.connect(("127.0.0.1", leadline.port))
            with httpx.Client(trust_env=False) as client:
                assert client.get(f"{leadline.url}/health").json() == {"state": "ok"}
                began = time.monotonic()
                assert leadline.stop() == 0
            assert time.monotonic() - began < 15


@pytest.mark.slow
def test_it_is_ready_soon_and_a_second_one_on_the_same_store_or_port_is_told_who_has_it(tmp_path: Path) -> None:
    began = time.monotonic()
    with RunningLeadline(tmp_path) as first:
        assert time.monotonic() - began < 30
        # It answers /ready a moment before its supervisor has asked it and says so.
        wait_for("it says where it is", lambda: f"Leadline is at {first.url} (ready after " in first.said())
        pid = first.wait_ready()
        said = refused(RunningLeadline(tmp_path), tmp_path / "same_store.log")
        assert f"the store at {first.store} is in use by pid {pid} (leadline up)" in said
        assert "choose another directory with --data-dir (store.path)" in said
        assert "starting it again" not in said
        assert "Traceback" not in said
        other = RunningLeadline(tmp_path, {"LEADLINE_SERVER__PORT": str(first.port)})
        other.environ["LEADLINE_STORE__PATH"] = str(tmp_path / "another")
        # Another Leadline that answers on our port is not taken for ours.
        said = refused(other, tmp_path / "same_port.log")
        assert "ready after" not in said
        assert "choose another with --port N" in said
        assert f"a Leadline answers at {first.url} already" in said
        assert first.wait_ready() == pid


def refused(leadline: RunningLeadline, log: Path) -> str:
    """What one says that cannot start."""
    leadline.log = log
    leadline.spawn()
    assert leadline.process is not None
    assert leadline.process.wait(60) == EXIT_CANNOT_START
    return leadline.said()


@pytest.mark.parametrize(
    "which", ["port", *(pytest.param(f"otlp_{kind}_port", marks=pytest.mark.slow) for kind in ("http", "grpc"))]
)
def test_a_port_that_another_has_is_named(tmp_path: Path, which: str) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        leadline = RunningLeadline(tmp_path, {f"LEADLINE_SERVER__{which.upper()}": str(taken)})
        said = refused(leadline, leadline.log)
        assert f"127.0.0.1:{taken}" in said
        assert f"server.{which}" in said
        assert "Traceback" not in said
        assert "ready after" not in said


@pytest.mark.parametrize(
    ("config", "environ", "texts"),
    [
        (
            "",
            {"LEADLINE_SERVER__HOST": "0.0.0.0"},
            ["server.host is '0.0.0.0'", "leadline token create", "--token-file"],
        ),
        ("server:\n  port: much\n", {"LEADLINE_SERVER__PORT": ""}, ["leadline.yaml, line 2", "server.port"]),
        ("server:\n  prot: 1\n", {}, ["leadline.yaml, line 2", "did you mean port?"]),
        ("ingest:\n  scrape:\n    - job: a\n      targets: [a/b]\n", {}, ["a/b", "expected host:port"]),
        ("a: [1\n", {}, ["leadline.yaml, line"]),
    ],
    ids=["all-addresses", "value", "name", "target", "yaml"],
)
def test_wrong_settings_are_refused_with_their_place(
    tmp_path: Path, config: str, environ: dict[str, str], texts: list[str]
) -> None:
    (tmp_path / "leadline.yaml").write_text(config)
    leadline = RunningLeadline(tmp_path, environ)
    leadline.environ = {name: value for name, value in leadline.environ.items() if value}
    said = refused(leadline, leadline.log)
    assert all(text in said for text in texts), said
    assert "Traceback" not in said
    assert said.count("leadline: ") == 1


def test_what_lasted_when_it_stopped_is_closed_after_a_long_outage(tmp_path: Path) -> None:
    """An incident, its symptom and an anomaly are told as lasting two hours ago; then nobody watches."""
    seen_ns = (time.time_ns() // 10**9 - 7200) * 10**9
    shift_ns = seen_ns - made.NOW
    rows = {
        "incident": made.incident(made.FLAP, "bert-1", -48),
        "symptom": made.symptom("bert-1", -48),
        "anomaly": made.anomaly(made.NOW - 48 * 10**9, made.NOW),
    }
    with RunningLeadline(tmp_path) as server:
        for table, row in rows.items():
            moved = {
                name: value + shift_ns if name in ("start_ns", "earliest_ns", "reported_ns", "seen_ns") else value
                for name, value in row.items()
                if name not in ("tenant", "cluster")
            }
            answer = server.http.post(f"/api/v1/rows/{table}", content=ndjson([moved]), headers=imported("acme"))
            assert answer.status_code == 200, answer.text
        (before,) = server.http.get("/api/v1/incidents").json()["incidents"]
        assert (before["state"], before["unwatched"]) == ("open", False)
        assert server.http.get("/api/v1/diagnosis").json()["incidents"][0]["state"] == "open"
        assert server.stop() == 0
        server.environ["LEADLINE_RUNNER__ENABLED"] = "true"
        server.start()

        def closed() -> dict[str, Any] | None:
            (now,) = server.http.get("/api/v1/incidents").json()["incidents"]
            return now if now["state"] == "over" else None

        after = wait_for("the incident to be closed", closed, 60)
        assert after is not None
        assert (after["end_ns"], after["unwatched"]) == (seen_ns, True)
        told = server.http.get("/api/v1/diagnosis").json()
        assert told["state"] != "critical", "what nobody watches is no alarm"
        assert [one["unwatched"] for one in told["incidents"]] == [True]
        (symptom,) = server.http.get("/api/v1/symptoms").json()["symptoms"]
        assert (symptom["state"], symptom["end_ns"]) == ("unwatched", seen_ns)
        (host,) = server.http.get("/api/v1/anomalies", params={"from": "-4h"}).json()["entities"]
        assert (host["lasts"], host["metrics"][0]["unwatched"]) == (False, True)
        page = CliRunner().invoke(app, ["diagnose", made.FLAP, "--server", server.url]).output
        assert "no data since then" in " ".join(page.split())
        totals = server.http.get("/metrics").text
        assert 'leadline_analysis_late_total{reason="unwatched"} 3.0' in totals


def test_what_is_served_is_sent_at_once() -> None:
    """A small second piece of an answer must not wait 40 ms for the acknowledgement of the first (Nagle)."""
    (listening,) = listening_on("127.0.0.1", 0, "server.port")
    with listening:
        assert listening.proto == socket.IPPROTO_TCP, "asyncio switches the delay off only where it sees TCP"
