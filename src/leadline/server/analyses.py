"""The API's part about analyses, their findings in `leadline doctor`, and their metrics."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from fastapi import FastAPI, Request
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from pydantic import BaseModel, Field

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import OPERATE, Principal
from leadline.runner.run import AnalysisState, Runner
from leadline.server.rows_view import SCHEMA_VERSION

INT64_MAX = 2**63 - 1
HIDDEN = "its last window failed; why is told to the role operator"


class StateAnswer(BaseModel):
    """How one analysis does."""

    name: str
    version: int
    doc: str
    state: str = Field(description="ok, behind, failed (its last window), idle (nothing was judged yet)")
    judged_to_ns: int | None
    lag_s: float | None
    windows: int
    failures: int
    revisions: int
    late_rows: int
    waiting: int
    last_error: str
    last_took_s: float | None
    rows_in: int
    rows_out: int


class AnalysesAnswer(BaseModel):
    """Every analysis that runs, in the order in which they read each other."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    analyses: list[StateAnswer]


class BackfillRequest(BaseModel):
    """A span whose windows are judged again; all analyses, or those named."""

    from_ns: int = Field(ge=-INT64_MAX, le=INT64_MAX)
    to_ns: int = Field(ge=-INT64_MAX, le=INT64_MAX)
    analyses: list[str] = Field(default_factory=list, max_length=100)


class BackfillAnswer(BaseModel):
    """How many windows wait to be judged again; those without rows are passed over."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    windows: int


def mount_analyses(
    api: FastAPI, runner: Runner | None, who: Callable[[Request], Principal], problems: dict[int | str, Any]
) -> None:
    """Add the end points."""

    @api.get("/api/v1/analyses", tags=["state"], responses=problems)
    def analyses(request: Request) -> AnalysesAnswer:
        """How each analysis does: how far it has judged, what failed (why, for the role operator: an error may quote
        any tenant's rows)."""
        states = told(runner)
        if not who(request).may(OPERATE):
            states = [{**each, "last_error": HIDDEN if each["last_error"] else ""} for each in states]
        return AnalysesAnswer(schema=SCHEMA_VERSION, analyses=[StateAnswer(**each) for each in states])

    @api.post("/api/v1/backfill", tags=["state"], responses=problems)
    def backfill(request: Request, asked: BackfillRequest) -> BackfillAnswer:
        """Judge the windows of a span again, or for the first time. For the role operator."""
        if not who(request).may(OPERATE):
            raise RefusedError("unauthorized", "to judge again is for the role operator")
        if runner is None:
            raise UsageError("no analysis runs in this server")
        windows = runner.backfill(asked.from_ns, asked.to_ns, asked.analyses)
        return BackfillAnswer(schema=SCHEMA_VERSION, windows=windows)


def told(runner: Runner | None) -> list[dict[str, Any]]:
    """The states of analyses as plain values."""
    return [] if runner is None else [dataclasses.asdict(state) for state in runner.states()]


def findings(states: Sequence[AnalysisState]) -> Iterator[dict[str, str]]:
    """What is wrong with analyses: those whose last window failed, and those that do not keep up."""
    for each in states:
        if each.state == "failed":
            yield {
                "state": "warning",
                "text": f"analysis {each.name} failed: {each.last_error}",
                "do": "Report it; `leadline backfill` judges the window again.",
            }
        elif each.state == "behind":
            yield {
                "state": "warning",
                "text": f"analysis {each.name} is {each.lag_s or 0:.0f} s behind, {each.waiting} windows wait",
                "do": "Give Leadline more CPU, or raise runner.workers.",
            }


def metrics(states: Sequence[AnalysisState]) -> Iterator[Metric]:
    """Our own metrics about analyses."""
    lag = GaugeMetricFamily("leadline_analysis_lag_seconds", "Age of the newest window judged.", labels=["analysis"])
    took = GaugeMetricFamily("leadline_analysis_seconds", "What the last window took.", labels=["analysis"])
    waiting = GaugeMetricFamily("leadline_analysis_waiting", "Windows to be judged.", labels=["analysis"])
    windows = CounterMetricFamily("leadline_analysis_windows", "Windows judged since the start.", labels=["analysis"])
    failures = CounterMetricFamily("leadline_analysis_failures", "Windows that failed.", labels=["analysis"])
    for each in states:
        if each.lag_s is not None:
            lag.add_metric([each.name], each.lag_s)
        if each.last_took_s is not None:
            took.add_metric([each.name], each.last_took_s)
        waiting.add_metric([each.name], each.waiting)
        windows.add_metric([each.name], each.windows)
        failures.add_metric([each.name], each.failures)
    yield from (lag, took, waiting, windows, failures)
