"""The shapes of what the API says of two sides: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class SideAnswer(BaseModel):
    """One side: a run of a job, a host, a GPU, or the peers of one."""

    title: str
    kind: str
    from_ns: int
    to_ns: int
    hosts: list[str]
    gpus: list[str]
    jobs: list[str]
    note: str


class SettingSides(BaseModel):
    """A setting that only one side tells: on each side how many members have which value."""

    of: str
    setting: str
    a: dict[str, int]
    b: dict[str, int]


class SettingApart(SettingSides):
    """A setting that tells the sides apart: `strength` is 1 where no value of one side is found on the other."""

    strength: float
    members_a: int
    members_b: int


class SettingsAnswer(BaseModel):
    """Settings that differ, the strongest first; those that only one side tells; how many are equal."""

    different: list[SettingApart]
    one_sided: list[SettingSides]
    equal: int


class QuantileAnswer(BaseModel):
    """A quantile with its 95 % interval, null where too few values are there."""

    value: float | None
    low: float | None
    high: float | None
    count: int


class DifferenceAnswer(BaseModel):
    """B against A. `verdict`: more, less (of B), same (no difference beyond noise) or unknown, then `why`."""

    a: QuantileAnswer
    b: QuantileAnswer
    ratio: float | None
    low: float | None
    high: float | None
    verdict: str
    why: str


class TimeApart(DifferenceAnswer):
    """What was compared, in which unit."""

    what: str
    unit: str


class CategoryApart(BaseModel):
    """Seconds of a category per step, and its share of windows against each other."""

    category: str
    a_s_per_step: float | None
    b_s_per_step: float | None
    share: DifferenceAnswer


class LateApart(BaseModel):
    """Seconds per step that each job waited for the rank of this number."""

    rank: str
    a_s_per_step: float
    b_s_per_step: float


class LedgerApart(BaseModel):
    """The ledgers of two runs; `missing`: whose there is none."""

    categories: list[CategoryApart]
    late: list[LateApart]
    missing: str


class MetricApart(BaseModel):
    """A metric in which one member differs from its peers: `peers` is their median."""

    side: str
    metric: str
    member: str
    value: float
    peers: float
    peers_count: int
    sigmas: float


class MetricsApart(BaseModel):
    """Metrics that stand out, the surest first; `missing`: why none could."""

    different: list[MetricApart]
    missing: str


class SlowWorker(BaseModel):
    """A rank that is slower than the others since a step; `from_start`: since before the span, so that is no onset."""

    rank: int
    since_step: int
    until_step: int | None
    since_ns: int
    slowdown: float
    from_start: bool
    lost_s: float


class SlowWorkersAnswer(BaseModel):
    """The slow ranks of a job by their own times. `missing`: why nobody can be named."""

    measure: str
    missing: str
    workers: list[SlowWorker]


class SlowWorkersApart(BaseModel):
    """Of each side; null of hosts and GPUs."""

    a: SlowWorkersAnswer | None
    b: SlowWorkersAnswer | None


class CompareAnswer(BaseModel):
    """`GET /api/v1/compare`: `note` says what it does not say."""

    schema_version: int = Field(alias="schema")
    a: SideAnswer
    b: SideAnswer
    settings: SettingsAnswer
    times: list[TimeApart]
    ledger: LedgerApart
    metrics: MetricsApart
    slow_workers: SlowWorkersApart
    note: str
