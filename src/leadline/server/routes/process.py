"""How the process does: `GET /health`, `/ready`, `/metrics`."""

from __future__ import annotations

import os

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel

from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE
from leadline.server.asking import PROBLEMS, Reading
from leadline.server.health import require_well
from leadline.server.serving import serving_of
from leadline.server.tokens.rights import guarded_router

router = guarded_router()


class ReadyAnswer(BaseModel):
    """The server is ready; `pid` says which process answers.

    `compiling`: steps done and all steps, while scanners and analyses are compiled (once on each machine).
    """

    state: str = "ready"
    pid: int
    compiling: tuple[int, int] | None = None


@router.get("/health", tags=["process"])
async def health() -> dict[str, str]:
    """The process answers. Waits for nobody, so it answers when all threads are busy with queries."""
    return {"state": "ok"}


@router.get("/ready", tags=["process"], responses=PROBLEMS)
def ready(request: Request) -> ReadyAnswer:
    """The store answers, telemetry is taken, and what was taken is judged."""
    parts = serving_of(request).parts
    parts.store.query("SELECT 1 AS one")
    require_well(parts)
    return ReadyAnswer(pid=os.getpid(), compiling=parts.kernels.progress if parts.kernels else None)


@router.get("/metrics", tags=["process"], response_class=PlainTextResponse, responses=PROBLEMS)
def metrics(request: Request, reader: Reading) -> Response:
    """Leadline's own metrics, as OpenMetrics or the Prometheus text format. For the role operator."""
    if not reader.principal.may(OPERATE):
        raise RefusedError("unauthorized", "what this process counts is of all tenants: for the role operator")
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    return Response(encode(reader.serving.registry), headers={"content-type": content_type})
