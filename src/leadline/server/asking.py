"""What every end point of the API begins with: who asks, whose rows of which time may be read, a turn to query.

@router.get("/api/v1/ledger", **answers(LedgerAnswer))
def ledger(reader: Reading, since: From = "", ...):
    asked, from_ns = reader.span(since, until, cluster)
    with reader.turn():
        return ledger_answer(reader.parts.store, asked, ...)
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from dataclasses import dataclass, replace
from typing import Annotated, Any

from fastapi import Depends, Path, Query, Request
from pydantic import BaseModel

from leadline.explain.explain import Explainer
from leadline.model.errors import RefusedError, UsageError
from leadline.model.principal import READ, WRITE, Principal
from leadline.server.health import Parts
from leadline.server.serving import Serving, serving_of
from leadline.server.tokens.rights import caller_of
from leadline.views.asked import Asked, only_cluster
from leadline.views.graph.view import Graphs
from leadline.views.times import SHORT_FORMS, parse_time

At = Annotated[
    str,
    Query(description=f"{SHORT_FORMS}; if empty now, or when a job that is over last was there", max_length=64),
]
From = Annotated[str, Query(alias="from", description=f"{SHORT_FORMS}; included", max_length=64)]
To = Annotated[str, Query(alias="to", description="the same; if empty now", max_length=64)]
Cluster = Annotated[str, Query(description="only this cluster; needed where there are several", max_length=64)]
SomeJob = Annotated[str, Query(description="bert-1 or job:bert-1; all if empty", max_length=1000)]
SomeIncident = Annotated[str, Path(description="id of an incident, `bert-1-slow-1`")]
OneJob = Annotated[str, Query(description="bert-1 or job:bert-1", min_length=1, max_length=1000)]


class Problem(BaseModel):
    """What went wrong: a reason for programs, a message for people."""

    reason: str
    message: str


class ErrorAnswer(BaseModel):
    """The body of every answer that is not a success."""

    error: Problem


PROBLEMS: dict[int | str, dict[str, Any]] = {
    status: {"model": ErrorAnswer} for status in (400, 401, 403, 404, 422, 429, 503)
}


def answers(model: type[BaseModel]) -> dict[str, Any]:
    """What a decorator says of an answer of this shape: OpenAPI has it, but each answer is not checked against it,
    since that takes milliseconds for large ones; tests check them."""
    return {"response_model": None, "responses": {**PROBLEMS, 200: {"model": model}}}


@dataclass(frozen=True, slots=True)
class Reader:
    """One request that may read: who asks, and what of the server answers it."""

    principal: Principal
    serving: Serving

    @property
    def parts(self) -> Parts:
        """The parts of the server."""
        return self.serving.parts

    @property
    def graphs(self) -> Graphs:
        """The graphs that were built lately."""
        return self.serving.graphs

    @property
    def explainer(self) -> Explainer:
        """What puts incidents into sentences."""
        return self.serving.explainer

    def turn(self) -> AbstractContextManager[None]:
        """A turn to query, for the time of a `with`. Errors: BusyError if none is left for whoever asks."""
        if self.parts.memory:
            self.parts.memory.require_room()
        return self.serving.turns.turn(self.principal)

    def asked(self, at: str = "", cluster: str = "", *, end: bool = False) -> Asked:
        """Whose rows as they were at a time; without one, as they are. `end`: `at` ends a span, so that of a day it is
        the end. Errors: UsageError for what is no time."""
        now_ns = self.parts.now_ns()
        return Asked(self.principal, cluster, parse_time(at, now_ns, end=end) if at else now_ns, latest=not at)

    def span(self, since: str, until: str, cluster: str) -> tuple[Asked, int | None]:
        """Whose rows up to when, and since when (None: not given). Errors: UsageError for a span that ends first."""
        asked = self.asked(until, cluster, end=True)
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


# `async`: a plain function would be called in a thread of its own, which costs more than what it does.
async def reader_of(request: Request) -> Reader:
    """Who asks. Errors: RefusedError for whoever may not read."""
    serving = serving_of(request)
    principal = serving.gate.again(caller_of(request, READ))
    if not principal.may(READ):
        raise RefusedError("unauthorized", f"role {principal.role} may not read")
    return Reader(principal, serving)


Reading = Annotated[Reader, Depends(reader_of)]


@dataclass(frozen=True, slots=True)
class Writer:
    """One request of a sender."""

    principal: Principal
    serving: Serving


async def writer_of(request: Request) -> Writer:
    """Who sends. Errors: RefusedError for whoever may not write."""
    serving = serving_of(request)
    principal = serving.gate.again(caller_of(request, WRITE))
    if not principal.may(WRITE):
        raise RefusedError("unauthorized", f"role {principal.role} may not write; use a token of the role write")
    return Writer(principal, serving)


Writing = Annotated[Writer, Depends(writer_of)]
