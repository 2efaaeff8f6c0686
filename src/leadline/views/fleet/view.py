"""`GET /api/v1/fleet`: every host with its place, state and measures, by columns, so that 100,000 GPUs are one answer.

    relation, series ──> places ──┬─> measures (counters of the span) ──┐
                                  └─> reasons (causes, anomalies) ──────┴─> FleetAnswer

Numbers are told to four figures; what is not known is null.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, Field

from leadline.model.units import S
from leadline.store import Store
from leadline.views.asked import Asked, only_cluster
from leadline.views.fleet.hosts import FleetHosts, fleet_hosts, hosts_at_address
from leadline.views.fleet.measures import IN, OUT, Floats, Measures, measures
from leadline.views.fleet.states import BAD, GOOD, STATES, UNKNOWN, Reason, reasons
from leadline.views.rows import SCHEMA_VERSION

SPAN_NS = 60 * S
"""Measured if no time is asked for: the last minute."""
PACKED_BYTES = 4096  # an answer of this size is compressed: 100,000 GPUs are 1 MB, and 40 kB packed
EMPTY = "no data from any host yet"


class FleetTag(BaseModel):
    """What a site says of its hosts (rack, pod, ...), and `ecmp`: hosts that hang on the same choosing switches."""

    name: str
    values: list[str]
    of: list[int] = Field(description="of each host which value; -1: no data")


class FleetJob(BaseModel):
    """A job that had ranks on these hosts in the span; `running`: at its end."""

    job: str
    tenant: str
    hosts: int
    ranks: int
    running: bool


class FleetWays(BaseModel):
    """One measure of each host, inbound and outbound; null: not known."""

    inbound: list[float | None]
    outbound: list[float | None]


class FleetReason(BaseModel):
    """Why a host is not good; `port` is the NIC port it is about, `incident` the incident whose cause it is."""

    host: int
    state: str
    text: str
    entity: str
    since_ns: int
    port: str
    incident: str | None


class FleetPort(BaseModel):
    """A NIC port that is not healthy: the one at `place` of its host's."""

    host: int
    name: str
    place: int
    state: str
    text: str


class FleetNics(BaseModel):
    """NIC ports: all, those with a carrier and without a reason, those without data."""

    total: int
    healthy: int
    unknown: int


