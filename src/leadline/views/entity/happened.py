"""What happened to an entity: events of it and its parts, incidents that it caused or suffered, failures."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.ids import EntityId
from leadline.model.tables.accounts import FAILURE
from leadline.model.tables.verdicts import CAUSE, INCIDENT
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.view import Incidents
from leadline.views.jobs.overlays import (
    SEVERITIES,
    TOGETHER,
    Mark,
    event_marks,
    events_sql,
    incident_mark,
    joined,
    together,
    worst,
)
from leadline.views.rows import json_rows, rows_where

MARKS_MAX = 200
FAILURES_MAX = 50  # told, the newest


@dataclass(frozen=True, slots=True)
class About:
    """Which rows are about an entity: itself and its parts; of a host all that events name it for."""

    entities: frozenset[str]
    host: str  # name of the host whose parts count too; empty: none
    jobs: frozenset[str]

    def has(self, entity: str) -> bool:
        """Whether something of this id is it, a part of it, or a link with such an end."""
        one = EntityId.of(entity)
        ends = {f"{kind}:{end}" for end in one.ends for kind in ("port", "swport")}
        mine = bool(self.host) and (one.first == self.host and one.kind in ("host", "port", "process"))
        return entity in self.entities or bool(self.entities & ends) or mine or (bool(self.host) and any(
            end.partition("/")[0] == self.host for end in one.ends))  # fmt: skip


def moments(store: Store, asked: Asked, about: About, from_ns: int) -> tuple[list[Mark], int]:
    """What happened in [from_ns, asked.at_ns), in order of time; of too much the worst. And how much there is."""
    within_ns = max(1, (asked.at_ns - from_ns) // TOGETHER)
    events = together(joined(_events(store, asked, about, from_ns)), within_ns)
    found = [*_incidents(store, asked, about, from_ns), *events]
    return worst(found, MARKS_MAX), len(found)


def _events(store: Store, asked: Asked, about: About, from_ns: int) -> list[Mark]:
    mine = "(entity IN {entities:Array(String)}"
    # Events of ranks are those of their job, which may be on many hosts.
    mine += " OR (host = {host:String} AND entity_kind NOT IN ('rank', 'job', 'comm')))" if about.host else ")"
    sql = events_sql(" AND ".join([*asked.conditions(), mine, f"time_ns >= {from_ns}", f"time_ns < {asked.at_ns}"]))
    given: dict[str, object] = {"entities": sorted(about.entities), "severities": list(SEVERITIES)}
    given |= {"host": about.host} if about.host else {}
    return event_marks(json_rows(store.query(sql, {**asked.parameters(sql), **given})))


def _incidents(store: Store, asked: Asked, about: About, from_ns: int) -> list[Mark]:
    """Incidents of the span whose cause it is, or whose job it serves."""
    own = asked.conditions()
    where = " AND ".join([*own, f"start_ns < {asked.at_ns}"])
    lasting = f"(isNull(end_ns) AND state != 'over') OR ifNull(end_ns, seen_ns) > {from_ns}"
    sql = f"SELECT * FROM ({rows_where(INCIDENT, where)}) WHERE {lasting}"
    told = json_rows(store.query(sql, asked.parameters(sql)))
    if not told:
        return []
    sql = rows_where(CAUSE, " AND ".join([*own, "incident IN {incidents:Array(String)}"]))
    given = {**asked.parameters(sql), "incidents": sorted({row["incident"] for row in told})}
    found = Incidents(store, asked).of_rows(told, json_rows(store.query(sql, given)))
    return [_mark(one, about) for one in found if _caused(one, about) or _suffered(one, about)]


def _caused(one: Incident, about: About) -> bool:
    return any(about.has(cause.entity) for cause in one.chosen)


def _suffered(one: Incident, about: About) -> bool:
    return about.has(one.entity) or bool(about.jobs & {one.job or "", *one.jobs})


def _mark(one: Incident, about: About) -> Mark:
    """An incident as a mark; one that another thing caused is to be watched here, not bad."""
    mark = incident_mark(one)
    return mark if _caused(one, about) or mark.severity != "error" else replace(mark, severity="warning")


def failures(store: Store, asked: Asked, entities: Collection[str]) -> tuple[list[dict[str, Any]], int]:
    """Its failures and those of its parts until `asked.at_ns`, the newest first; and how many there are."""
    where = " AND ".join([*asked.conditions(), "entity IN {entities:Array(String)}", "start_ns < {at_ns:Int64}"])
    sql = (
        "SELECT toString(entity) AS entity, toString(kind) AS kind, toString(`class`) AS `class`, "
        "if(isNull(job), NULL, toString(job)) AS job, start_ns, if(end_ns > {at_ns:Int64}, NULL, end_ns) AS end_ns, "
        f"count() OVER () AS total FROM ({rows_where(FAILURE, where)}) ORDER BY start_ns DESC, entity, kind "
        f"LIMIT {FAILURES_MAX}"
    )
    rows: Sequence[dict[str, Any]] = json_rows(
        store.query(sql, {**asked.parameters(sql), "entities": sorted(entities)})
    )
    total = int(rows[0]["total"]) if rows else 0
    return [{name: value for name, value in row.items() if name != "total"} for row in rows], total
