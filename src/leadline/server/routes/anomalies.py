"""`GET /api/v1/anomalies`: what was outside its past or its peers."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.server.asking import PROBLEMS, Cluster, From, Reading, To
from leadline.server.tokens.rights import guarded_router
from leadline.views.anomalies import anomalies_answer

router = guarded_router()


@router.get("/api/v1/anomalies", tags=["incidents"], responses=PROBLEMS)
def anomalies(
    reader: Reading,
    since: From = "",
    until: To = "",
    entity: Annotated[str, Query(description="only this entity, host:h3", max_length=1000)] = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """What was outside its past or its peers, by entity; the last 15 minutes if no time is asked for."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return anomalies_answer(reader.parts.store, asked, from_ns, entity)
