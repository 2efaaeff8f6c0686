"""The API's part about the graph and the paths: `GET /api/v1/graph`, `/api/v1/path`, `/api/v1/flows`."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Annotated, Any

from fastapi import Query
from fastapi.responses import Response

from leadline.server.asking import At, Cluster, OneJob, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.graph.types import FlowsAnswer, GraphAnswer, PathAnswer
from leadline.views.graph.view import graph_answer
from leadline.views.paths.flows import flows_answer
from leadline.views.paths.path import path_answer

router = guarded_router()


# Not validated on their way out: that takes longer than the rest of a large answer. Tests do it.
@router.get("/api/v1/graph", tags=["graph"], **answers(GraphAnswer))
def graph(
    reader: Reading,
    job: Annotated[str, Query(description="bert-1 or job:bert-1", max_length=1000)] = "",
    of: Annotated[str, Query(description="instead: an entity, switch:leaf1", max_length=1000)] = "",
    at: At = "",
    states: Annotated[bool, Query(description="also how each part does, and what happened meanwhile")] = False,
    cluster: Cluster = "",
) -> Response:
    """What a job (or another entity) stands on at a time, and which other jobs share that."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return told(graph_answer(reader.graphs, reader.parts.store, question, job, of, states))


@router.get("/api/v1/path", tags=["graph"], **answers(PathAnswer))
def path(
    reader: Reading,
    a: Annotated[str, Query(description="a rank, bert-1/0 or rank:bert-1/0", max_length=1000)],
    b: Annotated[str, Query(description="another one", max_length=1000)],
    at: At = "",
    cluster: Cluster = "",
) -> Response:
    """The paths of the flows between two ranks, both ways, in the latest window that was analysed."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return told(path_answer(reader.parts.store, reader.one_cluster(question), a, b))


@router.get("/api/v1/flows", tags=["graph"], **answers(FlowsAnswer))
def flows(
    reader: Reading,
    job: OneJob,
    at: At = "",
    cluster: Cluster = "",
) -> Response:
    """The flows of a job in the latest window that was analysed, and who else is on their links."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return told(flows_answer(reader.parts.store, reader.one_cluster(question), job))


def told(answer: Mapping[str, Any]) -> Response:
    """An answer as JSON."""
    return Response(json.dumps(answer, separators=(",", ":"), allow_nan=False), media_type="application/json")
