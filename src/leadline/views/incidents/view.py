"""Incidents with their causes: symptoms, cause, how it is known, what else was considered, what to do.

Everything was concluded by the analyses `stalls`, `slowdowns`, `burning` (table `symptom`) and `cause` (`incident`,
`cause`); here the rows that count are put together. The same rows make the same incidents, whether they come from a
store (`Incidents`) or from a bundle that was judged offline (`incidents_of`).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from leadline.model.ids import EntityId, kind_of
from leadline.model.incidents import UNWATCHED_NS, Verdict, is_unwatched, repeated
from leadline.model.metric_words import codes_of, metric_name
from leadline.model.tables.fabric import RELATION
from leadline.model.tables.metrics import SERIES
from leadline.model.tables.verdicts import ANOMALY, CAUSE, INCIDENT, SYMPTOM
from leadline.store import Store
from leadline.views.asked import Asked, plain_job
from leadline.views.incidents.actions import incident_json
from leadline.views.incidents.incident import (
    AFTER,
    BEFORE,
    OPEN,
    ORDER_UNKNOWN,
    OVER,
    TOGETHER,
    Cause,
    Evidence,
    Incident,
    IncidentSymptom,
)
from leadline.views.jobs.lives import lives_of
from leadline.views.lost import Key as LossKey
from leadline.views.lost import Loss, losses_of
from leadline.views.rows import SCHEMA_VERSION, json_rows, rows_where

STATES = (OPEN, OVER)
INCIDENTS_MAX = 1000  # told in one answer; `incidents_total` counts all of them
Rows = Iterable[Mapping[str, Any]]
GPUS_NAMED = 1000  # at most: more than any list shows, and each is a parameter of two queries
GPU_LABEL = "gpu"  # of a series of dcgm-exporter: the number that nvidia-smi calls it by
_NUMBER = re.compile(r"\d{1,4}")


# --- from rows ----------------------------------------------------------------------------------------------------


def incidents_of(
    incidents: Rows,
    causes: Rows,
    symptoms: Rows,
    hosts: Mapping[str, str] | None = None,
    indices: Mapping[str, str] | None = None,
) -> list[Incident]:
    """Incidents from the rows that count of the three tables: open ones first, of these what lost most.

    `hosts`: the host of an entity (`gpu:GPU-5c1e`: `host:h3`), where its id does not say so. `indices`: the number that
    a GPU has on its host (`gpu:GPU-5c1e`: `4`), where it is told.
    """
    causes_of: dict[tuple[str, str, str], list[Mapping[str, Any]]] = {}
    for row in causes:
        causes_of.setdefault(_key(row), []).append(row)
    symptom_of = {_symptom_key(row, row): row for row in symptoms}
    where = Where(hosts or {}, indices or {})
    found = [_incident(row, causes_of.get(_key(row), []), symptom_of, where) for row in incidents]
    return sorted(found, key=_urgency)


def _urgency(one: Incident) -> tuple[object, ...]:
    """Open before over; open ones by what they lost, others by when they ended, the newest first."""
    over_ns = 0 if one.open else -(one.end_ns or one.seen_ns)
    return not one.open, over_ns, -one.lost_gpu_seconds, -one.start_ns, one.incident, one.tenant


def _key(row: Mapping[str, Any]) -> tuple[str, str, str]:
    return row["tenant"], row["cluster"], row["incident"]


def _symptom_key(row: Mapping[str, Any], of: Mapping[str, Any]) -> tuple[object, ...]:
    return row["tenant"], row["cluster"], of.get("entity"), of.get("symptom"), of.get("start_ns")


def _incident(
    row: Mapping[str, Any],
    causes: Sequence[Mapping[str, Any]],
    symptom_of: Mapping[tuple[object, ...], Mapping[str, Any]],
    where: Where,
) -> Incident:
    start = row["start_ns"], row["bound_ns"]
    told = [each for each in _list(row["symptoms"]) if isinstance(each, Mapping)]
    return Incident(
        **{name: row[name] for name in _PLAIN},
        jobs=tuple(row["jobs"] or ()),
        symptoms=tuple(_symptom(each, symptom_of.get(_symptom_key(row, each)), start, where) for each in told),
        causes=_by_name([_cause(each, start, where) for each in _of_newest(row, causes)]),
    )


_PLAIN = (
    "tenant", "cluster", "incident", "entity", "job", "symptom", "start_ns", "end_ns", "bound_ns", "reported_ns",
    "seen_ns", "state", "verdict", "missing", "lost_gpu_seconds", "suppressed",
)  # fmt: skip


def _of_newest(incident: Mapping[str, Any], causes: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """The causes that the newest window named, by position: places that only an earlier one had are gone.

    An incident that is unknown now has none of those that were named before.
    """
    newest_ns = max((row["seen_ns"] for row in causes), default=0)
    if incident["verdict"] == Verdict.UNKNOWN:
        newest_ns = incident["seen_ns"] - UNWATCHED_NS * is_unwatched(incident["end_ns"], incident["seen_ns"])
    return sorted((row for row in causes if row["seen_ns"] == newest_ns), key=lambda row: row["position"])


@dataclass(frozen=True, slots=True)
class Where:
    """Where parts are: hosts of entities, and numbers of GPUs on their host."""

    hosts: Mapping[str, str]
    indices: Mapping[str, str]

    def name(self, entity: str) -> str:
        """What people call a GPU: `h5 GPU 4`; empty where nobody tells its number, and of all else."""
        host, number = self.hosts.get(entity, "").removeprefix("host:"), self.indices.get(entity, "")
        return f"{host} GPU {number}" if host and number else ""


def _cause(row: Mapping[str, Any], start: tuple[int, int | None], where: Where) -> Cause:
    found = Cause(
        position=row["position"], entity=row["entity"], host=host_of(row["entity"], where.hosts), rule=row["rule"],
        chosen=bool(row["chosen"]), layer=row["layer"], fault_class=row["class"], probability=row["probability"],
        start_ns=row["start_ns"], reported_ns=row.get("reported_ns"), score=_object(row["score"]),
        evidence=_evidence(row["evidence"], start, where), action=row["action"], action_cost=row["action_cost"],
        saves=row["saves"], waiting_cost=row["waiting_cost"], text=row["text"], name=where.name(row["entity"]),
    )  # fmt: skip
    if not found.name or not found.host:
        return found
    plain = f"{found.entity} on {found.host.removeprefix('host:')}"
    return replace(found, text=found.text.replace(plain, found.called))


def _by_name(causes: Sequence[Cause]) -> tuple[Cause, ...]:
    """Causes whose texts call each other's components as people do."""
    names = {each.entity: each.name for each in causes if each.name}
    found = []
    for each in causes:
        text = each.text
        for entity, name in names.items():
            text = text.replace(entity, name)
        found.append(replace(each, text=text))
    return tuple(found)


