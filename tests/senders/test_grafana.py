"""The dashboards' PromQL against a real Prometheus that scrapes a running Leadline as deploy/grafana says."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml
from tests.senders.running import RunningLeadline, free_ports, imported, ndjson, running, wait_for
from tests.unit.server.metrics.standing_rows import S, budget, window
from tests.unit.views.incidents import incident_rows as made

from leadline.model.tables import BY_NAME

GRAFANA = Path(__file__).resolve().parents[2] / "deploy" / "grafana"
QUERIES = sorted(
    {
        (
            path.stem,
            each["title"],
            each["targets"][0]["expr"].replace("${job:regex}", ".*"),
            each["targets"][0]["instant"],
        )
        for path in GRAFANA.glob("dashboards*/*.json")
        for each in json.loads(path.read_text())["panels"]
        if each["datasource"]["type"] == "prometheus"
    }
)


def asked(url: str, query: str, at: str = "query", **params: Any) -> list[dict[str, Any]]:
    told = httpx.get(f"{url}/api/v1/{at}", params={"query": query, **params}, timeout=30, trust_env=False)
    answer = told.raise_for_status().json()  # 503, and no JSON, until it is ready
    assert answer["status"] == "success", answer
    found: list[dict[str, Any]] = answer["data"]["result"]
    return found


@pytest.fixture(scope="module")
def prometheus(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A Prometheus that has seen some scrapes of a Leadline with analyses, to which rows came and one was refused."""
    directory = tmp_path_factory.mktemp("grafana")
    (port,) = free_ports(1)
    with ExitStack() as stack:
        leadline = stack.enter_context(RunningLeadline(directory, {"LEADLINE_RUNNER__ENABLED": "true"}))
        config = yaml.safe_load((GRAFANA / "prometheus.yml").read_text())
        config["scrape_configs"][0] |= {
            "scrape_interval": "1s", "scrape_timeout": "1s",
            "static_configs": [{"targets": [f"127.0.0.1:{leadline.port}"]}],
        }  # fmt: skip
        file = directory / "prometheus.yml"
        file.write_text(yaml.safe_dump(config))
        command = [
            "prometheus", f"--config.file={file}", f"--storage.tsdb.path={directory / 'tsdb'}",
            f"--web.listen-address=127.0.0.1:{port}", "--log.level=warn",
        ]  # fmt: skip
        stack.enter_context(running(command, directory / "prometheus.log"))
        url = f"http://127.0.0.1:{port}"

        def scraped() -> bool:
            try:
                return bool(asked(url, 'up{job="leadline"} == 1'))
            except httpx.HTTPError:
                return False

        wait_for("a scrape", scraped, 60)
        _send_verdicts(leadline, 1)
        wait_for("verdicts", lambda: _held(url), 60)
        _send_verdicts(leadline, 2)
        wait_for("newer verdicts", lambda: _held(url) > 80, 60)
        for _ in range(3):  # counters must grow between scrapes to have a rate
            _send(leadline)
            wait_for("more scrapes", lambda: _refused(url) >= leadline_refused(leadline), 30)
        yield url


def _send(leadline: RunningLeadline) -> None:
    event = {
        "time_ns": time.time_ns(), "entity": "host:h1", "entity_kind": "host", "kind": "x", "severity": "info",
        "host": "h1", "clock": "realtime", "source": "test", "message": "", "attributes": {},
    }  # fmt: skip
    headers = {"content-type": "application/x-ndjson"}
    answer = leadline.http.post("/api/v1/rows/event", content=ndjson([event]), headers=headers)
    assert answer.status_code == 200, answer.text
    assert leadline.http.post("/api/v1/rows/event", content=b"{", headers=headers).status_code >= 400


def _send_verdicts(leadline: RunningLeadline, number: int) -> None:
    """Verdicts as an operator imports them: a window of the ledger, and what is open, as of now."""
    now_ns = time.time_ns()
    recent = {"start_ns": now_ns - 60 * S, "seen_ns": now_ns, "reported_ns": now_ns - 50 * S}
    rows = {
        "ledger": [
            window("bert-1", 0, "compute", 60.0, 0.0, end_ns=now_ns - number * S),
            window("bert-1", 0, "straggler", 20.0, 15.0, end_ns=now_ns - number * S),
        ],
        "incident": [made.incident("bert-1-slow-1", "bert-1", 0, **recent)],
        "cause": [made.cause("bert-1-slow-1", 1, "port:h3/eth0", "link-down", 0.9, 0, start_ns=now_ns, seen_ns=now_ns)],
        "sle": [{**budget("gpu:GPU-6", 30.0), "end_ns": now_ns // (60 * S) * 60 * S}],
    }
    for table, some in rows.items():
        names = {each.name for each in BY_NAME[table].columns} - {"tenant", "cluster"}
        body = ndjson([{name: each[name] for name in names if each[name] is not None} for each in some])
        headers = {"content-type": "application/x-ndjson", **imported("default")}
        answer = leadline.http.post(f"/api/v1/rows/{table}", content=body, headers=headers)
        assert answer.status_code == 200, answer.text


def _held(url: str) -> float:
    return sum(float(each["value"][1]) for each in asked(url, "leadline_job_gpu_seconds_total"))


def leadline_refused(leadline: RunningLeadline) -> float:
    return float(sum(amount for (family, _), amount in leadline.refused().items() if family == "ingest_refused"))


def _refused(url: str) -> float:
    return sum(float(each["value"][1]) for each in asked(url, "leadline_ingest_refused_total"))


def test_there_are_queries() -> None:
    assert {title for _, title, _, _ in QUERIES} >= {
        "Senders",
        "Ingested per second",
        "Refused per second",
        "Analysis lag",
        "Goodput by job",
    }


@pytest.mark.parametrize(("path", "title", "expr", "instant"), QUERIES, ids=[title for _, title, _, _ in QUERIES])
def test_query_says_something(prometheus: str, path: str, title: str, expr: str, instant: bool) -> None:
    def look() -> list[dict[str, Any]]:
        return asked(prometheus, expr)

    found = wait_for(f"{path}: {title}", look, 60, 0.5)
    if instant:
        assert len(found) == 1
    assert all(float(each["value"][1]) >= 0 for each in found)
