"""The API's part about expectations: `GET /api/v1/sle` and `/api/v1/expectations`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.principal import Principal
from leadline.server.expectations import expectations_answer
from leadline.server.flows_view import Asked
from leadline.server.graph_api import At, Cluster
from leadline.server.graph_view import only_cluster
from leadline.server.health import Parts
from leadline.server.ledger_api import From, To
from leadline.server.rows_view import parse_time
from leadline.server.sle_answers import SleAnswer, SleMinutes
from leadline.server.sle_minutes import minutes_answer
from leadline.server.sle_spans import HOUR_NS, MINUTE_NS
from leadline.server.sle_view import Wanted, sle_answer


def mount_sle(
    api: FastAPI,
    parts: Parts,
    who: Callable[[Request], Principal],
    turn: Callable[[], AbstractContextManager[None]],
    problems: dict[int | str, Any],
) -> None:
    """Add the end points. `turn` gives a turn to query."""

    def asked(request: Request, at: str, cluster: str) -> Asked:
        now_ns = parts.now_ns()
        return Asked(who(request), cluster, parse_time(at, now_ns) if at else now_ns, latest=not at)

    @api.get(
        "/api/v1/sle", tags=["expectations"], response_model=None, responses=problems | {200: {"model": SleAnswer}}
    )
    def sle(
        request: Request,
        layer: Annotated[str, Query(description="only this layer: gpu, nic, ...", max_length=100)] = "",
        entity: Annotated[str, Query(description="only this one: gpu:GPU-5c1e", max_length=1000)] = "",
        expectation: Annotated[str, Query(description="only this one, by name", max_length=1000)] = "",
        window: Annotated[str, Query(description="5m, 1h, 24h or 30d", max_length=100)] = "1h",
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """How well each expectation was met by each entity in the window: share of good seconds, what is left of the
        error budget, burn rates, what made seconds bad; the worst first."""
        question = asked(request, at, cluster)
        with turn():
            one = replace(question, cluster=question.cluster or only_cluster(parts.store, question.principal))
            return sle_answer(parts.store, one, Wanted(window, layer, entity, expectation))

    @api.get(
        "/api/v1/sle/minutes", tags=["expectations"], response_model=None,
        responses=problems | {200: {"model": SleMinutes}},
    )  # fmt: skip
    def minutes(
        request: Request,
        expectation: Annotated[str, Query(description="by name", max_length=1000)],
        entity: Annotated[str, Query(description="gpu:GPU-5c1e", max_length=1000)],
        since: From = "",
        until: To = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """The minutes of one expectation of one entity, by default of the last hour: good, bad and missing seconds, and
        what made them bad."""
        question = asked(request, until, cluster)
        from_ns = parse_time(since, parts.now_ns()) if since else question.at_ns - HOUR_NS
        to_ns = question.at_ns + (0 if until else MINUTE_NS)  # a replay judges the minute that now is in
        with turn():
            one = replace(question, cluster=question.cluster or only_cluster(parts.store, question.principal))
            return minutes_answer(parts.store, one, expectation, entity, (from_ns, to_ns))

    @api.get("/api/v1/expectations", tags=["expectations"], responses=problems)
    def expectations(request: Request, at: At = "", cluster: Cluster = "") -> dict[str, Any]:
        """The expectations that hold: bounds, objective, since when, and where each was read."""
        question = asked(request, at, cluster)
        with turn():
            return expectations_answer(parts.store, question)
