"""The API's part about messages: `GET /api/v1/messages`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import FastAPI, Query, Request

from leadline.server.asking import At, Cluster, OneJob, Ways
from leadline.views.messages.types import MessagesAnswer
from leadline.views.messages.view import messages_answer


def mount_messages(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    told = {**ways.problems, 200: {"model": MessagesAnswer}}

    @api.get("/api/v1/messages", tags=["graph"], response_model=None, responses=told)
    def messages(
        request: Request,
        job: OneJob,
        at: At = "",
        window: Annotated[str, Query(description="60s, 5m, 1h: windows so far back added up", max_length=100)] = "",
        cluster: Cluster = "",
    ) -> dict[str, Any]:
        """The messages of a job by communicator: its rings, and which edges its collectives waited for."""
        asked = ways.asked(request, at, cluster)
        with ways.turn():
            return messages_answer(ways.parts.store, ways.one_cluster(asked), job, window)
