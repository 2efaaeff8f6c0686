"""`GET /api/v1/mesh`, `/api/v1/clock`: one-way delays between hosts, and how each clock is fitted."""

from __future__ import annotations

from fastapi import FastAPI, Request

from leadline.server.asking import At, Cluster, From, To, Ways
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


def mount_mesh(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""
    store = ways.parts.store

    @api.get("/api/v1/mesh", tags=["time"], **ways.answers(MeshAnswer))
    def mesh(
        request: Request, at: At = "", measure: Measure = "p99", traffic_class: Class = None, cluster: Cluster = ""
    ) -> Row:
        """The newest one-way delay, or loss, from every host to every other."""
        with ways.turn():
            return mesh_answer(store, ways.one_cluster(ways.asked(request, at, cluster)), measure, traffic_class)

    @api.get("/api/v1/mesh/pair", tags=["time"], **ways.answers(PairAnswer))
    def pair(
        request: Request, src: Host, dst: Host, since: From = "", until: To = "", traffic_class: Class = None,
        cluster: Cluster = "",
    ) -> Row:  # fmt: skip
        """One-way delay and loss between two hosts over time, both ways. Of the last hour if no time is asked for."""
        asked, from_ns = ways.span(request, since, until, cluster)
        with ways.turn():
            asked = ways.one_cluster(asked)
            begin_ns = asked.at_ns - SPAN_NS if from_ns is None else from_ns
            return pair_answer(store, asked, begin_ns, src, dst, traffic_class)

    @api.get("/api/v1/clock", tags=["time"], **ways.answers(ClockAnswer))
    def clock(request: Request, at: At = "", cluster: Cluster = "") -> Row:
        """How every host's clock maps to cluster time, and how well that is known."""
        with ways.turn():
            return clock_answer(store, ways.asked(request, at, cluster))
