"""A real Prometheus scrapes a real node_exporter and writes to us; what it holds must be what we hold."""

from __future__ import annotations

import os
import signal
import struct
import time
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from tests.senders.running import RunningLeadline, free_ports, node_exporter, running, wait_for

from leadline.wire.blank import BELOW_ZERO
from leadline.wire.samples import NORMAL_NAN_BITS, STALE_NAN_BITS

CONFIG = """
global: {{scrape_interval: 1s, scrape_timeout: 1s}}
scrape_configs:
  - job_name: node
    static_configs: [{{targets: ["127.0.0.1:{exporter}"]}}]
  - job_name: prometheus
    static_configs: [{{targets: ["127.0.0.1:{prometheus}"]}}]
remote_write:
  - url: http://127.0.0.1:{leadline}/api/v1/write
    queue_config: {{batch_send_deadline: 500ms, min_backoff: 50ms, max_backoff: 500ms, min_shards: 2}}
    metadata_config: {{send: true, send_interval: 1s}}
"""
Samples = dict[tuple[tuple[str, str], ...], dict[int, int]]  # labels: time in ms: bits of the value


def is_none(name: str, value: float) -> bool:
    """Whether a value says that there is none."""
    return name in BELOW_ZERO and value < 0


@dataclass
class Setting:
    leadline: RunningLeadline
    exporter: Any
    prometheus: str

    def heads(self, until_ms: int) -> Samples:
        """All raw samples that Prometheus holds up to a time, without stale markers (its API hides them) and without
        the speeds of interfaces that have none."""
        answer = httpx.get(
            f"{self.prometheus}/api/v1/query",
            params={"query": '{__name__=~".+"}[10m]', "time": until_ms / 1000},
            timeout=30,
            trust_env=False,
        ).json()
        assert answer["status"] == "success", answer
        return {
            tuple(sorted(each["metric"].items())): {round(at * 1000): _bits(float(value)) for at, value in values}
            for each in answer["data"]["result"]
            if (values := [told for told in each["values"] if not is_none(each["metric"]["__name__"], float(told[1]))])
        }

    def ours(self, until_ms: int) -> Samples:
        """The same from our store."""
        found: Samples = {}
        rows = self.leadline.sql(
            "SELECT s.name AS name, s.labels AS labels, m.times AS times, m.bits AS bits FROM ("
            "  SELECT series, groupArray(time_ns) AS times, groupArray(reinterpretAsUInt64(value)) AS bits"
            f"  FROM metric_sample WHERE time_ns <= {until_ms}000000"
            f"  AND reinterpretAsUInt64(value) != {STALE} GROUP BY series"
            ") m JOIN series s USING (series) WHERE s.source = 'remote-write'"
        )
        for row in rows:
            assert len(row["times"]) == len(set(row["times"])), f"a time twice in {row['name']}"
            labels = tuple(sorted({"__name__": row["name"], **row["labels"]}.items()))
            found[labels] = dict(zip([at // 10**6 for at in row["times"]], row["bits"], strict=True))
        return found

    def settle(self, until_ms: int) -> tuple[Samples, Samples]:
        """Both sides, once Prometheus has nothing pending of that time."""
        theirs = self.heads(until_ms)
        count = sum(map(len, theirs.values()))
        wait_for("all samples to arrive", lambda: sum(map(len, self.ours(until_ms).values())) >= count, 40, 0.5)
        return theirs, self.ours(until_ms)


STALE = STALE_NAN_BITS


def _bits(value: float) -> int:
    if value != value:  # its API says NaN; what it holds is its ordinary NaN
        return NORMAL_NAN_BITS
    bits: int = struct.unpack("<Q", struct.pack("<d", value))[0]
    return bits


@pytest.fixture(scope="module")
def setting(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Setting]:
    directory = tmp_path_factory.mktemp("prometheus")
    with ExitStack() as stack:
        leadline = stack.enter_context(RunningLeadline(directory))
        exporter_port, port = free_ports(2)
        exporter = stack.enter_context(running(node_exporter(exporter_port), directory / "exporter.log"))
        config = directory / "prometheus.yml"
        config.write_text(CONFIG.format(exporter=exporter_port, prometheus=port, leadline=leadline.port))
        command = [
            "prometheus", f"--config.file={config}", f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        stack.enter_context(running(command, directory / "prometheus.log"))
        made = Setting(leadline, exporter, f"http://127.0.0.1:{port}")
        _wait_first(made, directory)
        yield made


def _wait_first(setting: Setting, directory: Path) -> None:
    query = "SELECT uniqExact(time_ns) AS n FROM metric_sample JOIN series USING (series) WHERE name = 'node_load1'"
    try:
        wait_for("some scrapes to arrive", lambda: setting.leadline.sql(query)[0]["n"] >= 4, 60)
    except AssertionError as error:
        raise AssertionError(f"{error}\n{(directory / 'prometheus.log').read_text()}") from error


def _assert_equal(theirs: Samples, ours: Samples) -> None:
    missing = [labels for labels in theirs if labels not in ours]
    assert not missing, f"{len(missing)} streams did not arrive, such as {missing[:3]}"
    for labels, samples in theirs.items():
        assert ours[labels] == samples, labels


def test_all_that_prometheus_holds_arrives_with_equal_values(setting: Setting) -> None:
    theirs, ours = setting.settle(int(time.time() * 1000) - 1500)
    assert len(theirs) > 300
    _assert_equal(theirs, ours)
    # Nothing that Prometheus does not hold, either.
    assert {labels for labels in ours if ours[labels]} == set(theirs)


def test_what_it_says_of_itself(setting: Setting) -> None:
    source = setting.leadline.source("Prometheus/2.42")
    assert source
    assert source["way"] == "remote-write"
    assert source["state"] == "ok"
    assert "node_exporter" in source["tells"]
    assert source["data_age_s"] < 30
    assert setting.leadline.refused().keys() <= {("ingest_refused", "blank_value")}


def test_metadata_arrives(setting: Setting) -> None:
    expected = {
        "node_load1": "gauge",
        "node_cpu_seconds_total": "counter",
        "go_gc_duration_seconds": "summary",
        "prometheus_http_request_duration_seconds_bucket": "histogram",
    }
    names = ", ".join(f"'{name}'" for name in expected)
    query = f"SELECT name, any(type) AS type FROM series WHERE name IN ({names}) GROUP BY name"

    def types() -> dict[str, str]:
        return {row["name"]: row["type"] for row in setting.leadline.sql(query)}

    wait_for("types of metrics", lambda: types() == expected and types(), 20, 1.0)


def test_server_killed_and_restarted_without_gap_or_duplicate(setting: Setting) -> None:
    pid = setting.leadline.wait_ready()
    os.kill(pid, signal.SIGKILL)
    killed_ms = int(time.time() * 1000)
    setting.leadline.wait_ready(other_than=pid)
    time.sleep(2)
    until_ms = int(time.time() * 1000)
    time.sleep(1.5)
    theirs, ours = setting.settle(until_ms)
    load = next(samples for labels, samples in theirs.items() if ("__name__", "node_load1") in labels)
    assert any(at < killed_ms for at in load)
    assert any(at > killed_ms for at in load)
    _assert_equal(theirs, ours)
    assert "ended with signal SIGKILL; starting it again" in setting.leadline.said()


def test_stale_markers_when_the_target_is_gone(setting: Setting) -> None:
    """Last: it stops the exporter. Every stream of the target but Prometheus' own about it ends with the marker."""
    query = (
        "SELECT uniqExact(series) AS n FROM metric_sample JOIN series USING (series) "
        f"WHERE labels['job'] = 'node' AND reinterpretAsUInt64(value) = {STALE}"
    )
    assert setting.leadline.sql(query)[0]["n"] == 0
    streams = setting.leadline.sql("SELECT count() AS n FROM series WHERE labels['job'] = 'node'")[0]["n"]
    setting.exporter.terminate()
    # up and the scrape_* streams go on: they say that the target is down.
    wait_for("stale markers", lambda: setting.leadline.sql(query)[0]["n"] >= streams - 5, 30, 0.5)
    down = setting.leadline.sql(
        "SELECT argMax(value, time_ns) AS up FROM metric_sample JOIN series USING (series) "
        "WHERE name = 'up' AND labels['job'] = 'node'"
    )
    assert down == [{"up": 0.0}]
    # In doctor's words a stale marker is no refusal.
    assert setting.leadline.doctor()["accepted"]["stale_markers"] >= streams - 5