def _symptom(
    told: Mapping[str, Any], row: Mapping[str, Any] | None, start: tuple[int, int | None], where: Where
) -> IncidentSymptom:
    more: Mapping[str, Any] = row or {}
    return IncidentSymptom(
        entity=str(told.get("entity", "")), symptom=str(told.get("symptom", "")), start_ns=told.get("start_ns"),
        end_ns=more.get("end_ns") if row else _whole(told.get("end_ns")),
        lost_gpu_seconds=float(told.get("lost_gpu_seconds") or 0.0),
        lost_share=more.get("lost_share"), missing=more.get("missing"),
        blamed=tuple(each for each in _list(more.get("blamed")) if isinstance(each, Mapping)),
        evidence=_evidence(more.get("evidence"), start, where),
    )  # fmt: skip


def incident_symptom(row: Mapping[str, Any]) -> IncidentSymptom:
    """A symptom from its own row."""
    return _symptom(row, row, (row["start_ns"], row["bound_ns"]), Where({}, {}))


def _evidence(text: str | None, start: tuple[int, int | None], where: Where) -> tuple[Evidence, ...]:
    """Rows of evidence, in their order; each held against the first lost second.

    Without those that say what an earlier one said of the same entity and moment: an event and its failure.
    """
    found: list[Evidence] = []
    for piece in (_piece(each, *start) for each in _list(text)):
        alike = (each for each in found if (each.entity, each.time_ns) == (piece.entity, piece.time_ns))
        if not any(piece.text in each.text for each in alike):
            metric = piece.what if piece.table == ANOMALY.name else ""
            found.append(
                replace(piece, name=where.name(piece.entity), label=metric_name(metric), codes=codes_of(metric))
            )
    return tuple(found)


