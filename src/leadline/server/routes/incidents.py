"""The API's part about incidents: `GET /api/v1/incidents`, `/api/v1/incidents/{incident}`, `/api/v1/diagnosis`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.errors import UsageError
from leadline.server.asking import At, Cluster, From, SomeJob, To, Ways
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.diagnosis import diagnosis_answer
from leadline.views.incidents.types import DiagnosisAnswer, IncidentsAnswer, OneIncidentAnswer
from leadline.views.incidents.view import STATES, Incidents, incidents_answer
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION


def mount_incidents(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""

    @api.get("/api/v1/incidents", tags=["incidents"], **ways.answers(IncidentsAnswer))
    def incidents(
        request: Request,
        since: From = "",
        until: To = "",
        job: SomeJob = "",
        state: Annotated[str, Query(description="open or over; both if empty", max_length=100)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What hurts or hurt, with its causes and evidence: open ones first, of these what lost most."""
        question, from_ns = ways.span(request, since, until, cluster)
        if state and state not in STATES:
            raise UsageError(f"state: expected {' or '.join(STATES)}, got {state[:50]!r}")
        with ways.turn():
            return incidents_answer(ways.parts.store, question, from_ns, job, state)

    @api.get("/api/v1/incidents/{incident}", tags=["incidents"], **ways.answers(OneIncidentAnswer))
    def one_incident(request: Request, incident: str, cluster: Cluster = "") -> dict[str, Any]:
        """One incident by its id: one entry for each tenant that it hurts and that may be seen."""
        question = ways.asked(request, "", cluster)
        with ways.turn():
            found = Incidents(ways.parts.store, question).named(incident)
            if not found:
                raise no_incident(ways.parts.store, question, incident)
        return {"schema": SCHEMA_VERSION, "incidents": [incident_json(each) for each in found]}

    @api.get("/api/v1/diagnosis", tags=["incidents"], **ways.answers(DiagnosisAnswer))
    def diagnosis(
        request: Request,
        job: Annotated[
            str,
            Query(
                description="bert-1 or job:bert-1, the id of an incident, or an entity that some name; all if empty",
                max_length=1000,
            ),
        ] = "",
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What hurts, the causes with their evidence, what to do, what waiting costs; or what was watched to say that
        nothing does. `state` is ok, warning, critical or unknown."""
        question = ways.asked(request, at, cluster)
        with ways.turn():
            return diagnosis_answer(ways.parts.store, question, job, ways.parts.ledger)
