"""The API's part about explanations: `GET /api/v1/incidents/{incident}/explanation`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.explain.config import ExplainConfig
from leadline.explain.explain import Explainer
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.verdicts import INCIDENT
from leadline.server.asking import Cluster, Ways
from leadline.store import Store
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.types import ExplanationAnswer
from leadline.views.incidents.view import Incidents
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION

TENANTS_MAX = 10_000  # that a store tells apart


def mount_explanation(api: FastAPI, ways: Ways) -> None:
    """Add the end point. No turn to query is held while a model is asked."""
    directory = Path(ways.parts.store.config.path)
    explainer = ways.parts.explainer or Explainer(ExplainConfig(), directory, ways.parts.intake.counts.add)

    @api.get("/api/v1/incidents/{incident}/explanation", tags=["incidents"], **ways.answers(ExplanationAnswer))
    def incident_explanation(
        request: Request,
        incident: str,
        model: Annotated[bool, Query(description="also ask the language model of `explain.url`")] = False,
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """An incident explained in sentences that cite numbered facts, one explanation for each tenant that it hurts.
        With `model` also in the words of a language model, as far as they hold against the facts."""
        asked = ways.asked(request, cluster=cluster)
        with ways.turn():
            found = Incidents(ways.parts.store, asked).named(incident)
            if not found:
                raise no_incident(ways.parts.store, asked, incident)
            tenants = _tenants(ways.parts.store) if model else []
        told = [_told(explainer, each, model, tenants) for each in found]
        return {"schema": SCHEMA_VERSION, "explanations": told}


def _told(explainer: Explainer, each: Incident, model: bool, tenants: list[str]) -> dict[str, Any]:
    whose = {"incident": each.incident, "tenant": each.tenant, "cluster": each.cluster, "verdict": each.verdict}
    return {**whose, **explainer.explain(each, with_model=model, tenants=[*tenants, each.tenant])}


def _tenants(store: Store) -> list[str]:
    """All tenants that there are: another's name may stand in evidence about what two share."""
    sql = " UNION DISTINCT ".join(
        f"SELECT DISTINCT toString(tenant) AS tenant FROM leadline.{name}"
        for name in (SERIES.name, RELATION.name, INCIDENT.name)
    )
    found = store.query(f"SELECT tenant FROM ({sql}) LIMIT {TENANTS_MAX} SETTINGS final = 0")
    return [str(each) for each in found.column("tenant").to_pylist()]
