"""Symptoms, open and past, before they become incidents: `GET /api/v1/symptoms`. Read from the table `symptom`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from leadline.model.incidents import is_unwatched
from leadline.model.tables.verdicts import SYMPTOM
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, plain_job
from leadline.views.incidents.incident import OPEN, OVER
from leadline.views.incidents.view import incident_symptom
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

STALE, UNWATCHED = "stale", "unwatched"
STALE_NS = 200 * S
"""An open symptom that no window has told for so long (the slowest tell every minute) is stale: nobody knows."""
SYMPTOMS_MAX = 1000  # told in one answer; `symptoms_total` counts all of them


def symptoms_answer(store: Store, asked: Asked, from_ns: int | None = None, job: str = "") -> dict[str, Any]:
    """What `/api/v1/symptoms` says: open ones first, of these what lost most; then the newest."""
    sql = rows_where(SYMPTOM, " AND ".join(asked.conditions()))
    rows = json_rows(store.query(sql, asked.parameters(sql)))
    found = [
        _told(row, asked.at_ns)
        for row in rows
        if (asked.latest or row["start_ns"] < asked.at_ns)
        and (from_ns is None or row["end_ns"] is None or row["end_ns"] >= from_ns)
        and (not job or row["job"] == plain_job(job))
    ]
    found.sort(key=_urgency)
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "symptoms_total": len(found),
        "symptoms": found[:SYMPTOMS_MAX],
    }  # fmt: skip


def _told(row: Mapping[str, Any], at_ns: int) -> dict[str, Any]:
    state = STALE if row["seen_ns"] < at_ns - STALE_NS else OPEN
    if row["end_ns"] is not None:
        state = UNWATCHED if is_unwatched(row["end_ns"], row["seen_ns"]) else OVER
    own = {name: row[name] for name in ("tenant", "cluster", "job", "bound_ns", "reported_ns", "seen_ns")}
    return {**own, "state": state, **asdict(incident_symptom(row))}


def _urgency(one: Mapping[str, Any]) -> tuple[object, ...]:
    is_open = one["state"] == OPEN
    over_ns = 0 if is_open else -(one["end_ns"] or one["seen_ns"])
    return not is_open, over_ns, -one["lost_gpu_seconds"], one["entity"], one["symptom"], one["start_ns"], one["tenant"]
