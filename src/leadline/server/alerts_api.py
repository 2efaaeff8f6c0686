"""The API's part about alerts: `GET /api/v1/alerts`, how each receiver does."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from fastapi import FastAPI, Request

from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE, Principal
from leadline.server.health import Parts
from leadline.server.incidents_answers import AlertsAnswer
from leadline.server.rows_view import SCHEMA_VERSION


def mount_alerts(
    api: FastAPI, parts: Parts, who: Callable[[Request], Principal], problems: dict[int | str, Any]
) -> None:
    """Add the end point."""

    @api.get(
        "/api/v1/alerts",
        tags=["incidents"],
        response_model=None,
        responses={**problems, 200: {"model": AlertsAnswer}},
    )
    def alerts(request: Request) -> dict[str, Any]:
        """The receivers of alerts: what each took, what waits for it, its last error. For the role operator."""
        if not who(request).may(OPERATE):
            raise RefusedError("unauthorized", "receivers of alerts are for the role operator")
        states = parts.alerts.states() if parts.alerts else []
        return {"schema": SCHEMA_VERSION, "receivers": [asdict(each) for each in states]}
