"""Incidents of `incident_rows` as the views make them, without a store."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from tests.unit.views.incidents.incident_rows import FLAP, ROWS, newest

from leadline.alerts.notice import Notice, notice
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import incidents_of

URL = "http://127.0.0.1:8440"


def one(name: str = FLAP, **more: Any) -> Incident:
    """The incident of that name, changed as told."""
    found = incidents_of(newest("incident"), ROWS["cause"], ROWS["symptom"], {"gpu:GPU-6": "host:h6"})
    return replace(next(each for each in found if each.incident == name), **more)


def told(name: str = FLAP, **more: Any) -> Notice:
    """What is to be told of it."""
    return notice(one(name, **more), URL)
