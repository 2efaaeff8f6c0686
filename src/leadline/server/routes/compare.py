"""The API's part that compares: `GET /api/v1/compare`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.server.asking import At, Cluster, Ways
from leadline.views.compare.types import CompareAnswer
from leadline.views.compare.view import compare_answer


def mount_compare(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    told = {**ways.problems, 200: {"model": CompareAnswer}}

    @api.get("/api/v1/compare", tags=["compare"], response_model=None, responses=told)
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
        question = ways.asked(request, at, cluster)
        with ways.turn():
            return compare_answer(ways.parts.store, question, a, b)
