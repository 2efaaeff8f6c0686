"""The API's part about where time went and what failed: `GET /api/v1/ledger`, `/api/v1/failures`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.errors import UsageError
from leadline.server.asking import Cluster, From, OneJob, To, Ways
from leadline.views.ledger.failures import failures_answer
from leadline.views.ledger.types import LedgerAnswer
from leadline.views.ledger.view import ledger_answer


def mount_ledger(api: FastAPI, ways: Ways) -> None:
    """Add the end points."""

    told = {**ways.problems, 200: {"model": LedgerAnswer}}

    @api.get("/api/v1/ledger", tags=["ledger"], response_model=None, responses=told)
    def ledger(
        request: Request,
        job: OneJob,
        since: From = "",
        until: To = "",
        at: Annotated[str, Query(description="instead of `to`", max_length=64)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """Where the time of a job went, who took it, what it cost; the last 24 hours if no time is asked for."""
        if at and until:
            raise UsageError("give `to` or `at`, which are the same here, and not both")
        question, from_ns = ways.span(request, since, until or at, cluster)
        with ways.turn():
            return ledger_answer(ways.parts.store, ways.one_cluster(question), job, from_ns, ways.parts.ledger)

    @api.get("/api/v1/failures", tags=["ledger"], responses=ways.problems)
    def failures(request: Request, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
        """What failed, by class, time to resolve, fleet and job size; over all that is kept if no time is asked for."""
        question, from_ns = ways.span(request, since, until, cluster)
        with ways.turn():
            return failures_answer(ways.parts.store, question, from_ns)
