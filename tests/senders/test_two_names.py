"""A real agent and a real node_exporter on one machine: what `doctor` says where it has two names, and where one."""

from __future__ import annotations

import json
import socket
import sys
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from tests.senders.running import RunningLeadline, free_ports, node_exporter, running, wait_for

from leadline.cli.doctor.relabel import CAME, received
from leadline.views.metric_use import uses

HOST = socket.gethostname()


@pytest.fixture(scope="module")
def leadline(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningLeadline]:
    directory = tmp_path_factory.mktemp("two-names")
    with ExitStack() as stack:
        (port,) = free_ports(1)
        stack.enter_context(running(node_exporter(port), directory / "exporter.log"))
        scrape = [{"job": "node", "targets": [f"127.0.0.1:{port}"], "interval_s": 1, "timeout_s": 1}]
        server = stack.enter_context(RunningLeadline(directory, {"LEADLINE_INGEST__SCRAPE": json.dumps(scrape)}))
        stack.enter_context(running(_agent(server, directory), directory / "agent.log"))
        yield server


def _agent(server: RunningLeadline, directory: Path) -> list[str]:
    return [
        sys.executable, "-m", "leadline.host.main", "--server", server.url, "--spool", str(directory / "spool"),
        "--ring-dir", str(directory / "rings"), "--interval", "1", "--sources", "nic,proc,graph",
    ]  # fmt: skip


def test_doctor_names_both_and_what_mends_it(leadline: RunningLeadline) -> None:
    def told() -> dict[str, Any] | None:
        found = leadline.doctor()["findings"]
        return next((each for each in found if "under two names" in each["text"]), None)

    # Before the first question: what was found stands for a minute.
    both = "SELECT uniqExact(host) AS n FROM series WHERE name = 'node_load1'"
    wait_for("both to be heard", lambda: leadline.sql(both)[0]["n"] == 2, 60, 0.5)
    named = "SELECT count() AS n FROM series WHERE name = 'node_uname_info'"
    wait_for("what the exporter calls itself", lambda: leadline.sql(named)[0]["n"], 60, 0.5)
    finding = wait_for("the warning; an answer stands for a minute", told, 100, 1.0)
    assert finding["state"] == "warning"
    assert finding["text"].startswith(
        f"{HOST} and 127.0.0.1 are one machine under two names (127.0.0.1 calls itself {HOST} in node_uname_info)"
    )
    assert f"`nodename: {HOST}`" in finding["do"]


def test_once_it_has_one_name_what_comes_twice_is_told(leadline: RunningLeadline) -> None:
    (port,) = free_ports(1)
    with running(node_exporter(port), leadline.directory / "alike.log"):
        leadline.end()
        scrape = [{"job": "node", "targets": [f"127.0.0.1:{port}"], "labels": {"nodename": HOST}, "interval_s": 1,
                   "timeout_s": 1}]  # fmt: skip
        leadline.environ["LEADLINE_INGEST__SCRAPE"] = json.dumps(scrape)
        leadline.start()

        def both() -> list[dict[str, Any]]:
            rows = [row for row in leadline.sql(CAME) if row["twice"]]
            return rows if received(rows, uses())["sent_twice"]["series"] > 20 else []

        rows = wait_for("what both send", both, 60, 1.0)
    came = received(rows, uses())
    assert {"node_load1", "node_uname_info", "node_filesystem_avail_bytes"} <= {row["name"] for row in rows}
    alone = [row for row in rows if row["name"] in ("node_uname_info", "node_filesystem_avail_bytes")]
    assert received(alone, uses())["sent_twice"]["series"] == 0  # no agent sends these
    load = [row for row in rows if row["name"] == "node_load1"]
    assert received(load, uses())["sent_twice"]["series"] == 1  # the exporter's; the agent's own came by OTLP
    assert came["sent_twice"]["samples_per_s"] > 0
