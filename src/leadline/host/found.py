"""What a source found: samples of counters, events, edges of the graph, segments of rings, flows, edges of the mesh.

The words between sources and the rest of the agent. Nothing is judged here: a sample is a value as it was read,
with the time of the reading on this host's clock.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

Labels = tuple[tuple[str, str], ...]


class Stream(NamedTuple):
    """One metric stream of this host. `own`: the agent speaks of itself."""

    name: str
    labels: Labels = ()
    counter: bool = False  # it only grows; else a gauge
    unit: str = ""
    own: bool = False


class Sample(NamedTuple):
    """One value of a stream."""

    stream: Stream
    time_ns: int
    value: float


class Event(NamedTuple):
    """Something that happened; becomes a row of `event`."""

    time_ns: int
    entity: str  # an entity id; empty if none is known
    kind: str
    severity: str
    message: str
    attributes: dict[str, str]
    source: str
    code: str | None = None


class Edge(NamedTuple):
    """One edge of the graph that holds now. `since_ns` 0: nobody knows better than when it was first seen."""

    child: str
    parent: str
    kind: str
    since_ns: int = 0


class FlowSent(NamedTuple):
    """What the sender of one flow counted in one interval; becomes a row of `flow_sent`, whose names these are."""

    time_ns: int
    window_ns: int
    flow: int
    protocol: int
    src_ip: str
    dst_ip: str
    src_port: int
    dst_port: int
    packets: int
    again: int
    bytes: int
    dst_qp: int | None = None
    needless: int | None = None
    timeouts: int | None = None
    acked_bytes: int | None = None
    busy_ns: int | None = None
    rtt_ns: int | None = None
    rtt_var_ns: int | None = None
    rtt_min_ns: int | None = None
    delivery_bps: float | None = None


class ProbeHop(NamedTuple):
    """One router on the way of the probes of one source port; becomes a row of `probe_hop`, whose names these are."""

    src: str
    dst: str
    src_port: int
    dscp: int  # `class` there
    time_ns: int
    hop: int
    address: str | None


class EdgeFit(NamedTuple):
    """What probes of one edge of the mesh say in one window; becomes a row of `edge_fit`, whose names these are."""

    src: str
    dst: str
    dst_clock: str
    src_port: int
    dscp: int  # `class` there
    end_ns: int
    probe_ns: int
    ahead_ns: int
    window_ns: int
    report_ns: int
    offset_ns: int | None
    rate_ppb: float | None
    bound_ns: int | None
    width_ns: float | None
    noise_ns: float | None
    probes: int
    state: str
    stamp: str
    there_min_ns: int | None
    there_p50_ns: int | None
    there_p99_ns: int | None
    there_queue_ns: int | None
    there_sent: int
    there_lost: int
    back_min_ns: int | None
    back_p50_ns: int | None
    back_p99_ns: int | None
    back_queue_ns: int | None
    back_sent: int
    back_lost: int
    stall_ns: int | None


class Segment(NamedTuple):
    """A segment of an event ring; `mark` and `at` say how far the ring is then read."""

    body: bytes
    records: int
    mark: str
    at: int


@dataclass(slots=True)
class Found:
    """What one reading found.

    `edges` None: the source did not look; else all that hold now, in its eyes. So with `jobs`: how many ranks of each
    have a ring here into which they still write. `is_whole` False: there was more than is good for one reading.
    """

    samples: list[Sample] = field(default_factory=list)
    events: list[Event] = field(default_factory=list)
    edges: list[Edge] | None = None
    segments: list[Segment] = field(default_factory=list)
    flows: list[FlowSent] = field(default_factory=list)
    fits: list[EdgeFit] = field(default_factory=list)
    hops: list[ProbeHop] = field(default_factory=list)
    jobs: dict[str, int] | None = None
    is_whole: bool = True
    mark: tuple[str, str] | None = None  # how far the input is read, stored with the events


class Watermark(NamedTuple):
    """A row of `watermark`, whose names these are. `job` empty: the host itself."""

    reported_ns: int
    to_ns: int
    sender: str
    job: str
    ranks: int
    state: str
    took_ns: int | None = None  # the request before this one
