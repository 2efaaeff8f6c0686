"""What every HTTP request passes first: its time is taken, and HEAD is answered as GET without a body."""

from __future__ import annotations

from typing import Any

from leadline.server.metrics.http import App, HttpTimes

API = "/api/"  # what is asked there costs a query, and some of it is a stream without end: 405, as told in OpenAPI


def front(app: App, times: HttpTimes) -> App:
    """An ASGI application behind both. The body of an answer to HEAD is left out by uvicorn."""
    timed = times.around(app)

    async def answer(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and scope["method"] == "HEAD" and not scope["path"].startswith(API):
            scope = {**scope, "method": "GET"}
        await timed(scope, receive, send)

    return answer
