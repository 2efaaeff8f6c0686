"""`GET /api/v1/mesh`, `/api/v1/clock`: one-way delays between hosts, and how each clock is fitted."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from leadline.server.asking import At, Cluster, From, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.mesh import (
    SPAN_NS,
    Class,
    ClockAnswer,
    Host,
    Measure,
    MeshAnswer,
    PairAnswer,
    Row,
    clock_answer,
    mesh_answer,
    pair_answer,
)

Chosen = Annotated[
    Measure, Query(description="one-way delay: median, 99th percentile, smallest, queueing; or share of probes lost")
]

router = guarded_router()


@router.get("/api/v1/mesh", tags=["time"], **answers(MeshAnswer))
def mesh(
    reader: Reading, at: At = "", measure: Chosen = "p99", traffic_class: Class = None, cluster: Cluster = ""
) -> Row:
    """The newest one-way delay, or loss, from every host to every other."""
    with reader.turn():
        return mesh_answer(reader.parts.store, reader.one_cluster(reader.asked(at, cluster)), measure, traffic_class)


@router.get("/api/v1/mesh/pair", tags=["time"], **answers(PairAnswer))
def pair(
    reader: Reading, src: Host, dst: Host, since: From = "", until: To = "", traffic_class: Class = None,
    cluster: Cluster = "",
) -> Row:  # fmt: skip
    """One-way delay and loss between two hosts over time, both ways. Of the last hour if no time is asked for."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        asked = reader.one_cluster(asked)
        begin_ns = asked.at_ns - SPAN_NS if from_ns is None else from_ns
        return pair_answer(reader.parts.store, asked, begin_ns, src, dst, traffic_class)


@router.get("/api/v1/clock", tags=["time"], **answers(ClockAnswer))
def clock(reader: Reading, at: At = "", cluster: Cluster = "") -> Row:
    """How every host's clock maps to cluster time, and how well that is known."""
    with reader.turn():
        return clock_answer(reader.parts.store, reader.asked(at, cluster))
