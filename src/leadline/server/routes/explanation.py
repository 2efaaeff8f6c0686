"""The API's part about explanations: `GET /api/v1/incidents/{incident}/explanation`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.verdicts import INCIDENT
from leadline.server.asking import Cluster, Reading, SomeIncident, answers
from leadline.server.tokens.rights import guarded_router
from leadline.store import Store
from leadline.views.incidents.types import ExplanationAnswer
from leadline.views.incidents.view import Incidents
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION

TENANTS_MAX = 10_000  # that a store tells apart

router = guarded_router()


@router.get("/api/v1/incidents/{incident}/explanation", tags=["incidents"], **answers(ExplanationAnswer))
def incident_explanation(
    reader: Reading,
    incident: SomeIncident,
    model: Annotated[bool, Query(description="also in the words of the language model of `explain.url`")] = False,
    opinion: Annotated[bool, Query(description="also which candidate that model would name")] = False,
    cluster: Cluster = "",
) -> dict[str, Any]:
    """An incident explained in sentences that cite numbered facts, one explanation for each tenant that it affects.
    With `model` also in the words of a language model, as far as they hold against the facts. With `opinion` also which
    candidate it would name: a second opinion, which changes no verdict."""
    asked = reader.asked(cluster=cluster)
    with reader.turn():
        found = Incidents(reader.parts.store, asked).named(incident)
        if not found:
            raise no_incident(reader.parts.store, asked, incident)
        tenants = _tenants(reader.parts.store) if model or opinion else []
    told = [
        {
            "incident": each.incident, "tenant": each.tenant, "cluster": each.cluster, "verdict": each.verdict,
            **reader.explainer.explain(
                each, with_model=model, with_opinion=opinion, tenants=[*tenants, each.tenant]
            ),
        }
        for each in found
    ]  # fmt: skip
    return {"schema": SCHEMA_VERSION, "explanations": told}


def _tenants(store: Store) -> list[str]:
    """All tenants that there are: another's name may stand in evidence about what two share."""
    sql = " UNION DISTINCT ".join(
        f"SELECT DISTINCT toString(tenant) AS tenant FROM leadline.{name}"
        for name in (SERIES.name, RELATION.name, INCIDENT.name)
    )
    found = store.query(f"SELECT tenant FROM ({sql}) LIMIT {TENANTS_MAX} SETTINGS final = 0")
    return [str(each) for each in found.column("tenant").to_pylist()]
