"""The API's part about alerts: `GET /api/v1/alerts`, how each receiver does."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request
from pydantic import BaseModel, Field

from leadline.alerts.delivery import ReceiverState
from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE
from leadline.server.asking import Ways
from leadline.views.rows import SCHEMA_VERSION


class AlertsAnswer(BaseModel):
    """The receivers of alerts."""

    schema_version: int = Field(alias="schema")
    receivers: list[ReceiverState]


def mount_alerts(api: FastAPI, ways: Ways) -> None:
    """Add the end point."""

    @api.get("/api/v1/alerts", tags=["incidents"], **ways.answers(AlertsAnswer))
    def alerts(request: Request) -> dict[str, Any]:
        """The receivers of alerts: what each took, what waits for it, its last error. For the role operator."""
        if not ways.who(request).may(OPERATE):
            raise RefusedError("unauthorized", "receivers of alerts are for the role operator")
        states = ways.parts.alerts.states() if ways.parts.alerts else []
        return {"schema": SCHEMA_VERSION, "receivers": [asdict(each) for each in states]}
