"""The API's part that compares: `GET /api/v1/compare`."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.model.principal import Principal
from leadline.server.compare_view import compare_answer
from leadline.server.flows_view import Asked
from leadline.server.graph_api import At, Cluster
from leadline.server.health import Parts
from leadline.server.rows_view import parse_time


def mount_compare(
    api: FastAPI,
    parts: Parts,
    who: Callable[[Request], Principal],
    turn: Callable[[], AbstractContextManager[None]],
    problems: dict[int | str, Any],
) -> None:
    """Add the end point. `turn` gives a turn to query."""

    @api.get("/api/v1/compare", tags=["compare"], responses=problems)
    def compare(
        request: Request,
        a: Annotated[
            str, Query(description="bert-7, bert-7@-2h, host:h3, gpu:GPU-5c1e", min_length=1, max_length=1000)
        ],
        b: Annotated[str, Query(description="the same; if empty the peers of a", max_length=1000)] = "",
        at: At = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """What differs between two runs, hosts or GPUs: versions and settings beside times. No claim of a cause."""
        now_ns = parts.now_ns()
        question = Asked(who(request), cluster, parse_time(at, now_ns) if at else now_ns, latest=not at)
        with turn():
            return compare_answer(parts.store, question, a, b)
