"""The shapes of what the API says of the mesh and of clocks: for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field

from leadline.views.fleet.view import FleetJob, FleetTag
from leadline.views.rows import SCHEMA_VERSION


class MeshClass(BaseModel):
    """A traffic class that was probed, and how many pairs."""

    value: int
    pairs: int


class MeshAnswer(BaseModel):
    """The newest of one measure between all hosts: rows send, columns receive; null: not measured."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    from_ns: int | None = Field(description="begin of the oldest window that is shown")
    measure: str
    unit: str = Field(description="ns or ratio")
    traffic_class: int | None
    classes: list[MeshClass]
    hosts: list[str]
    hosts_total: int = Field(description="more than `hosts`: those with the largest values are shown")
    values: list[list[float | None]]
    bounds_ns: list[list[int | None]] = Field(description="values are right to within this; null: unknown")
    silent: list[tuple[int, int]] = Field(description="row and column of pairs that were probed, and nothing arrived")
    routers_total: int = Field(description="addresses that answered traces of the last five minutes")
    routers_unplaced: list[str] = Field(
        description="of these, those of which nobody tells whose they are: what is bad beyond them is not located"
    )
    why: str


class MeshWindow(BaseModel):
    """One way of one pair in one window; all source ports together."""

    end_ns: int
    window_ns: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    queue_p99_ns: int
    lost: float
    count: int
    bound_ns: int | None


class PairAnswer(BaseModel):
    """Both ways of one pair over time, oldest window first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    from_ns: int
    to_ns: int
    src: str
    dst: str
    traffic_class: int | None
    there: list[MeshWindow]
    back: list[MeshWindow]
    why: str


class MeshMachine(BaseModel):
    """Hosts, as places in `hosts`, that share a machine, as their clocks tell; and how likely."""

    hosts: list[int]
    probability: float


class MeshUnknown(BaseModel):
    """Hosts, as places in `hosts`, of which it is unknown whether they share a machine, and why."""

    hosts: list[int]
    why: str


class BoardAnswer(BaseModel):
    """Every host with its place, jobs and delays: lists are as long as `hosts`, `state` names a place in `states`.

    A host's delay is the median over its peers, so that one bad peer does not colour it; null: not measured.
    """

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    from_ns: int | None = Field(description="end of the oldest window of a host's newest ones")
    measure: str
    unit: str = Field(description="ns or ratio")
    traffic_class: int | None
    classes: list[MeshClass]
    hosts: list[str]
    states: list[str]
    state: list[int] = Field(description="probed; dark: nothing arrives from or at it; unprobed")
    words: list[str] = Field(description="of a dark host what does not arrive; empty for others")
    inbound: list[float | None]
    outbound: list[float | None]
    inbound_bound_ns: list[int | None] = Field(description="the worst of its peers; null: unknown")
    outbound_bound_ns: list[int | None]
    inbound_peers: list[int]
    outbound_peers: list[int]
    inbound_silent: list[int] = Field(description="peers of which nothing arrived")
    outbound_silent: list[int] = Field(description="peers at which nothing arrived")
    heard_ns: list[int | None] = Field(description="end of the newest window in which a probe from or to it arrived")
    tags: list[FleetTag]
    jobs: list[FleetJob]
    jobs_of: list[list[int]]
    nics_total: list[int]
    nics_healthy: list[int]
    nics_unknown: list[int]
    machines: list[MeshMachine]
    machines_unknown: list[MeshUnknown]
    at_address: list[int] | None = Field(description="hosts with the address that was asked for")
    why: str


class MeshPeer(BaseModel):
    """The newest windows between a host and one peer; null: not measured."""

    host: str
    inbound: MeshWindow | None
    outbound: MeshWindow | None


class HostWindow(BaseModel):
    """One way of one host in one window: medians over its peers, the bound of the worst."""

    end_ns: int
    window_ns: int
    min_ns: int
    p50_ns: int
    p99_ns: int
    lost: float
    peers: int
    bound_ns: int | None


class HostAnswer(BaseModel):
    """One host against all its peers over time, oldest window first, and each peer now, the slowest first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    from_ns: int
    to_ns: int
    host: str
    traffic_class: int | None
    inbound: list[HostWindow]
    outbound: list[HostWindow]
    peers: list[MeshPeer]
    why: str


class SlowFlow(BaseModel):
    """What a job's messages tell of one edge and the queue pair or socket that it rode, where it is one.

    `flow` null: one of `flows` (0: none is known). Addresses, ports and queue pair are null where no path is known.
    """

    job: str
    tenant: str
    src_rank: int
    dst_rank: int
    src_host: str | None
    dst_host: str | None
    end_ns: int
    messages: int
    delay_p50_ns: int
    delay_p99_ns: int
    bound_ns: int | None
    flow: str | None
    flows: int
    protocol: int | None
    src_ip: str | None
    dst_ip: str | None
    src_port: int | None
    dst_port: int | None
    dst_qp: int | None


class FlowsDelayAnswer(BaseModel):
    """Edges of jobs by the one-way delay of their messages, the slowest first; without a delay: only counted."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    flows: list[SlowFlow]
    flows_total: int
    without_delay: int = Field(description="edges whose messages were seen, and whose clocks tell no delay")
    why: str


class ClockRow(BaseModel):
    """How one clock of one host maps to cluster time."""

    tenant: str
    cluster: str
    host: str
    clock: str
    end_ns: int
    offset_ns: int
    bound_ns: int
    rate_ppb: float
    noise_ns: float
    island: int
    state: str = Field(description="fitted, carried, lost")
    daemon_bound_ns: int | None = Field(
        description="within what the host's clock daemon (PTP, chrony, ntpd) says its clock is right; null: none says"
    )
    doubts: list[str] = Field(description="why its times are not to be trusted; empty: they are, to within the bound")


class ClockIsland(BaseModel):
    """Clocks that can be compared with each other, and with no others."""

    tenant: str
    cluster: str
    island: int
    clocks: int


class ClockAnswer(BaseModel):
    """The newest fit of every clock; the least certain first."""

    schema_version: int = Field(default=SCHEMA_VERSION, alias="schema")
    at_ns: int
    clocks: list[ClockRow]
    islands: int
    island_sizes: list[ClockIsland] = Field(description="the largest first")
    worst_bound_ns: int | None
    why: str
