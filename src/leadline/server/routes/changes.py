"""`GET /api/v1/changes`: a stream of events that say which tables got rows."""

from __future__ import annotations

from collections.abc import AsyncIterator

from fastapi import Request
from fastapi.responses import StreamingResponse

from leadline.model.errors import LeadlineError
from leadline.server.asking import PROBLEMS, Reading, reader_of
from leadline.server.tokens.rights import guarded_router

router = guarded_router()


@router.get(
    "/api/v1/changes",
    tags=["state"],
    response_class=StreamingResponse,
    responses={**PROBLEMS, 200: {"content": {"text/event-stream": {"schema": {"type": "string"}}}}},
)
async def follow(request: Request, reader: Reading) -> StreamingResponse:
    """Server-sent events: the time, and a version for each table that got rows. They carry no data."""
    stream = reader.serving.changes.events(reader.principal)
    first = await anext(stream)  # so that a refusal is an answer, not a stream that breaks

    async def all_of_it() -> AsyncIterator[str]:
        yield first
        async for each in stream:
            try:
                await reader_of(request)
            except LeadlineError:  # a token ends while its page is open: the page asks again, and learns why
                return
            yield each

    return StreamingResponse(
        all_of_it(),
        media_type="text/event-stream",
        headers={"cache-control": "no-store", "x-accel-buffering": "no"},
    )
