"""The shapes of what the API says of expectations: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class SleLayer(BaseModel):
    """All expectations of one layer, listed below or not."""

    layer: str
    held: int
    critical: int
    warning: int
    unknown: int
    ok: int
    good_s: float
    bad_s: float
    missing_s: float


class SleClassifier(BaseModel):
    """What made seconds bad; `culprit` is the entity it was seen on. `metric` is empty for the rest in one."""

    classifier: str = Field(description="what made seconds bad, metrics in it as they are called")
    metric: str
    culprit: str
    bound: str
    seconds: float


class SleHeld(BaseModel):
    """One expectation of one entity. `sle` is null where every second is missing."""

    tenant: str
    expectation: str
    layer: str
    entity: str
    name: str = Field(description="what people call it, `h5 GPU 4`; empty where its id says it")
    state: str
    objective: float
    good_s: float
    bad_s: float
    missing_s: float
    sle: float | None
    budget_s: float
    budget_left: float | None
    burn: dict[str, float | None]
    burning: str
    spent: bool
    lost_gpu_minutes: float
    classifiers: list[SleClassifier]
    why_missing: dict[str, float]


class SleAnswer(BaseModel):
    """`GET /api/v1/sle`."""

    schema_version: int = Field(alias="schema")
    window: str
    window_s: int
    from_ns: int | None
    end_ns: int | None
    layers: list[SleLayer]
    held: list[SleHeld]
    held_total: int
    why: str
    note: str


class SleMinute(BaseModel):
    """One minute of one expectation of one entity, and what made its seconds bad, most first."""

    end_ns: int
    good_s: float
    bad_s: float
    missing_s: float
    why_missing: str | None
    lost_gpu_seconds: float
    classifiers: list[SleClassifier]


class SleMinutes(BaseModel):
    """`GET /api/v1/sle/minutes`: oldest first; minutes that nobody judged are not there."""

    schema_version: int = Field(alias="schema")
    expectation: str
    entity: str
    minutes: list[SleMinute]
    more: bool = Field(description="there were more minutes than shown; ask for a shorter time")
