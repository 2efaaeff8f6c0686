"""`GET /api/v1/symptoms`: symptoms, before they become incidents."""

from __future__ import annotations

from typing import Any

from leadline.server.asking import PROBLEMS, Cluster, From, Reading, SomeJob, To
from leadline.server.tokens.rights import guarded_router
from leadline.views.symptoms import symptoms_answer

router = guarded_router()


@router.get("/api/v1/symptoms", tags=["incidents"], responses=PROBLEMS)
def symptoms(
    reader: Reading,
    since: From = "",
    until: To = "",
    job: SomeJob = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Slow jobs, stalls, crashes and burning expectations, each with whom it blames: what incidents are made of."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return symptoms_answer(reader.parts.store, asked, from_ns, job)
