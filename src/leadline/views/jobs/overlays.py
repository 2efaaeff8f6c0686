"""`GET /api/v1/overlays`: what happened to a job and to what it stands on: marks for the time axis of plots.

    event ──> of its ranks, of its hosts and their parts, of switch ports that these are linked to ──┐
    step.checkpoint_ns ──> checkpoints                                                               ├──> at most 500
    incident ──> from the first lost second to its end                                               ┘

What happened to many at about the same time is one mark (`link-down`, 8 ranks), and what ends again is one with an end.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.ids import kind_of
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.training import STEP
from leadline.model.tables.verdicts import CAUSE, EVENT, INCIDENT
from leadline.model.units import S
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.title import title
from leadline.views.incidents.view import Incidents
from leadline.views.jobs.rows import JobRows
from leadline.views.rows import SCHEMA_VERSION, rows_where

MARKS_MAX = 500
EVENTS_MAX = 5000  # that are looked at, the most severe first
TOGETHER = 400  # of these parts of the span, in which the same is one mark
HOSTS_MAX = 10_000
SEVERITIES = ("fatal", "critical", "error", "warning", "info", "")  # the worst first; debug is left out
BEGINS = {"down": "up", "begin": "end", "start": "stop"}  # how kinds end of what lasts: link-down, link-up
_SAID = "('run-info', 'host-info', 'port-info', 'gpu-info', 'log')"  # what somebody is, or says: no mark in time


@dataclass(frozen=True, slots=True)
class Mark:
    """Something that happened; `end_ns`: until when, where it lasted. `count`: events that it stands for."""

    time_ns: int
    end_ns: int | None
    kind: str
    entity: str
    entities: int
    severity: str
    text: str
    count: int
    incident: str | None = None


def overlays_answer(rows: JobRows) -> dict[str, Any]:
    """What the end point says: marks in order of time; of too many the worst ones."""
    found = marks_of(rows)
    told = worst(found, MARKS_MAX)
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "overlays_total": len(found), "note": rows.note,
        "overlays": marks_json(told),
    }  # fmt: skip


def marks_of(rows: JobRows) -> list[Mark]:
    """All that happened to the job and to what it stands on: incidents, checkpoints, events."""
    checkpoints = _checkpoints(rows)
    within_ns = (rows.to_ns - rows.from_ns) // TOGETHER
    events = [
        mark
        for mark in joined(_events(rows, sorted(set(rows.places().values()) - {""})))
        if not _told_by(checkpoints, mark)
    ]
    return [*_incidents(rows), *checkpoints, *together(events, within_ns)]


def worst(marks: Iterable[Mark], most: int) -> list[Mark]:
    """So many marks in order of time: incidents first, then the most severe."""
    ordered = sorted(marks, key=lambda mark: (mark.incident is None, _severity(mark), -mark.count, mark.time_ns))
    return sorted(ordered[:most], key=lambda mark: (mark.time_ns, mark.kind, mark.entity))


def _severity(mark: Mark) -> int:
    return SEVERITIES.index(mark.severity) if mark.severity in SEVERITIES else len(SEVERITIES)


# --- events ---


def _events(rows: JobRows, hosts: Sequence[str]) -> list[Mark]:
    """Events of the job, its hosts and what these are linked to; each one a mark."""
    # A host may also run ranks of another job: their events are not this one's.
    about = (
        "(entity = {job_id:String} OR startsWith(toString(entity), {ranks:String}) "
        "OR (host IN {hosts:Array(String)} AND entity_kind NOT IN ('rank', 'job', 'comm', 'process')) "
        "OR entity IN {parts:Array(String)})"
    )
    where = " AND ".join([*rows.asked.conditions(), about, f"time_ns >= {rows.from_ns}", f"time_ns < {rows.to_ns}"])
    found = rows.query(
        events_sql(where), job_id=f"job:{rows.job}", ranks=f"rank:{rows.job}/", hosts=list(hosts),
        severities=list(SEVERITIES), parts=[*(f"host:{host}" for host in hosts), *_linked(rows, hosts)],
    )  # fmt: skip
    return event_marks(found)


def events_sql(where: str) -> str:
    """The most severe events under a condition, for `event_marks`; with the parameter `severities`."""
    return (
        "SELECT time_ns, toString(kind) AS what, toString(severity) AS grade, toString(entity) AS one, "
        f"ifNull(toString(code), '') AS number FROM leadline.{EVENT.name} "
        f"WHERE {where} AND kind NOT IN {_SAID} AND severity != 'debug' "
        f"ORDER BY indexOf({{severities:Array(String)}}, grade), time_ns LIMIT {EVENTS_MAX}"
    )


def event_marks(rows: Iterable[Mapping[str, Any]]) -> list[Mark]:
    """Events as marks, one each."""
    return [
        Mark(
            int(row["time_ns"]), None, row["what"], row["one"], 1, row["grade"],
            f"{row['what']} {row['number']}".strip(), 1,
        )
        for row in rows
    ]  # fmt: skip


def _linked(rows: JobRows, hosts: Sequence[str]) -> list[str]:
    """Switch ports that ports of these hosts are linked to."""
    where = " AND ".join([*rows.asked.conditions(), "kind = 'linked'", f"from_ns < {rows.to_ns}"])
    sql = (
        "SELECT DISTINCT toString(parent) AS there FROM "
        f"leadline.{RELATION.name} WHERE {where} AND startsWith(child, 'port:') "
        "AND substring(toString(child), 6, position(toString(child), '/') - 6) IN {hosts:Array(String)} "
        f"LIMIT {HOSTS_MAX}"
    )
    return sorted(row["there"] for row in rows.query(sql, hosts=list(hosts)))


def joined(marks: Iterable[Mark]) -> list[Mark]:
    """The same with what ends again as one mark: `link-down` with the next `link-up` of the same entity."""
    found: list[Mark] = []
    open_: dict[tuple[str, str, str], int] = {}  # what would end it: its place in `found`
    for mark in sorted(marks, key=lambda each: each.time_ns):
        stem, _, how = mark.kind.rpartition("-")
        begun = open_.pop((stem, how, mark.entity), None)
        if begun is not None:
            found[begun] = replace(found[begun], end_ns=mark.time_ns, count=found[begun].count + 1)
            continue
        if how in BEGINS:
            open_[stem, BEGINS[how], mark.entity] = len(found)
        found.append(mark)
    return found


def together(marks: Iterable[Mark], within_ns: int) -> list[Mark]:
    """The same with what happened to several ranks, or to one entity again, within so long, as one mark."""
    groups: dict[tuple[str, str, str], list[list[Mark]]] = {}
    for mark in sorted(marks, key=lambda each: each.time_ns):
        kind = kind_of(mark.entity)
        some = groups.setdefault((mark.text, mark.severity, kind if kind == "rank" else mark.entity), [])
        if some and mark.time_ns <= some[-1][0].time_ns + within_ns:
            some[-1].append(mark)
        else:
            some.append([mark])
    return [_one(each) for some in groups.values() for each in some]


def _one(marks: Sequence[Mark]) -> Mark:
    """Several marks as one. It has an end if all of them have."""
    first = marks[0]
    entities = len({mark.entity for mark in marks})
    ends = [mark.end_ns for mark in marks if mark.end_ns is not None]
    of = f"{entities} ranks" if entities > 1 else first.entity
    times = f", {len(marks)} times" if len(marks) > entities else ""
    text = f"{first.text}{f' of {of}' if of else ''}{times}"
    return replace(
        first, end_ns=max(ends) if len(ends) == len(marks) else None, entity=first.entity if entities == 1 else "",
        entities=entities, text=text, count=sum(mark.count for mark in marks),
    )  # fmt: skip


# --- checkpoints, incidents ---


def _checkpoints(rows: JobRows) -> list[Mark]:
    """Checkpoints that steps tell of: the slowest rank's."""
    found = rows.query(
        "SELECT step, max(end_ns) AS last_ns, max(checkpoint_ns) AS wrote_ns, count() AS n "
        f"FROM leadline.{STEP.name} WHERE {rows.mine('end_ns')} AND checkpoint_ns > 0 GROUP BY step "
        f"ORDER BY step LIMIT {MARKS_MAX} SETTINGS final = 0"
    )
    return [
        Mark(
            int(row["last_ns"]) - int(row["wrote_ns"]), int(row["last_ns"]), "checkpoint", f"job:{rows.job}", 1, "info",
            f"checkpoint in step {row['step']}", int(row["n"]),
        )
        for row in found
    ]  # fmt: skip


