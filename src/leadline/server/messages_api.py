"""The API's part about messages: `GET /api/v1/messages`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.principal import Principal
from leadline.server.flows_view import Asked
from leadline.server.graph_api import At, Cluster
from leadline.server.graph_view import only_cluster
from leadline.server.health import Parts
from leadline.server.messages_view import messages_answer
from leadline.server.rows_view import parse_time


def mount_messages(
    api: FastAPI,
    parts: Parts,
    who: Callable[[Request], Principal],
    turn: Callable[[], AbstractContextManager[None]],
    problems: dict[int | str, Any],
) -> None:
    """Add the end point. `turn` gives a turn to query."""

    @api.get("/api/v1/messages", tags=["graph"], responses=problems)
    def messages(
        request: Request,
        job: Annotated[str, Query(description="bert-1 or job:bert-1", min_length=1, max_length=1000)],
        at: At = "",
        window: Annotated[str, Query(description="60s, 5m, 1h: windows so far back added up", max_length=100)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """The messages of a job by communicator: its rings, and which edges its collectives waited for."""
        now_ns = parts.now_ns()
        asked = Asked(who(request), cluster, parse_time(at, now_ns) if at else now_ns, latest=not at)
        with turn():
            one = replace(asked, cluster=cluster or only_cluster(parts.store, asked.principal))
            return messages_answer(parts.store, one, job, window)
