"""`GET /api/v1/whatif`: what each worker, stage and cause costs a job, from its operation traces."""

from __future__ import annotations

from typing import Any

from leadline.server.asking import Cluster, From, OneJob, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.whatif.types import WhatIfAnswer
from leadline.views.whatif.view import what_if_answer

router = guarded_router()


@router.get("/api/v1/whatif", tags=["ledger"], **answers(WhatIfAnswer))
def what_if(reader: Reading, job: OneJob, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
    """How long a job's steps would have taken without each worker, stage and cause, replayed from its operations."""
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return what_if_answer(reader.parts.store, reader.one_cluster(asked), job, from_ns)
