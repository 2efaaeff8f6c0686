"""Our own scraper against a real node_exporter, and against exporters that misbehave (doubles)."""

from __future__ import annotations

import gzip
import json
import time
import zlib
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any

import httpx
import psutil
import pytest
import yaml
from tests.senders.running import Pages, RunningLeadline, free_ports, node_exporter, running, wait_for

from leadline.wire.samples import STALE_NAN_BITS

GOLDEN = Path(__file__).parents[1] / "golden" / "dcgm_scrape"
GPU = "gpu:GPU-604ac76c-d9cf-fef3-62e9-d92044ab6e52"


@dataclass
class Setting:
    leadline: RunningLeadline
    exporter_address: str
    pages: Pages
    file_sd: Path

    def values(self, name: str, **labels: str) -> list[float]:
        """Values of a metric in order of time, stale markers left out."""
        where = "".join(f" AND labels['{label}'] = '{value}'" for label, value in labels.items())
        return [
            row["value"]
            for row in self.leadline.sql(
                f"SELECT value FROM metric_sample JOIN series USING (series) WHERE name = '{name}'{where} "
                f"AND reinterpretAsUInt64(value) != {STALE_NAN_BITS} ORDER BY time_ns"
            )
        ]

    def stale(self, job: str) -> dict[str, int]:
        """Stale markers by metric name."""
        rows = self.leadline.sql(
            "SELECT name, count() AS n FROM metric_sample JOIN series USING (series) "
            f"WHERE labels['job'] = '{job}' AND reinterpretAsUInt64(value) = {STALE_NAN_BITS} GROUP BY name"
        )
        return {row["name"]: row["n"] for row in rows}

    def failed(self, reason: str) -> int:
        return self.leadline.refused().get(("scrape_failed", reason), 0)


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    directory = tmp_path_factory.mktemp("scrape")
    with ExitStack() as stack:
        (port,) = free_ports(1)
        stack.enter_context(running(node_exporter(port), directory / "exporter.log"))
        pages = stack.enter_context(Pages())
        address = f"127.0.0.1:{port}"
        wait_for("node_exporter", lambda: _answers(f"http://{address}/metrics"))
        jobs: list[dict[str, Any]] = [
            {"job": "node", "targets": [address], "interval_s": 0.5, "timeout_s": 5.0},
            {"job": "found", "file_sd": ["sd/*.json", "sd/*.yml"], "interval_s": 0.5, "timeout_s": 2.0},
        ]
        for name, answer in _broken().items():
            pages.answers[f"/{name}"] = answer
            jobs.append(
                {
                    "job": name,
                    "targets": [pages.address],
                    "path": f"/{name}",
                    "interval_s": 10.0 if name == "bomb" else 1.0,
                    "timeout_s": 20.0 if name == "bomb" else 0.4,
                }
            )
        (directory / "sd").mkdir()
        (directory / "leadline.yaml").write_text(yaml.safe_dump({"ingest": {"scrape": jobs}}))
        leadline = stack.enter_context(RunningLeadline(directory))
        yield Setting(leadline, address, pages, directory / "sd")


def _answers(url: str) -> bool:
    try:
        return httpx.get(url, trust_env=False).status_code == 200
    except httpx.HTTPError:
        return False


def _hang(handler: BaseHTTPRequestHandler) -> None:
    handler.send_response(200)
    handler.end_headers()
    handler.wfile.write(b"up_to_here 1\n")
    handler.wfile.flush()
    time.sleep(3)


def _bomb() -> bytes:
    """What unpacks to 10 GB, at the size of 10 MB; said to be a page of metrics."""
    packer = zlib.compressobj(9, wbits=31)
    head = packer.compress(b"# ") + packer.flush(zlib.Z_FULL_FLUSH)
    mib = packer.compress(b"x" * (1 << 20)) + packer.flush(zlib.Z_FULL_FLUSH)
    return head + mib * 10_240 + packer.flush()


def _broken() -> dict[str, Any]:
    return {
        "hangs": _hang,
        "status": (500, {}, b"broken"),
        "garbage": (200, {"content-type": "text/plain"}, b"\x00\xff<html>no metrics here\n" * 10),
        "half": (200, {"content-type": "text/plain", "content-encoding": "gzip"}, gzip.compress(b"a 1\n" * 1000)[:-9]),
        "bomb": (200, {"content-type": "text/plain", "content-encoding": "gzip"}, _bomb()),
    }


def test_node_exporter_by_a_static_target(setting: Setting) -> None:
    wait_for("three scrapes", lambda: len(setting.values("node_load1", job="node")) >= 3)
    assert set(setting.values("up", job="node")) == {1.0}
    page = httpx.get(f"http://{setting.exporter_address}/metrics", trust_env=False).text
    names = {line.split("{")[0].split(" ")[0] for line in page.splitlines() if not line.startswith("#")}
    query = (
        "SELECT name, any(type) AS type, any(labels) AS example FROM series WHERE labels['job'] = 'node' GROUP BY name"
    )
    stored = {row["name"]: row for row in setting.leadline.sql(query)}
    # The two pages were read at different times; a few streams come with use.
    assert len(names - set(stored)) <= 3, names - set(stored)
    assert stored["node_load1"]["type"] == "gauge"
    assert stored["node_load1"]["example"] == {"job": "node", "instance": setting.exporter_address}
    scraped = setting.values("scrape_samples_scraped", job="node")
    assert min(scraped) > 200
    total = setting.leadline.sql("SELECT count() AS n FROM series WHERE labels['job'] = 'node'")[0]["n"]
    assert total >= min(scraped)


