"""What the server knows of itself: `GET /api/v1/doctor`, `/api/v1/senders`, `/api/v1/config`."""

from __future__ import annotations

import time
from typing import Any

from leadline.model.errors import RefusedError
from leadline.model.principal import OPERATE
from leadline.server.asking import PROBLEMS, Reading, answers
from leadline.server.health import doctor
from leadline.server.health_answers import DoctorAnswer, SendersAnswer
from leadline.server.tokens.rights import guarded_router
from leadline.views.rows import SCHEMA_VERSION
from leadline.views.senders import as_json, senders_of

router = guarded_router()


@router.get("/api/v1/doctor", tags=["state"], **answers(DoctorAnswer))
def diagnosis(reader: Reading) -> dict[str, Any]:
    """What is connected, how fresh, what is refused and why; to a tenant of its own senders."""
    return doctor(reader.parts, time.time_ns(), reader.principal)


@router.get("/api/v1/senders", tags=["state"], **answers(SendersAnswer))
def senders(reader: Reading) -> dict[str, Any]:
    """How far the data of each sender has come, by its own word; its jobs are analysed as far as that. To a tenant of
    its own."""
    parts = reader.parts
    found = senders_of(parts.runner if parts.replay is None else None, reader.principal)
    return {"schema": SCHEMA_VERSION, "senders": [as_json(each) for each in found]}


@router.get("/api/v1/config", tags=["state"], responses=PROBLEMS)
def settings(reader: Reading) -> dict[str, Any]:
    """Effective settings with their origins; secrets are not shown."""
    if not reader.principal.may(OPERATE):
        raise RefusedError("unauthorized", "settings are for the role operator")
    return {"schema": SCHEMA_VERSION, "settings": reader.serving.config_view()}
