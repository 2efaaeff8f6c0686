"""The bodies of questions to the API, bounded: what brings telemetry has its own limits (see `ingest.limits`)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

BODY_BYTES_MAX = 1 << 20  # a query of 100,000 characters is the largest thing anybody asks

Receive = Callable[[], Awaitable[dict[str, Any]]]
Send = Callable[[dict[str, Any]], Awaitable[None]]
App = Callable[[Any, Any, Any], Awaitable[None]]


class BoundedBodies:
    """An ASGI application whose requests have bodies of at most BODY_BYTES_MAX; others are answered 413."""

    def __init__(self, app: App, refused: Callable[[], None]) -> None:
        """`refused` is told of each."""
        self._app = app
        self._refused = refused

    async def __call__(self, scope: Mapping[str, Any], receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http" or scope["method"] in ("GET", "HEAD"):
            await self._app(scope, receive, send)
            return
        length = dict(scope["headers"]).get(b"content-length", b"")
        if length.isdigit() and int(length) > BODY_BYTES_MAX:
            await self._refuse(send)
            return
        pieces, size, more = [], 0, True
        while more:
            message = await receive()
            if message["type"] != "http.request":
                return  # it hung up: nobody waits for an answer
            pieces.append(message.get("body", b""))
            size += len(pieces[-1])
            more = message.get("more_body", False)
            if size > BODY_BYTES_MAX:
                await self._refuse(send)
                return
        whole: dict[str, Any] | None = {"type": "http.request", "body": b"".join(pieces), "more_body": False}

        async def once() -> dict[str, Any]:
            nonlocal whole
            message, whole = whole, None
            return message if message is not None else await receive()

        await self._app(scope, once, send)

    async def _refuse(self, send: Send) -> None:
        self._refused()
        text = f"the body of a question may have {BODY_BYTES_MAX} bytes; telemetry goes to /api/v1/rows and the like"
        body = json.dumps({"error": {"reason": "body_too_large", "message": text}}).encode() + b"\n"
        headers = [
            (b"content-type", b"application/json"),
            (b"content-length", b"%d" % len(body)),
            (b"connection", b"close"),
        ]
        await send({"type": "http.response.start", "status": 413, "headers": headers})
        await send({"type": "http.response.body", "body": body})
