"""The API's part about where time went and what failed: `GET /api/v1/ledger`, `/api/v1/failures`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.errors import UsageError
from leadline.model.principal import Principal
from leadline.server.failures_view import failures_answer
from leadline.server.flows_view import Asked
from leadline.server.graph_view import only_cluster
from leadline.server.health import Parts
from leadline.server.ledger_view import ledger_answer
from leadline.server.rows_view import parse_time

From = Annotated[str, Query(alias="from", description="ns, ISO 8601 or -15m; included", max_length=64)]
To = Annotated[str, Query(alias="to", description="the same; if empty now", max_length=64)]
Cluster = Annotated[str, Query(description="where there are several", max_length=64)]


def mount_ledger(
    api: FastAPI,
    parts: Parts,
    who: Callable[[Request], Principal],
    turn: Callable[[], AbstractContextManager[None]],
    problems: dict[int | str, Any],
) -> None:
    """Add the end points. `turn` gives a turn to query."""

    def asked(request: Request, since: str, until: str, cluster: str) -> tuple[Asked, int | None]:
        """Whose rows up to when, and since when (None: not told). Errors: UsageError for a span that ends first."""
        now_ns = parts.now_ns()
        to_ns = parse_time(until, now_ns) if until else now_ns
        from_ns = parse_time(since, now_ns) if since else None
        if from_ns is not None and from_ns >= to_ns:
            raise UsageError(
                f"`from` must be before `to`, got {from_ns} and {to_ns} ns; leave `to` out to mean the present"
            )
        return Asked(who(request), cluster, to_ns, latest=not (since or until)), from_ns

    def one_cluster(question: Asked) -> Asked:
        """Names of jobs mean something within one cluster. Errors: UsageError where there are several."""
        return replace(question, cluster=question.cluster or only_cluster(parts.store, question.principal))

    @api.get("/api/v1/ledger", tags=["ledger"], responses=problems)
    def ledger(
        request: Request,
        job: Annotated[str, Query(description="bert-1 or job:bert-1", min_length=1, max_length=1000)],
        since: From = "",
        until: To = "",
        at: Annotated[str, Query(description="instead of `to`", max_length=64)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """Where the time of a job went, who took it, what it cost; the last 24 hours if no time is asked for."""
        if at and until:
            raise UsageError("give `to` or `at`, which are the same here, and not both")
        question, from_ns = asked(request, since, until or at, cluster)
        with turn():
            return ledger_answer(parts.store, one_cluster(question), job, from_ns, parts.ledger)

    @api.get("/api/v1/failures", tags=["ledger"], responses=problems)
    def failures(request: Request, since: From = "", until: To = "", cluster: Cluster = "") -> dict[str, Any]:
        """What failed, by class, time to resolve, fleet and job size; over all that is kept if no time is asked for."""
        question, from_ns = asked(request, since, until, cluster)
        with turn():
            return failures_answer(parts.store, question, from_ns)
