"""`GET /api/v1/entities`, `/api/v1/clusters`: the names of what there is."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from leadline.server.asking import PROBLEMS, Cluster, Reading
from leadline.server.tokens.rights import guarded_router
from leadline.views.entities import MOST, ClustersAnswer, EntitiesAnswer, clusters_answer, entities_answer

router = guarded_router()


@router.get("/api/v1/clusters", tags=["graph"], responses=PROBLEMS)
def clusters(reader: Reading) -> ClustersAnswer:
    """The clusters that telemetry tells of; other end points take one of these as `cluster`."""
    with reader.turn():
        return clusters_answer(reader.parts.store, reader.asked())


@router.get("/api/v1/entities", tags=["graph"], responses=PROBLEMS)
def entities(
    reader: Reading,
    match: Annotated[str, Query(description="part of an id, any case", max_length=200)] = "",
    limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
    cluster: Cluster = "",
) -> EntitiesAnswer:
    """Ids of jobs, ranks, GPUs, hosts, ports, switches, links: whatever relations tell of."""
    with reader.turn():
        return entities_answer(reader.parts.store, reader.asked(cluster=cluster), match, limit)