def _piece(each: Any, start_ns: int, start_bound_ns: int | None) -> Evidence:
    if not isinstance(each, Mapping):  # a sentence alone
        return Evidence("", "", "", None, None, str(each), None, ORDER_UNKNOWN)
    time_ns, bound_ns = _whole(each.get("time_ns")), _whole(each.get("bound_ns"))
    after_ns = None if time_ns is None else time_ns - start_ns
    times = max(1, _whole(each.get("times")) or 1)
    return Evidence(
        str(each.get("table") or ""), str(each.get("entity") or ""), str(each.get("what") or ""), time_ns, bound_ns,
        repeated(str(each.get("text") or ""), times, time_ns, _whole(each.get("last_ns"))),
        None if after_ns is None else after_ns / 1e9, order_of(after_ns, bound_ns, start_bound_ns),
        str(each.get("code") or ""), times,
    )  # fmt: skip


def _about(cause: Mapping[str, Any]) -> list[str]:
    """The entities that the evidence of a cause is of."""
    pieces = (each for each in _list(cause["evidence"]) if isinstance(each, Mapping))
    return [str(each["entity"]) for each in pieces if each.get("entity")]


def order_of(after_ns: int | None, bound_ns: int | None, start_bound_ns: int | None) -> str:
    """Whether something was before, after or together with the first lost second, by the bounds of both clocks."""
    if after_ns is None or bound_ns is None or start_bound_ns is None:
        return ORDER_UNKNOWN
    if abs(after_ns) <= bound_ns + start_bound_ns:
        return TOGETHER
    return BEFORE if after_ns < 0 else AFTER


def host_of(entity: str, hosts: Mapping[str, str]) -> str | None:
    """The host of a component: by its id where that names one, else by `hosts`; None where neither says so."""
    kind, name = EntityId.of(entity)
    if kind == "host":
        return entity
    if kind == "port" and "/" in name:
        return f"host:{name.partition('/')[0]}"
    return next((hosts[each] for each in looked_up(entity) if each in hosts), None)


def looked_up(entity: str) -> list[str]:
    """What to look for in the relations to find the host of an entity: itself; of a link the NIC ports at its ends."""
    if kind_of(entity) != "link":
        return [entity]
    return [f"port:{end}" for end in EntityId.of(entity).ends]


