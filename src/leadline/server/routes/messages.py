"""The API's part about messages: `GET /api/v1/messages`."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import Query

from leadline.server.asking import At, Cluster, OneJob, Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.messages.types import MessagesAnswer
from leadline.views.messages.view import messages_answer

router = guarded_router()


@router.get("/api/v1/messages", tags=["graph"], **answers(MessagesAnswer))
def messages(
    reader: Reading,
    job: OneJob,
    at: At = "",
    window: Annotated[str, Query(description="60s, 5m, 1h: windows so far back added up", max_length=100)] = "",
    cluster: Cluster = "",
) -> dict[str, Any]:
    """The messages of a job by communicator: its rings, and which edges its collectives waited for."""
    asked = reader.asked(at, cluster)
    with reader.turn():
        return messages_answer(reader.parts.store, reader.one_cluster(asked), job, window)
