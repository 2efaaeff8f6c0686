"""What is wrong with hosts at a time, and why: named causes of ongoing incidents, and metrics far outside.

A host is bad where a chosen cause of an open incident is the host or a part of it; watched where a metric of it (or of
the switch above) is far outside its past or its peers, or where the switch above is the cause. A job that suffers makes
none of its hosts bad: they are the victims.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from leadline.model.ids import EntityId, kind_of, parse_entity_id
from leadline.model.metric_words import is_state, metric_words
from leadline.model.tables.verdicts import ANOMALY
from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.fleet.hosts import FleetHosts
from leadline.views.incidents.incident import Cause, Incident
from leadline.views.incidents.view import Incidents
from leadline.views.rows import json_rows, rows_where

GOOD, WATCH, BAD, UNKNOWN, SUPPRESSED = "good", "watch", "bad", "unknown", "suppressed"
STATES = (GOOD, SUPPRESSED, UNKNOWN, WATCH, BAD)  # the worse the later; codes of the answer
SCORE_MIN = 8.0
"""A metric must be this far out (robust standard deviations) to colour a tile; anomalies are told from about 5, and a
fleet of 10,000 hosts always has some of those."""
SEEN_NS = 120 * S
"""An anomaly that no window told for so long is none any more."""
_METRICS = ("host", "gpu", "port", "nvlink", "xcvr", "swport")


@dataclass(frozen=True, slots=True)
class Reason:
    """Why a host is not good. `port`: the name of the NIC port that it is about, if it is one's."""

    host: int
    state: str
    text: str
    entity: str
    since_ns: int
    port: str = ""
    incident: str | None = None


def reasons(store: Store, asked: Asked, fleet: FleetHosts) -> list[Reason]:
    """All reasons at `asked.at_ns`, the worst of each host first. Errors: StoreError."""
    found = [*_of_causes(store, asked, fleet), *_of_anomalies(store, asked, fleet)]
    return sorted(found, key=lambda one: (one.host, -STATES.index(one.state), one.since_ns, one.entity))


def _of_causes(store: Store, asked: Asked, fleet: FleetHosts) -> Iterator[Reason]:
    for incident in Incidents(store, asked).between(with_losses=False):
        if incident.end_ns is not None and incident.end_ns <= asked.at_ns:
            continue
        for cause in incident.chosen:
            yield from _of_cause(incident, cause, fleet)


def _of_cause(incident: Incident, cause: Cause, fleet: FleetHosts) -> Iterator[Reason]:
    kind, name = parse_entity_id(cause.entity)
    state = SUPPRESSED if incident.suppressed else BAD
    does = "is dead until it is reset; it stopped" if incident.held else "slows"
    text = f"{cause.rule}: {cause.name or cause.entity} {does} {incident.job or incident.entity}"
    if kind == "switch":
        for host in sorted(set(fleet.below.get(name, ()))):
            yield Reason(host, min(state, WATCH, key=STATES.index), f"behind {name}: {cause.rule}", cause.entity,
                         cause.start_ns, "", incident.incident)  # fmt: skip
        return
    for host, port in _hosts_of(cause.entity, cause.host, fleet):
        yield Reason(host, state, text, cause.entity, cause.start_ns, port, incident.incident)


def _hosts_of(entity: str, host: str | None, fleet: FleetHosts) -> list[tuple[int, str]]:
    """Host and NIC port (empty: none) that an entity belongs to. A link between two hosts' ports would be both's."""
    kind, name = parse_entity_id(entity)
    ends = name.split("~") if kind == "link" else [name]
    if kind in ("port", "link", "swport", "xcvr"):
        above = _above(fleet)
        found = [above.get(end, end) for end in ends]
        known = [(fleet.index[end.partition("/")[0]], end) for end in found if end.partition("/")[0] in fleet.index]
        if known:
            return list(dict.fromkeys(known))
    at = fleet.index.get((host or entity).removeprefix("host:"))
    return [] if at is None else [(at, "")]


def _above(fleet: FleetHosts) -> dict[str, str]:
    """NIC port by the switch port that it hangs on."""
    pairs = zip(fleet.ports.swport_P.to_pylist(), fleet.ports.name_P.to_pylist(), strict=True)
    return {swport: port for swport, port in pairs if swport}


def _of_anomalies(store: Store, asked: Asked, fleet: FleetHosts) -> Iterator[Reason]:
    # Spans end after an hour, or when they are in again: whatever lasts was told within two.
    where = f"start_ns < {asked.at_ns} AND start_ns > {asked.at_ns - 7200 * S}"
    where += "".join(f" AND {each}" for each in asked.conditions())
    kinds = ", ".join(f"'{kind}'" for kind in _METRICS)
    sql = (
        "SELECT toString(told.entity) AS entity, toString(argMax(metric, score)) AS worst, max(score) AS far, "
        "min(start_ns) AS since_ns, argMax(toString(direction), score) AS way, argMax(seen, score) AS seen_value, "
        "argMax(expected, score) AS expected_value, argMax(toString(witness), score) AS beside "
        f"FROM ({rows_where(ANOMALY, where)}) AS told "
        f"WHERE score >= {SCORE_MIN} AND entity_kind IN ({kinds}) AND metric != 'up' "
        f"AND ifNull(end_ns, {1 << 62}) > {{at_ns:Int64}} AND seen_ns > {{at_ns:Int64}} - {SEEN_NS} GROUP BY entity"
    )
    rows = json_rows(store.query(sql, asked.parameters(sql)))
    held = _gpu_hosts(store, asked, [row["entity"] for row in rows])
    for row in rows:
        text = odd_words(row["worst"], row["way"], row["far"], row["seen_value"], row["expected_value"], row["beside"])
        for host, port in _hosts_of(row["entity"], held.get(row["entity"]), fleet):
            yield Reason(host, WATCH, text, row["entity"], row["since_ns"], port)


def odd_words(metric: str, way: str, far: float, seen: float | None, expected: float | None, witness: str) -> str:
    """What is far outside, in words; how far, only of what is a magnitude."""
    if way == "shape":
        return f"{metric}: an unusual pattern ({far:.0f} deviations)"
    words = metric_words(metric, seen, expected, witness)
    return words if is_state(metric) else f"{words} ({far:.0f} deviations)"


def _gpu_hosts(store: Store, asked: Asked, entities: list[str]) -> dict[str, str]:
    """Hosts of GPUs, whose ids do not say it."""
    gpus = [entity for entity in entities if kind_of(entity) in ("gpu", "nvlink")]
    if not gpus:
        return {}
    where = " AND ".join(["kind = 'in'", "startsWith(toString(parent), 'host:')", *asked.conditions()])
    sql = (
        "SELECT toString(child) AS gpu, argMin(toString(parent), (-from_ns, toString(parent))) AS host "
        f"FROM leadline.relation WHERE child IN {{gpus:Array(String)}} AND {where} GROUP BY gpu"
    )
    named = [f"gpu:{EntityId.of(entity).first}" for entity in gpus]
    rows = store.query(sql, {**asked.parameters(sql), "gpus": sorted(set(named))}).to_pylist()
    host_of = {row["gpu"]: row["host"] for row in rows}
    return {entity: host_of[gpu] for entity, gpu in zip(gpus, named, strict=True) if gpu in host_of}
