"""The API's part about incidents: `GET /api/v1/incidents`, `/api/v1/incidents/{incident}`, `/api/v1/diagnosis`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Path, Query

from leadline.model.errors import UsageError
from leadline.server.asking import At, Cluster, From, Reading, SomeIncident, SomeJob, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.diagnosis import diagnosis_answer
from leadline.views.incidents.similar import similar_answer
from leadline.views.incidents.types import DiagnosisAnswer, IncidentsAnswer, OneIncidentAnswer, SimilarAnswer
from leadline.views.incidents.view import STATES, Incidents, incidents_answer
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION

router = guarded_router()


@router.get("/api/v1/incidents", tags=["incidents"], **answers(IncidentsAnswer))
def incidents(
    reader: Reading,
    since: From = "",
    until: To = "",
    job: SomeJob = "",
    state: Annotated[str, Query(description="open or over; both if empty", max_length=100)] = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Incidents with their causes and evidence: open ones first, of these what lost most."""
    question, from_ns = reader.span(since, until, cluster)
    if state and state not in STATES:
        raise UsageError(f"state: expected {' or '.join(STATES)}, got {state[:50]!r}")
    with reader.turn():
        return incidents_answer(reader.parts.store, question, from_ns, job, state)


@router.get("/api/v1/incidents/{incident}", tags=["incidents"], **answers(OneIncidentAnswer))
def one_incident(reader: Reading, incident: SomeIncident, cluster: Cluster = "") -> dict[str, Any]:
    """One incident by its id: one entry for each tenant that it affects and that may be seen."""
    question = reader.asked("", cluster)
    with reader.turn():
        found = Incidents(reader.parts.store, question).named(incident)
        if not found:
            raise no_incident(reader.parts.store, question, incident)
    return {"schema": SCHEMA_VERSION, "incidents": [incident_json(each) for each in found]}


@router.get("/api/v1/incidents/{incident}/similar", tags=["incidents"], **answers(SimilarAnswer))
def similar(
    reader: Reading, incident: Annotated[str, Path(description="id of an incident")], cluster: Cluster = ""
) -> dict[str, Any]:
    """Earlier incidents like this one, the likest first, and what people said of them."""
    question = reader.asked("", cluster)
    with reader.turn():
        return similar_answer(reader.parts.store, question, incident)


@router.get("/api/v1/diagnosis", tags=["incidents"], **answers(DiagnosisAnswer))
def diagnosis(
    reader: Reading,
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
    """The symptoms, the causes with their evidence, what to do, what waiting costs; or what was watched to say that
    nothing does. `state` is ok, warning, critical or unknown."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return diagnosis_answer(reader.parts.store, question, job, reader.parts.ledger)
