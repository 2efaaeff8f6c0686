"""How the process does: `GET /health`, `/ready`, `/metrics`, and the first two by other names."""

from __future__ import annotations

import os

from fastapi import Request
from fastapi.responses import PlainTextResponse, Response
from prometheus_client.exposition import choose_encoder
from pydantic import BaseModel

from leadline.server.asking import PROBLEMS, Reading
from leadline.server.health import require_well
from leadline.server.metrics.collector import registry_for
from leadline.server.serving import serving_of
from leadline.server.tokens.rights import guarded_router

router = guarded_router()

# Names that other programs expect; OpenAPI has ours alone.
HEALTH_TOO = ("/healthz", "/livez", "/-/healthy")
READY_TOO = ("/readyz", "/-/ready")


class ReadyAnswer(BaseModel):
    """The server is ready; `pid` says which process answers.

    `compiling`: steps done and all steps, while scanners and analyses are compiled (once on each machine).
    """

    state: str = "ready"
    pid: int
    compiling: list[int] | None = None


@router.get("/health", tags=["process"])
async def health() -> dict[str, str]:
    """The process answers. It waits for nothing, so it answers while all threads are busy with queries.

    The same at `/healthz` and `/livez`, as Kubernetes names it, and at `/-/healthy`, as Prometheus does.
    """
    return {"state": "ok"}


@router.get("/ready", tags=["process"], responses=PROBLEMS)
def ready(request: Request) -> ReadyAnswer:
    """The store answers, telemetry is taken in and analysed; 503 if not.

    The same at `/readyz`, as Kubernetes names it, and at `/-/ready`, as Prometheus does.
    """
    parts = serving_of(request).parts
    parts.store.query("SELECT 1 AS one")
    require_well(parts)
    return ReadyAnswer(pid=os.getpid(), compiling=parts.kernels.progress if parts.kernels else None)


@router.get("/metrics", tags=["process"], response_class=PlainTextResponse, responses=PROBLEMS)
def metrics(request: Request, reader: Reading) -> Response:
    """Metrics as OpenMetrics or in the Prometheus text format: verdicts, senders, the process (docs/metrics.md).

    A tenant gets the metrics of its own verdicts; those of the process cover all tenants, so they are for operators.
    """
    encode, content_type = choose_encoder(request.headers.get("accept", ""))
    registry = registry_for(reader.serving.registry, reader.parts, reader.principal)
    return Response(encode(registry), headers={"content-type": content_type})


for _path in HEALTH_TOO:
    router.add_api_route(_path, health, include_in_schema=False)
for _path in READY_TOO:
    router.add_api_route(_path, ready, include_in_schema=False)
