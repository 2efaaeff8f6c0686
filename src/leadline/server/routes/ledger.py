"""The API's part about where time went and what failed: `GET /api/v1/ledger`, `/api/v1/failures`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.model.errors import UsageError
from leadline.server.asking import PROBLEMS, Cluster, From, OneJob, Reading, To, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.ledger.failures import failures_answer
from leadline.views.ledger.types import LedgerAnswer
from leadline.views.ledger.view import ledger_answer

router = guarded_router()


@router.get("/api/v1/ledger", tags=["ledger"], **answers(LedgerAnswer))
def ledger(
    reader: Reading,
    job: OneJob,
    since: From = "",
    until: To = "",
    at: Annotated[str, Query(description="instead of `to`", max_length=64)] = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """Where the time of a job went, who took it, what it cost; the last 24 hours if no time is asked for."""
    if at and until:
        raise UsageError("give `to` or `at`, which are the same here, and not both")
    question, from_ns = reader.span(since, until or at, cluster)
    with reader.turn():
        return ledger_answer(reader.parts.store, reader.one_cluster(question), job, from_ns, reader.parts.ledger)


@router.get("/api/v1/failures", tags=["ledger"], responses=PROBLEMS)
def failures(reader: Reading, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
    """What failed, by class, time to resolve, fleet and job size; over all that is kept if no time is asked for."""
    question, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return failures_answer(reader.parts.store, question, from_ns)