@pytest.mark.parametrize("form", ["json", "yml"])
def test_file_sd_and_a_target_that_vanishes(setting: Setting, form: str) -> None:
    path = setting.file_sd / f"targets.{form}"
    page = f"/{form}"
    setting.pages.answers["/metrics"] = (200, {"content-type": "text/plain"}, b"# TYPE kept gauge\nkept 1.5\n")
    groups = [{"targets": [setting.pages.address], "labels": {"rack": f"r-{form}", "__steers__": page}}]
    path.write_text(json.dumps(groups) if form == "json" else yaml.safe_dump(groups))
    wait_for("a value", lambda: len(setting.values("kept", rack=f"r-{form}")) >= 2)
    assert set(setting.values("kept", rack=f"r-{form}")) == {1.5}
    labels = setting.leadline.sql(f"SELECT labels FROM series WHERE name = 'kept' AND labels['rack'] = 'r-{form}'")
    assert labels == [{"labels": {"job": "found", "instance": setting.pages.address, "rack": f"r-{form}"}}]
    before = setting.stale("found").get("kept", 0)
    # A file that is just being written says nothing, and the target goes on.
    path.write_text("[{")
    wait_for("the broken file to be told", lambda: f"sd/targets.{form}" in str(setting.leadline.doctor()["findings"]))
    count = len(setting.values("kept", rack=f"r-{form}"))
    wait_for("more values", lambda: len(setting.values("kept", rack=f"r-{form}")) > count)
    assert setting.stale("found").get("kept", 0) == before
    path.unlink()
    wait_for("stale markers", lambda: setting.stale("found").get("kept", 0) == before + 1)
    assert setting.stale("found")["up"] == before + 1


def test_a_target_that_is_down_is_stale_and_up_is_0(setting: Setting) -> None:
    (port,) = free_ports(1)
    path = setting.file_sd / "down.json"
    path.write_text(json.dumps([{"targets": [f"127.0.0.1:{port}"], "labels": {"rack": "down"}}]))
    with Pages() as pages:
        pages.answers["/metrics"] = (200, {}, b"leaves 1\nstays 1\n")
        path.write_text(json.dumps([{"targets": [pages.address], "labels": {"rack": "down"}}]))
        wait_for("a value", lambda: setting.values("leaves", rack="down"))
        pages.answers["/metrics"] = (200, {}, b"stays 1\n")
        wait_for("one stream's marker", lambda: "leaves" in setting.stale("found"))
        assert "stays" not in setting.stale("found")
    wait_for("up to be 0", lambda: 0.0 in setting.values("up", rack="down"))
    assert setting.stale("found")["stays"] == 1
    path.unlink()


@pytest.mark.parametrize(
    ("page", "reason", "text"),
    [
        ("hangs", "unreachable", "TimeoutError"),
        ("status", "status", "expected status 200, got 500"),
        ("garbage", "malformed", "expected"),
        ("half", "malformed", "cut off"),
        ("bomb", "too_large", "unpacks to more than"),
    ],
)
def test_exporters_that_misbehave_are_counted_and_told(setting: Setting, page: str, reason: str, text: str) -> None:
    wait_for(f"scrape_failed {reason}", lambda: setting.failed(reason) > 0)
    name = f"http://{setting.pages.address}/{page}"
    source = wait_for("the source", lambda: setting.leadline.source(name))
    assert source["last_error"].startswith(name)
    assert text in source["last_error"]
    assert source["state"] == "warning"
    # Several that fail are one line, which names three.
    finding = next(
        each for each in setting.leadline.doctor()["findings"] if f"http://{setting.pages.address}/" in each["text"]
    )
    assert finding["do"]
    assert wait_for("up", lambda: setting.values("up", job=page))[0] == 0.0
    assert setting.values("up_to_here") == []


def test_a_bomb_costs_no_memory(setting: Setting) -> None:
    pid = setting.leadline.wait_ready()
    wait_for("the bomb", lambda: setting.failed("too_large") > 0)
    # The limit is 128 MiB; the process itself has some 400 MB of its own.
    assert psutil.Process(pid).memory_full_info().uss < 1500e6


def test_dcgm_blank_is_no_value_and_the_gpu_is_known(setting: Setting) -> None:
    path = setting.file_sd / "dcgm.json"
    with Pages() as pages:
        pages.answers["/metrics"] = (200, {"content-type": "text/plain"}, (GOLDEN / "scrape_1.prom").read_bytes())
        path.write_text(json.dumps([{"targets": [pages.address], "labels": {"rack": "dcgm"}}]))
        wait_for("the clock", lambda: len(setting.values("DCGM_FI_DEV_SM_CLOCK", rack="dcgm")) >= 2)
        path.unlink()
        assert set(setting.values("DCGM_FI_DEV_SM_CLOCK", rack="dcgm")) == {139.0}
        assert set(setting.values("DCGM_FI_DEV_MEM_CLOCK", rack="dcgm")) == {405.0}
        assert setting.values("DCGM_FI_DEV_MEMORY_TEMP", rack="dcgm") == []
        query = "SELECT DISTINCT entity_kind, entity FROM series WHERE name LIKE 'DCGM_%'"
        assert setting.leadline.sql(query) == [{"entity_kind": "gpu", "entity": GPU}]
        assert setting.leadline.refused()["ingest_refused", "blank_value"] >= 2
        rows = setting.leadline.http.get("/api/v1/tables/series", params={"entity": GPU}).json()["rows"]
        assert {row["name"] for row in rows} >= {"DCGM_FI_DEV_SM_CLOCK", "DCGM_FI_DEV_MEM_CLOCK"}