class FleetAnswer(BaseModel):
    """Hosts by columns: lists are as long as `hosts`, and `state` names a place in `states`."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    from_ns: int
    to_ns: int
    cluster: str
    hosts: list[str]
    gpus: list[int]
    states: list[str]
    state: list[int]
    jobs: list[FleetJob]
    jobs_of: list[list[int]]
    tags: list[FleetTag]
    loss: FleetWays
    errors: FleetWays
    load: FleetWays
    delay_ns: FleetWays
    bytes_per_s: FleetWays
    nics_total: list[int]
    nics_healthy: list[int]
    nics_unknown: list[int] = Field(description="without carrier data: neither healthy nor unhealthy")
    reasons: list[FleetReason]
    ports: list[FleetPort]
    nics: FleetNics
    at_address: list[int] | None = Field(description="hosts with the address that was asked for")
    why: str = Field(description="why there is nothing, or not all of it; empty: nothing is missing")


def fleet_answer(store: Store, asked: Asked, from_ns: int, address: str = "") -> dict[str, Any]:
    """What `/api/v1/fleet` says of the span from `from_ns` to `asked.at_ns`; a `FleetAnswer` as plain values.

    Errors: UsageError where there are several clusters; StoreError.
    """
    asked = replace(asked, cluster=asked.cluster or only_cluster(store, asked.principal))
    found = fleet_hosts(store, asked, from_ns)
    measured = measures(store, asked, found, from_ns)
    told = reasons(store, asked, found) if found.hosts else []
    port_states = _port_states(found, measured, told)
    healthy_P = np.array([state == GOOD for state, _ in port_states], bool)
    unknown_P = np.array([state == UNKNOWN for state, _ in port_states], bool)
    count = len(found.hosts)
    host_P = found.ports.host_P
    return {
        "schema": SCHEMA_VERSION, "from_ns": from_ns, "to_ns": asked.at_ns, "cluster": asked.cluster,
        "hosts": found.hosts, "gpus": found.gpus_H.tolist(), "states": list(STATES),
        "state": _states(count, told, measured.heard_H), "jobs": found.jobs, "jobs_of": found.jobs_of,
        "tags": [{"name": name, "values": values, "of": of.tolist()} for name, (values, of) in found.tags.items()],
        "loss": _ways(measured.loss_2H), "errors": _ways(measured.errors_2H), "load": _ways(measured.load_2H),
        "delay_ns": _ways(measured.delay_2H), "bytes_per_s": _ways(measured.bytes_2H),
        "nics_total": np.bincount(host_P, minlength=count).tolist(),
        "nics_healthy": np.bincount(host_P[healthy_P], minlength=count).tolist(),
        "nics_unknown": np.bincount(host_P[unknown_P], minlength=count).tolist(),
        "reasons": [_told(one) for one in told], "ports": _unhealthy(found, port_states),
        "nics": {"total": len(host_P), "healthy": int(healthy_P.sum()),
                 "unknown": sum(state == UNKNOWN for state, _ in port_states)},
        "at_address": hosts_at_address(store, asked, found, address) if address else None,
        "why": "" if count else EMPTY,
    }  # fmt: skip


def _states(hosts: int, told: Iterable[Reason], heard_H: NDArray[np.bool_]) -> list[int]:
    """Codes: the worst reason; without one good if anything was heard of the host in the span, else unknown."""
    codes = np.where(heard_H, STATES.index(GOOD), STATES.index(UNKNOWN))
    for one in told:
        codes[one.host] = max(codes[one.host], STATES.index(one.state))
    return [int(code) for code in codes[:hosts]]


def _port_states(found: FleetHosts, measured: Measures, told: Iterable[Reason]) -> list[tuple[str, str]]:
    """State and words of each NIC port."""
    reason_of = {one.port: one for one in reversed(list(told)) if one.port and one.state == BAD}
    out: list[tuple[str, str]] = []
    for name, carrier in zip(found.ports.name_P.to_pylist(), measured.carrier_P.tolist(), strict=True):
        reason = reason_of.get(name)
        if reason is not None:
            out.append((BAD, reason.text))
        elif carrier == 0:
            out.append((BAD, "no carrier"))
        else:
            out.append((UNKNOWN, "no carrier data") if math.isnan(carrier) else (GOOD, ""))
    return out


def _unhealthy(found: FleetHosts, states: list[tuple[str, str]]) -> list[dict[str, Any]]:
    """Bad ports; those without data are only counted, since a fleet without that metric would list them all."""
    place_P, names = found.ports.place_P, found.ports.name_P
    return [
        {"host": int(found.ports.host_P[at]), "name": str(names[at].as_py()).partition("/")[2],
         "place": int(place_P[at]), "state": state, "text": text}
        for at, (state, text) in enumerate(states) if state == BAD
    ]  # fmt: skip


def _told(one: Reason) -> dict[str, Any]:
    return {"host": one.host, "state": one.state, "text": one.text, "entity": one.entity, "since_ns": one.since_ns,
            "port": one.port, "incident": one.incident}  # fmt: skip


def _ways(of_2H: Floats) -> dict[str, list[float | None]]:
    return {"inbound": _figures(of_2H[IN]), "outbound": _figures(of_2H[OUT])}


def _figures(values: Floats) -> list[float | None]:
    """To four figures, null for what is not known."""
    with np.errstate(divide="ignore", invalid="ignore"):
        size = np.where(values == 0, 0, np.floor(np.log10(np.abs(values))))
        scale = 10.0 ** (3 - size)
        rounded = np.where(np.isfinite(values), np.round(values * scale) / scale, np.nan)
    known = np.isfinite(rounded)
    return [value if there else None for value, there in zip(rounded.tolist(), known.tolist(), strict=True)]
