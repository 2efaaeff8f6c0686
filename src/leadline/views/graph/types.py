"""What `/api/v1/graph`, `/path` and `/flows` answer, as types: for the schema, and so for the page."""

from __future__ import annotations

from pydantic import BaseModel, Field


class GraphNode(BaseModel):
    """An entity; `layer` 0 is on top. `state` and `why` are told where states were asked for."""

    entity: str
    kind: str
    layer: int
    jobs: list[str] = Field(description="that depend on it at that time")
    conflict: bool = Field(description="sources contradict each other about it")
    state: str | None = Field(description="good, suppressed, unknown, watch or bad; null: not asked for")
    why: str
    since_ns: int | None
    incident: str | None = Field(description="the incident whose cause it is")


class GraphEdge(BaseModel):
    """`child` stands on `parent`. A link is one edge, with the names of its ports, its state and what it carried."""

    child: str
    parent: str
    kind: str
    from_ns: int
    to_ns: int | None
    sources: list[str]
    confidence: float
    link: str | None
    child_port: str | None
    parent_port: str | None
    used: bool = Field(description="false: contradicted by a claim that is trusted more")
    bytes: float | None = Field(description="of a link, in the window of `carried_ns`; null: not known")
    state: str | None
    why: str
    since_ns: int | None
    incident: str | None


class GraphShared(BaseModel):
    """Something that several jobs stand on; `others` counts jobs of other tenants, which are not named."""

    entity: str
    kind: str
    jobs: list[str]
    others: int


class GraphSpan(BaseModel):
    """Since when and until when something was there; null: it still is."""

    from_ns: int
    to_ns: int | None


class GraphMoment(BaseModel):
    """Something that happened to what is shown: an incident, or parts that came or went."""

    start_ns: int
    end_ns: int | None
    what: str = Field(description="incident, came or went")
    text: str
    state: str
    entity: str
    incident: str | None


class GraphConflict(BaseModel):
    """Two claims that cannot both hold; columns of the table `conflict`."""

    entity: str
    kind: str
    start_ns: int
    end_ns: int | None
    claims: list[str]
    sources: list[str]
    used: str | None
    count: int
    text: str


class GraphAnswer(BaseModel):
    """`GET /api/v1/graph`."""

    schema_version: int = Field(alias="schema")
    job: str | None
    of: str | None
    at_ns: int
    as_of_ns: int
    carried_ns: int | None = Field(description="length of the window that `bytes` are of")
    nodes: list[GraphNode]
    edges: list[GraphEdge]
    shared: list[GraphShared]
    conflicts: list[GraphConflict]
    missing: list[str]
    span: GraphSpan | None
    moments: list[GraphMoment]
    note: str


class FlowColumns(BaseModel):
    """A flow in a window; columns of the table `flow_path`."""

    flow: str
    end_ns: int
    window_ns: int
    job: str | None
    src_rank: str | None
    dst_rank: str | None
    src: str | None
    dst: str | None
    src_ip: str
    dst_ip: str
    protocol: int
    src_port: int
    dst_port: int
    dst_qp: int | None
    state: str
    probability: float
    alternatives: int
    samples: int
    contradicting: int
    bytes: float
    low: float
    high: float
    why: str
    busiest: str | None
    busiest_bytes: float | None = Field(description="of all tenants; for operators only")


class PathHop(BaseModel):
    """One link of a path, and what the flow carried over it: null where it is not known."""

    hop: int
    link: str
    probability: float
    bytes: float | None
    low: float | None
    high: float | None


class FlowWay(BaseModel):
    """One path that a flow may take; alternative 0 is the likeliest."""

    alternative: int
    probability: float
    hops: list[PathHop]


class PathFlow(FlowColumns):
    """A flow with its paths."""

    paths: list[FlowWay]


class PossibleLink(BaseModel):
    """A link on a shortest path, from one node to the next."""

    link: str
    from_node: str = Field(alias="from")
    to_node: str = Field(alias="to")
    hop: int


class PossiblePaths(BaseModel):
    """What the topology allows between two ranks."""

    a: str | None
    b: str | None
    hops: int | None
    paths: int
    links: list[PossibleLink]
    links_total: int
    ports: list[list[str]]
    missing: list[str]


class PathAnswer(BaseModel):
    """`GET /api/v1/path`."""

    schema_version: int = Field(alias="schema")
    a: str
    b: str
    end_ns: int | None
    window_ns: int | None
    flows: list[PathFlow]
    asymmetric: bool | None
    possible: PossiblePaths
    why: str
    note: str


class JobFlow(FlowColumns):
    """A flow with the links of its likeliest path, in order."""

    links: list[str]


class LinkLoad(BaseModel):
    """A link, both directions together; `jobs`: bytes of each, `others`: jobs of other tenants, counted."""

    link: str
    bytes: float
    low: float
    high: float
    flows: int
    jobs: dict[str, float]
    others: int


class SentBy(BaseModel):
    """What a switch sent by one link of a group."""

    link: str
    bytes: float
    jobs: dict[str, float]


class EcmpGroup(BaseModel):
    """Links that a switch chooses among; columns of the table `ecmp_group`, and what it sent by each link."""

    switch: str
    group: str
    end_ns: int
    window_ns: int
    links: list[str]
    flows: int
    bytes: float
    efficiency: float = Field(description="mean over busiest: 1 is even")
    busiest: str
    busiest_bytes: float
    colliding: list[str] = Field(description="flows that fill the busiest link, as flow:...")
    jobs: list[str]
    sent: list[SentBy] = Field(description="most first; by traced flows that may be seen")


class UnownedFlow(BaseModel):
    """A flow that nobody owns."""

    flow: str
    src: str | None
    dst: str | None
    src_ip: str
    dst_ip: str
    protocol: int
    src_port: int
    dst_port: int
    dst_qp: int | None
    state: str
    bytes: float
    low: float
    high: float


class UnownedFlows(BaseModel):
    """Flows that nobody owns: how many, and the largest."""

    flows: int
    bytes: float
    top: list[UnownedFlow]


class FlowConflict(GraphConflict):
    """As `GraphConflict`, of the window."""

    seen_ns: int


class FlowsAnswer(BaseModel):
    """`GET /api/v1/flows`."""

    schema_version: int = Field(alias="schema")
    job: str
    end_ns: int | None
    window_ns: int | None
    flows: list[JobFlow]
    flows_total: int
    links: list[LinkLoad]
    links_total: int
    groups: list[EcmpGroup]
    unowned: UnownedFlows
    conflicts: list[FlowConflict]
    why: str
    note: str
