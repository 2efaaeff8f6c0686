"""What every end point of the API begins with: who asks, whose rows of which time may be read, a turn to query.

mount_ledger(api, ways) ──> ways.span(request, from, to, cluster) ──> Asked ──> with ways.turn(): the answer
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Query, Request
from pydantic import BaseModel

from leadline.model.errors import UsageError
from leadline.model.principal import Principal
from leadline.server.health import Parts
from leadline.views.asked import Asked, only_cluster
from leadline.views.rows import parse_time

At = Annotated[
    str,
    Query(description="ns, ISO 8601 or -15m; if empty now, or when a job that is over last was there", max_length=64),
]
From = Annotated[str, Query(alias="from", description="ns, ISO 8601 or -15m; included", max_length=64)]
To = Annotated[str, Query(alias="to", description="the same; if empty now", max_length=64)]
Cluster = Annotated[str, Query(description="where there are several", max_length=64)]
SomeJob = Annotated[str, Query(description="bert-1 or job:bert-1; all if empty", max_length=1000)]
OneJob = Annotated[str, Query(description="bert-1 or job:bert-1", min_length=1, max_length=1000)]


@dataclass(frozen=True, slots=True)
class Ways:
    """What end points are made of: the server's parts, who a request is of, turns to query, how errors are told."""

    parts: Parts
    who: Callable[[Request], Principal]
    turn: Callable[[], AbstractContextManager[None]]
    problems: dict[int | str, Any]

    def answers(self, model: type[BaseModel]) -> dict[str, Any]:
        """What a decorator says of an answer of this shape: told to OpenAPI, not checked at each answer, since large
        ones take milliseconds; tests check them."""
        return {"response_model": None, "responses": {**self.problems, 200: {"model": model}}}

    def asked(self, request: Request, at: str = "", cluster: str = "") -> Asked:
        """Whose rows as they were at a time; without one, as they are. Errors: UsageError, RefusedError."""
        principal, now_ns = self.who(request), self.parts.now_ns()
        return Asked(principal, cluster, parse_time(at, now_ns) if at else now_ns, latest=not at)

    def span(self, request: Request, since: str, until: str, cluster: str) -> tuple[Asked, int | None]:
        """Whose rows up to when, and since when (None: not told). Errors: UsageError for a span that ends first."""
        asked = self.asked(request, until, cluster)
        from_ns = parse_time(since, self.parts.now_ns()) if since else None
        if from_ns is not None and from_ns >= asked.at_ns:
            raise UsageError(
                f"`from` must be before `to`, got {from_ns} and {asked.at_ns} ns; leave `to` out to mean the present"
            )
        return asked, from_ns

    def one_cluster(self, asked: Asked) -> Asked:
        """The same of one cluster, within which names of jobs and ranks mean something.

        Errors: UsageError where there are several and none was named. Asks the store: call it within a turn.
        """
        return replace(asked, cluster=asked.cluster or only_cluster(self.parts.store, asked.principal))
