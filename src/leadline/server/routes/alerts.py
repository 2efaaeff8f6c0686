"""The API's part about alerts: `GET /api/v1/alerts`, how each receiver does."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

from pydantic import BaseModel, Field

from leadline.alerts.delivery import ReceiverState
from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE
from leadline.server.asking import Reading, answers
from leadline.server.tokens.rights import guarded_router
from leadline.views.rows import SCHEMA_VERSION


class AlertsAnswer(BaseModel):
    """The receivers of alerts."""

    schema_version: int = Field(alias="schema")
    receivers: list[ReceiverState]


router = guarded_router()


@router.get("/api/v1/alerts", tags=["incidents"], **answers(AlertsAnswer))
def alerts(reader: Reading) -> dict[str, Any]:
    """The receivers of alerts: what each took, what waits for it, its last error. For the role operator."""
    if not reader.principal.may(OPERATE):
        raise RefusedError("unauthorized", "receivers of alerts are for the role operator")
    states = reader.parts.alerts.states() if reader.parts.alerts else []
    return {"schema": SCHEMA_VERSION, "receivers": [asdict(each) for each in states]}
