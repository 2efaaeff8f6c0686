"""Analyses in the API: how they do, judging again, what doctor and /metrics say of them."""

from __future__ import annotations

import asyncio
import dataclasses
from collections.abc import Sequence
from dataclasses import replace
from types import SimpleNamespace

import httpx
import pytest
from fastapi import FastAPI

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import Caller, Principal, Role
from leadline.runner.lanes import AnalysisState
from leadline.server.analyses import HIDDEN, findings, told
from leadline.server.metrics.collector import analyses as metrics
from leadline.server.routes.analyses import router
from leadline.server.shared import SharedAnswers

STATE = AnalysisState(
    name="path", version=1, doc="Paths of flows.", state="ok", judged_to_ns=50, lag_s=12.0, windows=3, failures=0,
    revisions=1, late_rows=7, waiting=0, past=0, last_error="", last_took_s=0.25, rows_in=10, rows_out=5,
)  # fmt: skip


class Judging:
    """A double of the runner: one analysis, and what it was asked to judge again."""

    def __init__(self) -> None:
        self.asked: list[tuple[int, int, Sequence[str]]] = []

    def states(self) -> list[AnalysisState]:
        return [STATE]

    def backfill(self, from_ns: int, to_ns: int, names: Sequence[str] = ()) -> int:
        self.asked.append((from_ns, to_ns, names))
        return 6


def asked(
    runner: Judging | None, path: str, body: dict[str, object] | None = None, role: Role = Role.OPERATOR
) -> httpx.Response:
    """The answer of an API that has only the end points of analyses; errors of ours are raised."""
    api = FastAPI()

    class Open:
        """A gate that lets everybody in with one role."""

        def __call__(self, _: Caller) -> Principal:
            return Principal(role=role)

        again = __call__

    parts = SimpleNamespace(runner=runner)
    api.state.serving = SimpleNamespace(parts=parts, gate=Open(), shared=SharedAnswers())
    api.include_router(router)

    async def answer() -> httpx.Response:
        async with httpx.AsyncClient(transport=httpx.ASGITransport(api), base_url="http://leadline") as client:
            return await client.get(path) if body is None else await client.post(path, json=body)

    return asyncio.run(answer())


def test_states_are_told() -> None:
    found = asked(Judging(), "/api/v1/analyses").json()
    assert found["schema"] == 1
    assert found["analyses"] == told(Judging())  # type: ignore[arg-type]
    assert found["analyses"][0]["lag_s"] == 12.0
    assert asked(None, "/api/v1/analyses").json()["analyses"] == []


def test_why_an_analysis_failed_is_told_to_operators_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    failed = dataclasses.replace(STATE, state="failed", last_error="each key once, got twice {'tenant': 'acme'}")
    monkeypatch.setattr(Judging, "states", lambda _: [failed])
    [whole] = asked(Judging(), "/api/v1/analyses").json()["analyses"]
    [mine] = asked(Judging(), "/api/v1/analyses", role=Role.TENANT_WRITE).json()["analyses"]
    assert "acme" in whole["last_error"]
    told_to_all = {"name", "version", "doc", "state", "judged_to_ns", "lag_s"}
    assert {name: mine[name] for name in told_to_all} == {name: whole[name] for name in told_to_all}
    assert mine["last_error"] == HIDDEN
    assert not any(mine[name] for name in mine.keys() - told_to_all - {"last_error"}), "counts are over all tenants"


def test_a_span_is_judged_again() -> None:
    runner = Judging()
    found = asked(runner, "/api/v1/backfill", {"from_ns": 1, "to_ns": 9, "analyses": ["path"]})
    assert found.json() == {"schema": 1, "windows": 6}
    assert runner.asked == [(1, 9, ["path"])]


def test_only_an_operator_has_spans_judged_again() -> None:
    runner = Judging()
    with pytest.raises(RefusedError, match="operator"):
        asked(runner, "/api/v1/backfill", {"from_ns": 1, "to_ns": 9}, Role.TENANT_WRITE)
    with pytest.raises(UsageError, match="no analysis runs"):
        asked(None, "/api/v1/backfill", {"from_ns": 1, "to_ns": 9})
    assert asked(runner, "/api/v1/backfill", {"from_ns": 2**63, "to_ns": 9}).status_code == 422
    assert not runner.asked


def test_what_failed_and_what_does_not_keep_up_are_findings() -> None:
    failed = replace(STATE, state="failed", last_error="ValueError: no")
    behind = replace(STATE, name="graph", state="behind", lag_s=500.0, waiting=40)
    more = replace(behind, name="path", lag_s=300.0, waiting=2)
    found = list(findings([STATE, failed, behind, more, replace(STATE, state="idle")], up_s=3600.0))
    assert [each["state"] for each in found] == ["warning", "warning"]
    assert "path failed: ValueError: no" in found[0]["text"]
    assert found[1]["text"] == "analyses are behind: 2 of 5, the farthest graph, 500 s, 42 windows left"
    assert all(each["do"] for each in found)


def test_right_after_the_start_it_catches_up_and_needs_no_more_cpu() -> None:
    behind = replace(STATE, name="graph", state="behind", lag_s=500.0, waiting=40)
    (past,) = findings([STATE, replace(STATE, past=7, waiting=7)], up_s=3600.0)
    assert past["text"] == "7 windows of the past left to analyse: what closes now goes first"
    (found,) = findings([STATE, behind], up_s=30.0)
    assert found["text"] == "catching up with what was stored before the start, 30 s ago: 40 windows left"
    assert found["do"].startswith("Wait")
    (found,) = findings([STATE, behind], up_s=3600.0, recorded=True)
    assert found["text"] == "analysing the recording: 40 windows left"


def test_metrics_are_by_analysis() -> None:
    found = {
        sample.name: (sample.labels, sample.value)
        for metric in metrics([STATE, replace(STATE, name="new", lag_s=None, last_took_s=None)])
        for sample in metric.samples
        if sample.labels["analysis"] == "path" or sample.name.endswith(("lag_seconds", "analysis_seconds"))
    }
    value = {name: number for name, (labels, number) in found.items() if labels == {"analysis": "path"}}
    assert value["leadline_analysis_lag_seconds"] == 12.0
    assert value["leadline_analysis_seconds"] == 0.25
    assert value["leadline_analysis_windows_total"] == 3
    assert value["leadline_analysis_failures_total"] == 0
    assert value["leadline_analysis_waiting"] == 0
    assert len(value) == len(found), "what is not known is not told"
