"""`GET /api/v1/entity`: all that the page of one entity shows."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from leadline.model.errors import UsageError
from leadline.server.asking import Cluster, From, Reading, To, answers
from leadline.server.routes.graph import told
from leadline.server.tokens.rights import guarded_router
from leadline.views.entity.types import EntityAnswer
from leadline.views.entity.view import SPAN_NS, entity_answer
from leadline.views.samples import POINTS_MAX, SPAN_NS_MAX

router = guarded_router()


# Not validated on its way out, as the graph: dozens of lines of 300 points. Tests do it.
@router.get("/api/v1/entity", tags=["graph"], **answers(EntityAnswer))
def entity(
    reader: Reading,
    of: Annotated[
        str,
        Query(description="`gpu:GPU-5c1e`, `host:h3`, `link:h3/eth0~leaf1/Ethernet3`", min_length=1, max_length=1000),
    ],
    since: From = "",
    until: To = "",
    points: Annotated[int, Query(ge=1, le=POINTS_MAX, description="at most, over the span")] = 300,
    cluster: Cluster = "",
) -> Response:
    """What an entity is, what uses it, what it measured beside its peers, and what happened to it; the last hour if no
    time is asked for."""
    asked, begin_ns = reader.span(since, until, cluster)
    from_ns = asked.at_ns - SPAN_NS if begin_ns is None else begin_ns
    if asked.at_ns > from_ns + SPAN_NS_MAX:
        raise UsageError(f"`from` must be at most 400 days before `to`; got {from_ns} and {asked.at_ns} ns")
    with reader.turn():
        one = reader.one_cluster(asked)
        return told(entity_answer(reader.parts.store, reader.graphs, one, of, from_ns, points))
