"""What `/api/v1/entity` answers, as types: for the schema, and so for the page."""

from __future__ import annotations

from pydantic import BaseModel, Field

from leadline.views.jobs.types import OverlayMark


class EntityFact(BaseModel):
    """Something that is known of it; `entity`: where the value is one."""

    name: str
    value: str
    entity: str | None


class EntityNear(BaseModel):
    """Something that it stands on, or that stands on it, by one relation; `link`: of two ports."""

    entity: str
    relation: str
    above: bool = Field(description="true: it stands on what is asked for")
    from_ns: int
    to_ns: int | None
    link: str | None


class EntityJob(BaseModel):
    """A job that uses it, with some of the ranks that do."""

    job: str
    ranks: list[int]
    ranks_total: int


class EntityLine(BaseModel):
    """One line: of each bin the mean, and the least and largest sample; of a counter the mean rate only."""

    label: str
    metric: str = Field(description="as it came")
    bound: bool = Field(description="a limit")
    streams: int
    mean: list[float | None]
    low: list[float | None] | None
    high: list[float | None] | None


class EntityPeers(BaseModel):
    """What others measured, of the line that has the label: of each bin the median, 10th and 90th percentile."""

    line: str
    count: int
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]


class EntityState(BaseModel):
    """A span in which a code or a set of bits did not change, in words."""

    from_ns: int
    to_ns: int
    value: float
    text: str
    state: str = Field(description="good, watch or bad")


class EntityPlot(BaseModel):
    """One plot. `states` where its values are codes; `source` and what follows where nothing of it is stored."""

    title: str
    unit: str
    about: str
    lines: list[EntityLine]
    peers: EntityPeers | None
    states: list[EntityState]
    source: str = Field(description="what would tell it; empty where it is told")
    page: str = Field(description="where it is written how to add that")
    command: str


class EntityFailure(BaseModel):
    """One failure by the analysis `failures`; `end_ns` null: it lasts."""

    entity: str
    kind: str
    failure_class: str = Field(alias="class")
    job: str | None
    start_ns: int
    end_ns: int | None


class EntityMetric(BaseModel):
    """A metric that is stored of it and that no plot above shows."""

    name: str
    streams: int


class EntityAnswer(BaseModel):
    """`GET /api/v1/entity`. All plots have one time axis: bins of `bin_ns` that begin at `t_ns`."""

    schema_version: int = Field(alias="schema")
    entity: str
    kind: str
    name: str = Field(description="what people call it; empty: its id")
    cluster: str
    tenant: str = Field(description="whose streams are drawn")
    from_ns: int
    to_ns: int
    bin_ns: int
    t_ns: list[int]
    facts: list[EntityFact]
    near: list[EntityNear]
    near_total: int
    jobs: list[EntityJob]
    plots: list[EntityPlot]
    peers_of: str = Field(description="who the peers are, in words")
    moments: list[OverlayMark]
    moments_total: int
    failures: list[EntityFailure]
    failures_total: int
    others: list[EntityMetric]
    why: str = Field(description="why there is nothing, if there is nothing at all")


class HardwareLine(BaseModel):
    """One member that is far from the rest."""

    entity: str
    mean: list[float | None]


class HardwarePlot(BaseModel):
    """What `count` of the job's `members` of a kind measured, as `line`: of each bin the median, 10th and 90th
    percentile, and who is furthest from it. `source` and what follows where nothing of it is stored."""

    title: str
    kind: str
    unit: str
    about: str
    line: str
    members: int
    count: int
    apart: list[HardwareLine]
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]
    source: str
    page: str
    command: str


class HardwareAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}/hardware`: all plots have one time axis."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    bin_ns: int
    t_ns: list[int]
    plots: list[HardwarePlot]
    note: str