def _whole(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _list(text: Any) -> list[Any]:
    """A JSON list that stands in a column; nothing where it is none (rows may come from an import)."""
    found = _json(text)
    return found if isinstance(found, list) else []


def _object(text: Any) -> dict[str, Any]:
    found = _json(text)
    return found if isinstance(found, dict) else {}


def _json(text: Any) -> Any:
    try:
        return json.loads(text) if text else None
    except (TypeError, ValueError):
        return None


# --- from a store -------------------------------------------------------------------------------------------------


def with_losses(found: Iterable[Incident], losses: Mapping[LossKey, Loss]) -> list[Incident]:
    """Incidents with what they lost by the ledger; what urges most first."""
    counted = [one.with_loss(losses.get((one.tenant, one.cluster, one.incident))) for one in found]
    return sorted(counted, key=_urgency)


class Incidents:
    """The incidents of a store that somebody may see."""

    def __init__(self, store: Store, asked: Asked) -> None:
        self._store, self._asked = store, asked

    def between(
        self, from_ns: int | None = None, job: str = "", state: str = "", *, with_losses: bool = True
    ) -> list[Incident]:
        """Those with symptoms from `from_ns` to `asked.at_ns` that were reported by then; the most urgent first.

        Of the present (`asked.latest`) also those that were told later: a replay judges the windows after its end.
        """
        to_ns = self._asked.at_ns
        found = [
            one
            for one in self._all()
            if (self._asked.latest or (one.start_ns < to_ns and one.reported_ns <= to_ns))
            and (from_ns is None or one.open or (one.end_ns or one.seen_ns) >= from_ns)
            and (not job or one.concerns(plain_job(job)))
            and (not state or one.state == state)
        ]
        return self._with_losses(found) if with_losses else found

    def named(self, incident: str) -> list[Incident]:
        """The one with this id: one for each tenant that it affects, what lost most first; empty if there is none."""
        found = self._with_losses(self._all(incident))
        jobs = {job for one in found for job in one.jobs}
        if not jobs:
            return found
        since_ns = min(one.start_ns for one in found)
        lives = lives_of(self._store, replace(self._asked, at_ns=max(self._asked.at_ns, since_ns)), since_ns, jobs)
        ended = {job: life.ended_ns for (_, _, job), life in lives.items()}
        return [one.with_job_ends(ended) for one in found]

    def of_rows(self, incidents: Rows, causes: Rows, *, with_losses: bool = True) -> list[Incident]:
        """Incidents of rows that were read already, with what they lost and where their causes are."""
        causes = list(causes)
        found = incidents_of(incidents, causes, [], *self._where(causes))
        return self._with_losses(found) if with_losses else found

    def _where(self, causes: Iterable[Mapping[str, Any]]) -> tuple[dict[str, str], dict[str, str]]:
        """Hosts, and numbers on them, of the components that causes and their evidence name."""
        named = {part for row in causes for part in (row["entity"], *_about(row))}
        return self.hosts(named), self.indices(named)

    def _with_losses(self, found: Sequence[Incident]) -> list[Incident]:
        """The same with what the ledger says that they lost."""
        return with_losses(found, losses_of(self._store, self._asked).whole) if found else []

    def _all(self, incident: str = "") -> list[Incident]:
        where = [*self._asked.conditions(), *(["incident = {incident:String}"] if incident else [])]
        told = self._rows(rows_where(INCIDENT, " AND ".join(where)), incident)
        if not told:
            return []
        causes = self._rows(rows_where(CAUSE, " AND ".join(where)), incident)
        symptoms = self._rows(rows_where(SYMPTOM, " AND ".join(self._asked.conditions())), "")
        return incidents_of(told, causes, symptoms, *self._where(causes))

    def _rows(self, sql: str, incident: str) -> list[dict[str, Any]]:
        given = {"incident": incident} if incident else {}
        return json_rows(self._store.query(sql, {**self._asked.parameters(sql), **given}))

    def hosts(self, entities: Iterable[str]) -> dict[str, str]:
        """The host that each of these was on last, of ranks, GPUs and processes, as far as it is told."""
        wanted = sorted({part for each in entities if host_of(each, {}) is None for part in looked_up(each)})
        if not wanted:
            return {}
        where = " AND ".join([*self._asked.conditions(), "from_ns <= {at_ns:Int64}"])
        sql = (
            "SELECT toString(child) AS part, toString(argMax(parent, from_ns)) AS host "
            f"FROM leadline.{RELATION.name} WHERE child IN {{entities:Array(String)}} AND startsWith(parent, 'host:') "
            f"AND {where} GROUP BY part"
        )
        rows = json_rows(self._store.query(sql, {**self._asked.parameters(sql), "entities": wanted}))
        return {row["part"]: row["host"] for row in rows}

    def indices(self, entities: Iterable[str]) -> dict[str, str]:
        """The number on its host of each of these that is a GPU, as its exporter labels it (DCGM: `gpu`)."""
        wanted = sorted(each for each in entities if kind_of(each) == "gpu")
        if not wanted:
            return {}
        where = " AND ".join([*self._asked.conditions(), f"labels['{GPU_LABEL}'] != ''"])
        sql = (
            f"SELECT toString(entity) AS part, toString(argMax(labels['{GPU_LABEL}'], last_ns)) AS number "
            f"FROM leadline.{SERIES.name} WHERE entity IN {{entities:Array(String)}} AND {where} GROUP BY part"
        )
        rows = json_rows(self._store.query(sql, {**self._asked.parameters(sql), "entities": wanted}))
        return {row["part"]: row["number"] for row in rows if _NUMBER.fullmatch(row["number"])}


def gpu_names(store: Store, asked: Asked, entities: Iterable[str]) -> dict[str, str]:
    """What people call those of these that are GPUs (`h5 GPU 4`), as far as it is told; of the first of very many."""
    gpus = list(dict.fromkeys(each for each in entities if kind_of(each) == "gpu"))[:GPUS_NAMED]
    if not gpus:
        return {}
    found = Incidents(store, asked)
    where = Where(found.hosts(gpus), found.indices(gpus))
    return {each: name for each in gpus if (name := where.name(each))}


def incidents_answer(
    store: Store, asked: Asked, from_ns: int | None = None, job: str = "", state: str = ""
) -> dict[str, Any]:
    """What `/api/v1/incidents` says: open ones first, of these what lost most; then the newest."""
    found = Incidents(store, asked).between(from_ns, job, state)
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "incidents_total": len(found),
        "incidents": [incident_json(one) for one in found[:INCIDENTS_MAX]],
    }  # fmt: skip
