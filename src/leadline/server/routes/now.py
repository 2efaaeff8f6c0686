"""`GET /api/v1/now`: what costs GPU-hours at this moment."""

from __future__ import annotations

from typing import Any

from leadline.model.errors import UsageError
from leadline.server.asking import At, Cluster, From, Reading, answers
from leadline.server.health import ended_senders
from leadline.server.tokens.rights import guarded_router
from leadline.views.incidents.diagnosis import LOOK_NS
from leadline.views.now import SPAN_NS_MAX, NowAnswer, now_answer
from leadline.views.sources import own_sources

router = guarded_router()


@router.get("/api/v1/now", tags=["incidents"], **answers(NowAnswer))
def now(
    reader: Reading,
    since: From = "",
    at: At = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """What costs GPU-hours, the most first; what to do; and what was watched to be able to say so. Of the last
    hour if no time is asked for."""
    asked, begin_ns = reader.span(since, at, cluster)
    from_ns = asked.at_ns - LOOK_NS if begin_ns is None else begin_ns
    if asked.at_ns > from_ns + SPAN_NS_MAX:
        raise UsageError(f"`from` must be at most 7 days before `at`; got {from_ns} and {asked.at_ns} ns")
    with reader.turn():
        parts = reader.parts
        senders = own_sources(parts.intake.sources.all(), asked.principal)
        return now_answer(
            parts.store, asked, from_ns, parts.ledger, senders, recorded=parts.replay is not None,
            ended_ns=ended_senders(parts, asked.principal),
        )  # fmt: skip
