"""`GET /api/v1/telemetry`: senders and kinds of telemetry."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI, Request

from leadline.server.asking import At, Cluster, Ways
from leadline.views.sources import own_sources
from leadline.views.telemetry import TelemetryAnswer, telemetry_answer


def mount_telemetry(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    @api.get("/api/v1/telemetry", tags=["state"], **ways.answers(TelemetryAnswer))
    def telemetry(request: Request, at: At = "", cluster: Cluster = "") -> dict[str, Any]:
        """Every sender and every kind of telemetry: fresh since when, how much, what was refused and why, what would
        not be known without it; streams against their limit."""
        with ways.turn():
            parts, asked = ways.parts, ways.asked(request, at, cluster)
            senders = own_sources(parts.intake.sources.all(), asked.principal)
            return telemetry_answer(
                parts.store, asked, senders, parts.intake.config.series_max, recorded=parts.replay is not None
            )
