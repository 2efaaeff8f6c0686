"""`GET /api/v1/mesh`, `/api/v1/clock`: one-way delays between hosts, and how each clock is fitted."""

from __future__ import annotations

from typing import Annotated

from fastapi import Query

from leadline.server.asking import At, Cluster, From, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.mesh.board import board_answer, host_answer
from leadline.views.mesh.clocks import clock_answer
from leadline.views.mesh.flows import flows_answer
from leadline.views.mesh.pairs import mesh_answer, pair_answer
from leadline.views.mesh.types import BoardAnswer, ClockAnswer, FlowsDelayAnswer, HostAnswer, MeshAnswer, PairAnswer
from leadline.views.mesh.windows import MEASURE, SPAN_NS, Measure, Row

Host = Annotated[str, Query(description="a host, as the mesh names it", min_length=1, max_length=1000)]
Class = Annotated[int | None, Query(alias="class", description="traffic class; by default the one probed most")]
Chosen = Annotated[
    Measure,
    Query(
        description="queueing: median, 99th percentile; delay: median, 99th percentile, smallest; share of probes lost"
    ),
]

router = guarded_router()


@router.get("/api/v1/mesh", tags=["time"], **answers(MeshAnswer))
def mesh(
    reader: Reading, at: At = "", measure: Chosen = MEASURE, traffic_class: Class = None, cluster: Cluster = ""
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


@router.get("/api/v1/mesh/hosts", tags=["time"], **answers(BoardAnswer))
def board(
    reader: Reading, at: At = "", measure: Chosen = MEASURE, traffic_class: Class = None,
    address: Annotated[str, Query(description="part of an address; its hosts are `at_address`", max_length=64)] = "",
    cluster: Cluster = "",
) -> Row:  # fmt: skip
    """Every host by place: its delay inbound and outbound over its peers, jobs, NICs, and whether it is dark."""
    with reader.turn():
        asked = reader.one_cluster(reader.asked(at, cluster))
        return board_answer(reader.parts.store, asked, measure, traffic_class, address)


@router.get("/api/v1/mesh/host", tags=["time"], **answers(HostAnswer))
def of_host(
    reader: Reading, host: Host, since: From = "", until: To = "", traffic_class: Class = None, cluster: Cluster = ""
) -> Row:
    """One-way delay of one host over time, medians over its peers, and each peer now. Of the last hour by default."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        asked = reader.one_cluster(asked)
        begin_ns = asked.at_ns - SPAN_NS if from_ns is None else from_ns
        return host_answer(reader.parts.store, asked, begin_ns, host, traffic_class)


@router.get("/api/v1/mesh/flows", tags=["time"], **answers(FlowsDelayAnswer))
def flows(
    reader: Reading, at: At = "",
    job: Annotated[str, Query(description="only this job", max_length=1000)] = "",
    cluster: Cluster = "",
) -> Row:  # fmt: skip
    """Queue pairs and sockets by the one-way delay of the messages that rode them, with their jobs."""
    with reader.turn():
        return flows_answer(reader.parts.store, reader.one_cluster(reader.asked(at, cluster)), job)


@router.get("/api/v1/clock", tags=["time"], **answers(ClockAnswer))
def clock(reader: Reading, at: At = "", cluster: Cluster = "") -> Row:
    """How every host's clock maps to cluster time, and how well that is known."""
    with reader.turn():
        return clock_answer(reader.parts.store, reader.asked(at, cluster))
