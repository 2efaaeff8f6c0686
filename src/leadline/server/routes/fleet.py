"""`GET /api/v1/fleet`: every host with its place, state and measures."""

from __future__ import annotations

import gzip
import json
from typing import Annotated

from fastapi import Query, Request
from fastapi.responses import Response

from leadline.server.asking import Cluster, From, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.fleet.view import PACKED_BYTES, SPAN_NS, FleetAnswer, fleet_answer

router = guarded_router()


# Not validated on its way out: that takes longer than all the rest of a large answer. A test does it.
@router.get("/api/v1/fleet", tags=["fleet"], **answers(FleetAnswer))
def fleet(
    request: Request,
    reader: Reading,
    since: From = "",
    until: To = "",
    address: Annotated[str, Query(description="part of an address; its hosts are `at_address`", max_length=64)] = "",
    cluster: Cluster = "",
) -> Response:
    """Every host: place, jobs, state with reasons; loss, errors, load, delay over the span (the last minute)."""
    asked, begin_ns = reader.span(since, until, cluster)
    from_ns = asked.at_ns - SPAN_NS if begin_ns is None else begin_ns
    with reader.turn():
        answer = fleet_answer(reader.parts.store, asked, from_ns, address)
    body = json.dumps(answer, separators=(",", ":"), allow_nan=False).encode()
    if len(body) < PACKED_BYTES or "gzip" not in request.headers.get("accept-encoding", ""):
        return Response(body, media_type="application/json", headers={"vary": "accept-encoding"})
    packed = {"content-encoding": "gzip", "vary": "accept-encoding"}
    return Response(gzip.compress(body, 5), media_type="application/json", headers=packed)