def _told_by(checkpoints: Iterable[Mark], mark: Mark) -> bool:
    """Whether an event is a checkpoint that steps tell of."""
    return mark.kind == "checkpoint" and any(
        one.time_ns - S <= mark.time_ns <= (one.end_ns or one.time_ns) + S for one in checkpoints
    )


def _incidents(rows: JobRows) -> Iterator[Mark]:
    """Incidents that the job suffered in the span, with their causes."""
    mine = "(job = {job:String} OR has(jobs, {job:String}))"
    where = f"tenant = {{owner:String}}{rows.in_cluster()} AND start_ns < {rows.to_ns}"
    # Which jobs suffer may change: of the rows that count it is asked, not of all.
    incidents = rows.query(f"SELECT * FROM ({rows_where(INCIDENT, where)}) WHERE {mine}")
    if not incidents:
        return
    causes = rows.query(
        rows_where(CAUSE, f"tenant = {{owner:String}}{rows.in_cluster()} AND incident IN {{incidents:Array(String)}}"),
        incidents=sorted({row["incident"] for row in incidents}),
    )
    for one in Incidents(rows.store, rows.asked).of_rows(incidents, causes):
        mark = incident_mark(one)
        if mark.end_ns is None or mark.end_ns > rows.from_ns:
            yield mark


def incident_mark(one: Incident) -> Mark:
    """An incident as a mark, under its title."""
    end_ns = one.end_ns if one.end_ns is not None or one.open else one.seen_ns
    severity = "info" if one.suppressed else "error" if one.known else "warning"
    return Mark(one.start_ns, end_ns, "incident", one.entity, 1, severity, title(one), 1, one.incident)


def marks_json(marks: Iterable[Mark]) -> list[dict[str, Any]]:
    """Marks as an answer tells them."""
    return [
        {
            "t_ns": mark.time_ns, "end_ns": mark.end_ns, "kind": mark.kind, "entity": mark.entity,
            "entities": mark.entities, "severity": mark.severity, "text": mark.text, "count": mark.count,
            "incident": mark.incident,
        }
        for mark in marks
    ]  # fmt: skip
