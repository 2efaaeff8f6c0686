"""The API's part about expectations: `GET /api/v1/sle` and `/api/v1/expectations`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.server.asking import PROBLEMS, At, Cluster, From, Reading, To, answers
from leadline.server.expectations import expectations_answer
from leadline.server.tokens.rights import guarded_router
from leadline.views.sle.minutes import minutes_answer
from leadline.views.sle.spans import HOUR_NS, MINUTE_NS
from leadline.views.sle.types import SleAnswer, SleMinutes
from leadline.views.sle.view import Wanted, sle_answer

router = guarded_router()


@router.get("/api/v1/sle", tags=["expectations"], **answers(SleAnswer))
def sle(
    reader: Reading,
    layer: Annotated[str, Query(description="only this layer: gpu, nic, ...", max_length=100)] = "",
    entity: Annotated[str, Query(description="only this one: gpu:GPU-5c1e", max_length=1000)] = "",
    expectation: Annotated[str, Query(description="only this one, by name", max_length=1000)] = "",
    window: Annotated[str, Query(description="5m, 1h, 24h or 30d", max_length=100)] = "1h",
    at: At = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """How well each expectation was met by each entity in the window: share of good seconds, what is left of the
    error budget, burn rates, what made seconds bad; the worst first."""
    question = reader.asked(at, cluster)
    with reader.turn():
        one = reader.one_cluster(question)
        return sle_answer(reader.parts.store, one, Wanted(window, layer, entity, expectation))


@router.get("/api/v1/sle/minutes", tags=["expectations"], **answers(SleMinutes))
def minutes(
    reader: Reading,
    expectation: Annotated[str, Query(description="by name", max_length=1000)],
    entity: Annotated[str, Query(description="gpu:GPU-5c1e", max_length=1000)],
    since: From = "",
    until: To = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """The minutes of one expectation of one entity, by default of the last hour: good, bad and missing seconds, and
    what made them bad."""
    question, from_ns = reader.span(since, until, cluster)
    to_ns = question.at_ns + (0 if until else MINUTE_NS)  # a replay judges the minute that now is in
    with reader.turn():
        one = reader.one_cluster(question)
        span = (question.at_ns - HOUR_NS if from_ns is None else from_ns), to_ns
        return minutes_answer(reader.parts.store, one, expectation, entity, span)


@router.get("/api/v1/expectations", tags=["expectations"], responses=PROBLEMS)
def expectations(reader: Reading, at: At = "", cluster: Cluster = "") -> dict[str, Any]:
    """The expectations that hold: bounds, objective, since when, and where each was read."""
    question = reader.asked(at, cluster)
    with reader.turn():
        return expectations_answer(reader.parts.store, question)
