"""The API's part about incidents: `GET /api/v1/incidents`, `/api/v1/incidents/{incident}`, `/api/v1/diagnosis`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import Principal
from leadline.server.diagnosis_view import diagnosis_answer
from leadline.server.flows_view import Asked
from leadline.server.graph_api import At, Cluster
from leadline.server.health import Parts
from leadline.server.incidents_answers import DiagnosisAnswer, IncidentsAnswer, OneIncidentAnswer
from leadline.server.incidents_view import STATES, Incidents, incidents_answer
from leadline.server.ledger_api import From, To
from leadline.server.rows_view import SCHEMA_VERSION, parse_time

Job = Annotated[str, Query(description="bert-1 or job:bert-1; all if empty", max_length=1000)]


def mount_incidents(
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
        "/api/v1/incidents",
        tags=["incidents"],
        response_model=None,
        responses={**problems, 200: {"model": IncidentsAnswer}},
    )
    def incidents(
        request: Request,
        since: From = "",
        until: To = "",
        job: Job = "",
        state: Annotated[str, Query(description="open or over; both if empty", max_length=100)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What hurts or hurt, with its causes and evidence: open ones first, of these what lost most."""
        question = asked(request, until, cluster)
        from_ns = parse_time(since, parts.now_ns()) if since else None
        if state and state not in STATES:
            raise UsageError(f"state: expected {' or '.join(STATES)}, got {state[:50]!r}")
        with turn():
            return incidents_answer(parts.store, question, from_ns, job, state)

    @api.get(
        "/api/v1/incidents/{incident}",
        tags=["incidents"],
        response_model=None,
        responses={**problems, 200: {"model": OneIncidentAnswer}},
    )
    def one_incident(request: Request, incident: str, cluster: Cluster = "") -> dict[str, Any]:
        """One incident by its id: one entry for each tenant that it hurts and that may be seen."""
        question = asked(request, "", cluster)
        with turn():
            found = Incidents(parts.store, question).named(incident)
        if not found:
            raise RefusedError(
                "unknown_incident", f"no incident {incident[:200]!r}; GET /api/v1/incidents lists those there are"
            )
        return {"schema": SCHEMA_VERSION, "incidents": [each.as_json() for each in found]}

    @api.get(
        "/api/v1/diagnosis",
        tags=["incidents"],
        response_model=None,
        responses={**problems, 200: {"model": DiagnosisAnswer}},
    )
    def diagnosis(
        request: Request,
        job: Annotated[
            str, Query(description="bert-1 or job:bert-1, or the id of an incident; all if empty", max_length=1000)
        ] = "",
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What hurts, the causes with their evidence, what to do, what waiting costs; or what was watched to say that
        nothing does. `state` is ok, warning, critical or unknown."""
        question = asked(request, at, cluster)
        with turn():
            return diagnosis_answer(parts.store, question, job, parts.ledger)
