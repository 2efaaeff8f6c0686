"""The shapes of what the API says of a what-if: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class WorkerCost(BaseModel):
    """A worker. `slowdown`: of the step if only this worker is as it was; `costs_s`: that, in seconds a step."""

    rank: int
    dp_rank: int
    stage: int
    slowdown: float
    costs_s: float


class PartCost(BaseModel):
    """A stage, a replica or a kind of operation: as `WorkerCost`."""

    name: str
    slowdown: float
    costs_s: float


class CauseCost(BaseModel):
    """A cause. `share`: of the lost time that is gone without it; shares overlap. `saves_s`: in seconds a step."""

    cause: str
    share: float
    saves_s: float


class WhatIfPlace(BaseModel):
    """Where the cause is; -1 and null where it is nowhere in particular. `link`: ranks, sender and receiver."""

    rank: int
    dp_rank: int
    stage: int
    link: list[int] | None


class GpuTime(BaseModel):
    """What the GPU of a rank did, where no step can be replayed: the three add up to `whole_s`. `exposed_s`: only
    communication ran."""

    rank: int
    whole_s: float
    compute_s: float
    exposed_s: float
    idle_s: float


class LeftOut(BaseModel):
    """What of the stored operations was not used."""

    rows: int
    copies: int
    unknown_kinds: dict[str, int]
    steps: list[int]
    dp_ranks: list[int]
    missing: list[str]


class WhatIfAnswer(BaseModel):
    """How long steps would have taken without what slowed them. Times are means over whole steps, in seconds.

    `step_s`: replayed as it was, without launch delays; `ideal_s`: with every operation ideal; `slowdown`: their ratio.
    `workers_share`, `last_stage_share`: of the lost time, what is gone if the slowest 3 % of the workers or the last
    stage are ideal (Mw, Ms of the paper). All null, and `why` says why, where no step is whole.
    """

    schema_version: int = Field(alias="schema")
    job: str
    why: str
    operations: int
    from_ns: int | None
    to_ns: int | None
    steps: int
    replicas: int
    stages: int
    observed_s: float | None
    step_s: float | None
    ideal_s: float | None
    slowdown: float | None
    cause: str | None
    confidence: float | None
    place: WhatIfPlace | None
    causes: list[CauseCost]
    workers: list[WorkerCost]
    workers_total: int
    by_stage: list[PartCost]
    by_replica: list[PartCost]
    by_kind: list[PartCost]
    workers_share: float | None
    last_stage_share: float | None
    correlation: float | None = Field(description="of forward and backward of the same micro-batch")
    gpu_time: list[GpuTime]
    left_out: LeftOut
