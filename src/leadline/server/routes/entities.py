"""`GET /api/v1/entities`, `/api/v1/clusters`: the names of what there is."""

from __future__ import annotations

from typing import Annotated

from fastapi import FastAPI, Query, Request

from leadline.server.asking import Cluster, Ways
from leadline.views.entities import MOST, ClustersAnswer, EntitiesAnswer, clusters_answer, entities_answer


def mount_entities(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""

    @api.get("/api/v1/clusters", tags=["graph"], responses=ways.problems)
    def clusters(request: Request) -> ClustersAnswer:
        """The clusters that telemetry tells of; other end points take one of these as `cluster`."""
        with ways.turn():
            return clusters_answer(ways.parts.store, ways.asked(request))

    @api.get("/api/v1/entities", tags=["graph"], responses=ways.problems)
    def entities(
        request: Request,
        match: Annotated[str, Query(description="part of an id, any case", max_length=200)] = "",
        limit: Annotated[int, Query(ge=1, le=MOST)] = MOST,
        cluster: Cluster = "",
    ) -> EntitiesAnswer:
        """Ids of jobs, ranks, GPUs, hosts, ports, switches, links: whatever relations tell of."""
        with ways.turn():
            return entities_answer(ways.parts.store, ways.asked(request, cluster=cluster), match, limit)
