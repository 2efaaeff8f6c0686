"""`GET /api/v1/anomalies`: what was outside its past or its peers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.server.asking import Cluster, From, To, Ways
from leadline.views.anomalies import anomalies_answer


def mount_anomalies(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    @api.get("/api/v1/anomalies", tags=["incidents"], responses=ways.problems)
    def anomalies(
        request: Request,
        since: From = "",
        until: To = "",
        entity: Annotated[str, Query(description="only this entity, host:h3", max_length=1000)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What was outside its past or its peers, by entity; the last 15 minutes if no time is asked for."""
        asked, from_ns = ways.span(request, since, until, cluster)
        with ways.turn():
            return anomalies_answer(ways.parts.store, asked, from_ns, entity)
