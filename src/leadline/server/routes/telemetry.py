"""`GET /api/v1/telemetry`: senders and kinds of telemetry."""

from __future__ import annotations

from typing import Any

from leadline.server.asking import At, Cluster, Reading, answers
from leadline.server.health import ended_senders
from leadline.server.tokens.rights import guarded_router
from leadline.views.sources import own_sources
from leadline.views.telemetry import TelemetryAnswer, telemetry_answer

router = guarded_router()


@router.get("/api/v1/telemetry", tags=["state"], **answers(TelemetryAnswer))
def telemetry(reader: Reading, at: At = "", cluster: Cluster = "") -> dict[str, Any]:
    """Every sender and every kind of telemetry: fresh since when, how much, what was refused and why, what would
    not be known without it; streams against their limit."""
    with reader.turn():
        parts, asked = reader.parts, reader.asked(at, cluster)
        senders = own_sources(parts.intake.sources.all(), asked.principal)
        return telemetry_answer(
            parts.store, asked, senders, parts.intake.config.series_max, recorded=parts.replay is not None,
            ended_ns=ended_senders(parts, asked.principal),
        )  # fmt: skip
