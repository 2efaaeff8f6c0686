"""`GET /api/v1/explore`: the streams of one metric over a span."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query
from fastapi.responses import Response

from leadline.model.errors import UsageError
from leadline.server.asking import Cluster, From, Reading, To, answers
from leadline.server.routes.graph import told
from leadline.server.tokens.rights import guarded_router
from leadline.views.entity.view import SPAN_NS
from leadline.views.explore.matchers import EXAMPLE
from leadline.views.explore.types import ExploreAnswer
from leadline.views.explore.view import Combine, Rate, Wanted, explore_answer
from leadline.views.samples import POINTS_MAX, SPAN_NS_MAX

router = guarded_router()


@router.get("/api/v1/explore", tags=["tables"], **answers(ExploreAnswer))
def explore(
    reader: Reading,
    name: Annotated[str, Query(description="of a metric, as /api/v1/series lists them", min_length=1, max_length=500)],
    where: Annotated[str, Query(description=f"filters: {EXAMPLE}", max_length=2000)] = "",
    by: Annotated[str, Query(description="a label whose values are the lines, or entity", max_length=200)] = "",
    rate: Annotated[Rate, Query(description="increases per second; auto: of counters")] = Rate.AUTO,
    combine: Annotated[
        Combine, Query(description="streams of one line; auto: rates added, others averaged")
    ] = Combine.AUTO,
    since: From = "",
    until: To = "",
    points: Annotated[int, Query(ge=1, le=POINTS_MAX, description="at most, over the span")] = 300,
    cluster: Cluster = "",
) -> Response:
    """The streams of one metric that fit a filter, by stream or by a label: lines, a band of all, last, least and
    largest values; the last hour if no time is asked for."""
    asked, begin_ns = reader.span(since, until, cluster)
    from_ns = asked.at_ns - SPAN_NS if begin_ns is None else begin_ns
    if asked.at_ns > from_ns + SPAN_NS_MAX:
        raise UsageError(f"`from` must be at most 400 days before `to`; got {from_ns} and {asked.at_ns} ns")
    with reader.turn():
        return told(explore_answer(reader.parts.store, asked, Wanted(name, where, by, rate, combine), from_ns, points))
