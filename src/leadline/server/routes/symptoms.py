"""`GET /api/v1/symptoms`: symptoms, before they become incidents."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from leadline.server.asking import Cluster, From, SomeJob, To, Ways
from leadline.views.symptoms import symptoms_answer


def mount_symptoms(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    @api.get("/api/v1/symptoms", tags=["incidents"], responses=ways.problems)
    def symptoms(
        request: Request,
        since: From = "",
        until: To = "",
        job: SomeJob = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """Slow jobs, stalls, crashes and burning expectations, each with whom it blames: what incidents are made of."""
        asked, from_ns = ways.span(request, since, until, cluster)
        with ways.turn():
            return symptoms_answer(ways.parts.store, asked, from_ns, job)
