"""`leadline backfill`, `leadline show analyses` and the doctor's section about them, against a double of the API."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
import yaml
from tests.unit.cli.conftest import Run

from leadline.cli.backfill import span
from leadline.cli.show.analyses import took
from leadline.model.errors import UsageError

NOW_NS = 1_750_000_000 * 10**9
GRAPH = {
    "name": "graph", "version": 1, "doc": "Where sources contradict each other.", "state": "ok",
    "judged_to_ns": NOW_NS, "lag_s": 12.5, "windows": 360, "failures": 0, "revisions": 2, "late_rows": 40,
    "waiting": 1, "past": 0, "last_error": "", "last_took_s": 0.0042, "rows_in": 1000, "rows_out": 7,
}  # fmt: skip
PATH = {
    **GRAPH, "name": "path", "version": 3, "doc": "Which way flows go.", "state": "failed", "failures": 1,
    "last_error": "KeyError: [/red] 'leaf9'", "judged_to_ns": None, "lag_s": None, "last_took_s": None,
}  # fmt: skip
DOCTOR = {
    "schema": 1, "state": "ok", "version": "0", "up_s": 3.0, "private_bytes": 10**8, "series_known": 0, "sources": [],
    "refused": [], "tables": [], "findings": [], "analyses": [GRAPH, PATH],
}  # fmt: skip


class Server:
    """A double of the server's API: what it answers by path, and what was posted to it."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, dict[str, Any]]] = {"/api/v1/replay": (200, {"schema": 1, "state": "off"})}
        self.posted: list[tuple[str, Any]] = []
        double = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                status, answer = double.answers.get(self.path, (404, {}))
                body = json.dumps(answer).encode()
                self.send_response(status)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def do_POST(self) -> None:
                double.posted.append((self.path, json.loads(self.rfile.read(int(self.headers["content-length"])))))
                self.do_GET()

            def log_message(self, *_: object) -> None:
                pass

        self.http = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.address = f"127.0.0.1:{self.http.server_address[1]}"


@pytest.fixture
def server() -> Iterator[Server]:
    double = Server()
    thread = threading.Thread(target=double.http.serve_forever, kwargs={"poll_interval": 0.02})
    thread.start()
    try:
        yield double
    finally:
        double.http.shutdown()
        thread.join()
        double.http.server_close()


def words(text: str) -> str:
    return re.sub(r"\s+", " ", text)


def test_analyses_are_shown_with_what_failed(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/analyses"] = (200, {"schema": 1, "analyses": [GRAPH, PATH]})
    ran = leadline_cli("show", "analyses", "--server", server.address)
    assert (ran.code, ran.err) == (0, "")
    assert "ok graph 1 2025-06-15 15:06:40Z 12 s 360 1 0 2 40 1000 7 4 ms" in words(ran.out)
    assert "failed path 3 - - 360" in words(ran.out)
    assert "path: KeyError: [/red] 'leaf9'" in ran.out
    assert "graph: Where sources contradict each other." in ran.out
    assert "graph: \n" not in ran.out  # nothing of errors where there was none


@pytest.mark.parametrize("output", ["json", "yaml"])
def test_analyses_for_programs(server: Server, leadline_cli: Run, output: str) -> None:
    answer = {"schema": 1, "analyses": [GRAPH, PATH]}
    server.answers["/api/v1/analyses"] = (200, answer)
    ran = leadline_cli("show", "analyses", "--server", server.address, "-o", output)
    assert (json.loads(ran.out) if output == "json" else yaml.safe_load(ran.out)) == answer


def test_no_analyses_are_no_error(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/analyses"] = (200, {"schema": 1, "analyses": []})
    ran = leadline_cli("show", "analyses", "--server", server.address)
    assert (ran.code, words(ran.out)) == (0, "no analysis is registered ")


def test_doctor_shows_them(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/doctor"] = (200, DOCTOR)
    ran = leadline_cli("doctor", "--server", server.address)
    assert ran.code == 0
    assert "failed path 3" in words(ran.out)
    assert "path: KeyError" in ran.out


def test_doctor_of_an_older_server_is_shown(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/doctor"] = (200, {name: value for name, value in DOCTOR.items() if name != "analyses"})
    ran = leadline_cli("doctor", "--server", server.address)
    assert (ran.code, "lag" in ran.out) == (0, False)


def test_backfill_asks_for_the_span_and_the_names(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/backfill"] = (200, {"schema": 1, "windows": 12})
    end = "2025-06-15T15:06:40Z"
    ran = leadline_cli("backfill", "graph", "path", "--from", "2025-06-15T15:05:40", "--to", end, "--server",
                       server.address)  # fmt: skip
    assert (ran.code, ran.err) == (0, "")
    asked = {"from_ns": NOW_NS - 60 * 10**9, "to_ns": NOW_NS, "analyses": ["graph", "path"]}
    assert server.posted == [("/api/v1/backfill", asked)]
    assert "12 windows from 2025-06-15 15:05:40Z to 2025-06-15 15:06:40Z are queued" in words(ran.out)


def test_backfill_of_all_analyses_up_to_now(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/backfill"] = (200, {"schema": 1, "windows": 0})
    before = time.time_ns()
    ran = leadline_cli("backfill", "--last", "10m", "--server", server.address, "-o", "json")
    assert json.loads(ran.out) == {"schema": 1, "windows": 0}
    ((_, asked),) = server.posted
    assert asked["analyses"] == []
    assert before <= asked["to_ns"] <= time.time_ns()
    assert asked["to_ns"] - asked["from_ns"] == 600 * 10**9


def test_now_of_a_replay_is_the_time_that_it_has_reached(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/replay"] = (200, {"schema": 1, "state": "running", "at_ns": NOW_NS})
    server.answers["/api/v1/backfill"] = (200, {"schema": 1, "windows": 6})
    assert leadline_cli("backfill", "--from", "-1m", "--server", server.address).code == 0
    assert server.posted[0][1] == {"from_ns": NOW_NS - 60 * 10**9, "to_ns": NOW_NS, "analyses": []}


def test_what_the_server_refuses_is_said(server: Server, leadline_cli: Run) -> None:
    server.answers["/api/v1/backfill"] = (400, {"error": {"message": "no analysis 'pth'; there are graph, path"}})
    ran = leadline_cli("backfill", "pth", "--last", "1h", "--server", server.address)
    assert (ran.code, ran.err) == (2, "leadline: no analysis 'pth'; there are graph, path\n")


@pytest.mark.parametrize(
    ("since", "until", "last", "complaint"),
    [
        ("", "", "", "which span"),
        ("", "5", "", "which span"),
        ("1", "", "1h", "instead of"),
        ("9", "5", "", "before --to"),
        ("5", "5", "", "before --to"),
        ("tomorrow", "", "", "a time is"),
        ("", "", "1y", "a time is"),
    ],
)
def test_spans_that_are_none_are_refused(since: str, until: str, last: str, complaint: str) -> None:
    with pytest.raises(UsageError, match=complaint):
        span(since, until, last, NOW_NS)


def test_spans() -> None:
    assert span("5", "", "", NOW_NS) == (5, NOW_NS)
    assert span("-1m", "-30s", "", NOW_NS) == (NOW_NS - 60 * 10**9, NOW_NS - 30 * 10**9)
    assert span("", "", "90s", NOW_NS) == (NOW_NS - 90 * 10**9, NOW_NS)


def test_lengths_of_a_window() -> None:
    assert [took(each) for each in (None, 0.0, 0.25, 1.26, 61.0)] == ["-", "0 ms", "250 ms", "1.3 s", "61.0 s"]
