"""What `/api/v1/explore` answers, as types: for the schema, and so for the page."""

from __future__ import annotations

from pydantic import BaseModel, Field


class ExploredLabel(BaseModel):
    """A label of the streams that fit, with the values that most of them have; `values_total` counts all."""

    name: str
    values: list[str]
    values_total: int


class ExploredLine(BaseModel):
    """One stream, or the streams with one value of a label. `last`, `least` and `most` are of the span."""

    label: str = Field(description="what tells it from the others")
    entity: str = Field(description="empty where its streams are of several")
    streams: int
    mean: list[float | None]
    low: list[float | None] | None
    high: list[float | None] | None
    last: float | None
    least: float | None
    most: float | None
    last_words: str = Field(description="what the last value stands for, where values are codes")


class ExploredBand(BaseModel):
    """Of each bin the median, 10th and 90th percentile of all lines that were read."""

    count: int
    median: list[float | None]
    low: list[float | None]
    high: list[float | None]


class ExploreAnswer(BaseModel):
    """`GET /api/v1/explore`: the lines with the largest values, in order of their label."""

    schema_version: int = Field(alias="schema")
    metric: str
    title: str = Field(description="what it is called; the name again where it has no other")
    unit: str
    type: str = Field(description="as the sender tells it; empty: it does not")
    family: str = Field(description="what reports metrics of this name")
    rate: bool = Field(description="values are increases per second")
    combine: str
    from_ns: int
    to_ns: int
    bin_ns: int
    t_ns: list[int]
    labels: list[ExploredLabel]
    lines: list[ExploredLine]
    lines_total: int
    streams_total: int
    streams_read: int
    band: ExploredBand | None
    why: str
