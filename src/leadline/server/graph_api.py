"""The API's part about the graph and the paths: `GET /api/v1/graph`, `/api/v1/path`, `/api/v1/flows`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.principal import Principal
from leadline.server.flows_view import Asked, flows_answer
from leadline.server.graph_view import Graphs, graph_answer, only_cluster
from leadline.server.health import Parts
from leadline.server.path_view import path_answer
from leadline.server.rows_view import parse_time

At = Annotated[
    str,
    Query(description="ns, ISO 8601 or -15m; if empty now, or when a job that is over last was there", max_length=64),
]
Cluster = Annotated[str, Query(description="where there are several", max_length=64)]


def mount_graph(
    api: FastAPI,
    parts: Parts,
    who: Callable[[Request], Principal],
    turn: Callable[[], AbstractContextManager[None]],
    problems: dict[int | str, Any],
) -> None:
    """Add the end points. `turn` gives a turn to query."""
    graphs = Graphs(parts.store, parts.live, parts.now_ns)

    def asked(request: Request, at: str, cluster: str) -> Asked:
        now_ns = parts.now_ns()
        return Asked(who(request), cluster, parse_time(at, now_ns) if at else now_ns, latest=not at)

    def one_cluster(question: Asked) -> Asked:
        """Names of jobs and ranks mean something within one cluster. Errors: UsageError where there are several."""
        return replace(question, cluster=question.cluster or only_cluster(parts.store, question.principal))

    @api.get("/api/v1/graph", tags=["graph"], responses=problems)
    def graph(
        request: Request,
        job: Annotated[str, Query(description="bert-1 or job:bert-1", max_length=1000)] = "",
        of: Annotated[str, Query(description="instead: an entity, switch:leaf1", max_length=1000)] = "",
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What a job (or another entity) stands on at a time, and which other jobs share that."""
        question = asked(request, at, cluster)
        with turn():
            return graph_answer(graphs, parts.store, question, job, of)

    @api.get("/api/v1/path", tags=["graph"], responses=problems)
    def path(
        request: Request,
        a: Annotated[str, Query(description="a rank, bert-1/0 or rank:bert-1/0", max_length=1000)],
        b: Annotated[str, Query(description="another one", max_length=1000)],
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """The paths of the flows between two ranks, both ways, in the latest window that was judged."""
        question = asked(request, at, cluster)
        with turn():
            return path_answer(parts.store, one_cluster(question), a, b)

    @api.get("/api/v1/flows", tags=["graph"], responses=problems)
    def flows(
        request: Request,
        job: Annotated[str, Query(description="bert-1 or job:bert-1", min_length=1, max_length=1000)],
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """The flows of a job in the latest window that was judged, and who else is on their links."""
        question = asked(request, at, cluster)
        with turn():
            return flows_answer(parts.store, one_cluster(question), job)
