"""`GET /api/v1/samples`: what one entity measured over a span."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.model.errors import UsageError
from leadline.server.asking import Cluster, From, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.samples import POINTS_MAX, SPAN_NS, SPAN_NS_MAX, SamplesAnswer, samples_answer

router = guarded_router()


@router.get("/api/v1/samples", tags=["tables"], **answers(SamplesAnswer))
def samples(
    reader: Reading,
    metric: Annotated[
        str,
        Query(
            description="name of a metric, or step.seconds, collective.lateness_seconds, as anomalies name them",
            min_length=1,
            max_length=500,
        ),
    ],
    entity: Annotated[str, Query(description="`gpu:GPU-5c1e`, `rank:bert-7/3`", min_length=1, max_length=1000)],
    since: From = "",
    until: To = "",
    points: Annotated[int, Query(ge=1, le=POINTS_MAX, description="at most, over the span")] = 300,
    peers: Annotated[bool, Query(description="also the median of others of its kind")] = False,
    cluster: Cluster = "",
) -> dict[str, Any]:
    """What an entity measured over a span, the last hour if none is asked for: bins, counters as rates."""
    asked, begin_ns = reader.span(since, until, cluster)
    from_ns = asked.at_ns - SPAN_NS if begin_ns is None else begin_ns
    if asked.at_ns > from_ns + SPAN_NS_MAX:
        raise UsageError(f"`from` must be at most 400 days before `to`; got {from_ns} and {asked.at_ns} ns")
    with reader.turn():
        return samples_answer(reader.parts.store, asked, metric, entity, from_ns, points, peers)
