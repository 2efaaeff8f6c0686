"""What was odd, entity by entity: `GET /api/v1/anomalies`. Concluded by the analysis `anomaly`; read from its table."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.model.incidents import is_unwatched
from leadline.model.tables.verdicts import ANOMALY
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.view import gpu_names
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

SPAN_NS = 15 * 60 * S  # looked at if no time is asked for
ENTITIES_MAX = 200  # the oddest; `entities_total` counts all
ROWS_MAX = 20_000
NOTHING = "nothing was outside its past or its peers in this span; does `anomaly` run (`leadline show analyses`)?"
_TEXTS = ("tenant", "entity", "entity_kind", "metric", "direction", "witness")
_NUMBERS = ("start_ns", "earliest_ns", "bound_ns", "score", "share", "expected", "seen", "reported_ns", "seen_ns")


def anomalies_answer(store: Store, asked: Asked, from_ns: int | None = None, entity: str = "") -> dict[str, Any]:
    """What `/api/v1/anomalies` says: what was out at some time in [from, at), by entity, the oddest first."""
    from_ns = asked.at_ns - SPAN_NS if from_ns is None else from_ns
    rows = _rows(store, asked, from_ns, entity)
    found = entities(rows[:ROWS_MAX])
    names = gpu_names(store, asked, (each["entity"] for each in found[:ENTITIES_MAX]))
    cut = f"only {ROWS_MAX} metrics were read, those that are furthest out" if len(rows) > ROWS_MAX else ""
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "entities_total": len(found),
        "entities": [{**each, "name": names.get(each["entity"], "")} for each in found[:ENTITIES_MAX]],
        "why": cut if rows else NOTHING,
    }  # fmt: skip


def entities(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rows by tenant and entity, the oddest first; of each its largest score, its begin, and whether it lasts."""
    by_entity: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows:
        by_entity.setdefault((row["tenant"], row["entity"]), []).append(row)
    found = [
        {
            "tenant": tenant, "entity": entity, "score": max(row["score"] for row in some),
            "start_ns": min(row["start_ns"] for row in some), "lasts": any(row["end_ns"] is None for row in some),
            "metrics": sorted(some, key=lambda row: (-row["score"], row["metric"], row["witness"], row["start_ns"])),
        }
        for (tenant, entity), some in by_entity.items()
    ]  # fmt: skip
    return sorted(found, key=lambda one: (-one["score"], one["entity"], one["tenant"]))


def _rows(store: Store, asked: Asked, from_ns: int, entity: str) -> list[dict[str, Any]]:
    """Those that are furthest out, one more than are told."""
    # All rows of a span, so that the newest is found among them; spans end after an hour, or when they are in again.
    where = f"start_ns < {asked.at_ns} AND start_ns > {from_ns - 7200 * S}"
    where += "".join(f" AND {each}" for each in asked.conditions())
    if entity:
        where += " AND entity = {entity:String}"
    columns = [*(f"toString({name}) AS {name}" for name in _TEXTS), *_NUMBERS]
    sql = (
        f"SELECT {', '.join(columns)}, if(isNull(label), NULL, toString(label)) AS label, "
        "if(end_ns > {at_ns:Int64}, NULL, end_ns) AS end_ns "
        f"FROM ({rows_where(ANOMALY, where)}) WHERE ifNull(end_ns, seen_ns) > {{from_ns:Int64}} "
        f"ORDER BY score DESC, entity, metric, witness, start_ns LIMIT {ROWS_MAX + 1}"
    )
    parameters = {**asked.parameters(sql), "from_ns": from_ns} | ({"entity": entity} if entity else {})
    return [_told(row) for row in json_rows(store.query(sql, parameters))]


def _told(row: dict[str, Any]) -> dict[str, Any]:
    """With whether its end was not seen."""
    return {**row, "unwatched": is_unwatched(row["end_ns"], row["seen_ns"])}
