"""Flows of a job's messages that collide with others on one of several equal-cost links, as `ecmp_group` says."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from leadline.model.tables.paths import ECMP_GROUP
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.rows import json_rows, rows_where

OTHERS_MAX = 8  # told of one flow; the analysis names as many of a link


def collisions(store: Store, asked: Asked, from_ns: int, flows: Iterable[str]) -> dict[str, dict[str, Any]]:
    """By flow (32 hex digits): the link that it collides on, with whom, whose these are.

    Inputs: `from_ns` to `asked.at_ns`, windows that overlap it count; of several links the one that carried most.
    """
    names = {f"flow:{flow}": flow for flow in flows}
    if not names:
        return {}
    where = " AND ".join([
        *asked.conditions(), f"end_ns > {from_ns}", f"end_ns - window_ns < {asked.at_ns}", "notEmpty(colliding)",
    ])  # fmt: skip
    sql = (
        "SELECT toString(busiest) AS link, arrayMap(each -> toString(each), colliding) AS flows, "
        f"arrayMap(each -> toString(each), jobs) AS jobs FROM ({rows_where(ECMP_GROUP, where)}) "
        "WHERE hasAny(flows, {names:Array(String)}) ORDER BY busiest_bytes DESC, end_ns DESC, link"
    )
    found: dict[str, dict[str, Any]] = {}
    for row in json_rows(store.query(sql, {**asked.parameters(sql), "names": sorted(names)})):
        for name in row["flows"]:
            if name in names:
                found.setdefault(names[name], _collision(row, name))
    return found


def _collision(row: Mapping[str, Any], name: str) -> dict[str, Any]:
    others = [each.removeprefix("flow:") for each in row["flows"] if each != name]
    return {
        "flow": name.removeprefix("flow:"), "link": row["link"], "flows": others[:OTHERS_MAX], "jobs": row["jobs"],
    }  # fmt: skip
