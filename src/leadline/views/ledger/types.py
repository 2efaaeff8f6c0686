"""The shapes of what the API says of where time went: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class LedgerTotal(BaseModel):
    """All that was judged, and what was not."""

    seconds: float
    gpu_seconds: float
    lost_seconds: float
    lost_gpu_seconds: float
    missing_seconds: float
    missing_gpu_seconds: float


class LedgerCategory(BaseModel):
    """One category; `share` is of the job's GPU time, `confidence` the mean over it."""

    category: str
    seconds: float
    gpu_seconds: float
    lost_seconds: float
    lost_gpu_seconds: float
    share: float
    confidence: float


class LedgerOwner(LedgerCategory):
    """Who took time of a category: an entity, an edge `rank:J/0>rank:J/1`, or words; null: nobody in particular."""

    owner: str | None
    lost_cost: float | None
    lost_since_ns: int | None
    lost_until_ns: int | None
    depths: dict[str, float]


class LedgerUnknown(BaseModel):
    """What is not known, for want of which input."""

    missing: str
    seconds: float
    gpu_seconds: float


class LedgerGap(BaseModel):
    """A span that nobody judged."""

    from_ns: int
    to_ns: int


class LedgerMissing(BaseModel):
    """Windows that nobody judged."""

    windows: int
    seconds: float
    gpu_seconds: float
    spans: list[LedgerGap]
    why: str


class LedgerBin(BaseModel):
    """Seconds by category in one span, how many of them were lost, and how many nobody judged."""

    from_ns: int
    to_ns: int
    seconds: dict[str, float]
    lost: dict[str, float]
    missing: float


class LedgerTaker(BaseModel):
    """Seconds lost to one owner in each bin of `timeline`; those to whom most was lost, the most first."""

    category: str
    owner: str
    lost_seconds: list[float]


class LedgerGoodput(BaseModel):
    """Share of held GPU time that was productive; `ratio_max`: had all that is unknown been so too."""

    productive_gpu_seconds: float
    held_gpu_seconds: float
    ratio: float | None
    ratio_max: float | None


class LedgerEttr(BaseModel):
    """Share of wall time in which the job ran; what rate, checkpoints and restarts let expect, or why not."""

    running_seconds: float
    wall_seconds: float
    ratio: float | None
    ratio_max: float | None
    count: int
    interval_s: float | None
    write_s: float | None
    expected: float | None
    best_interval_s: float | None
    expected_missing: str


class LedgerMttf(BaseModel):
    """Mean time to failure with its 95 % interval, h."""

    failures: int
    hours: float
    mean_h: float | None
    low_h: float | None
    high_h: float | None
    text: str


class LedgerCost(BaseModel):
    """GPU-hours, and money where a price is set."""

    gpu_hours: float
    lost_gpu_hours: float
    price: float | None
    currency: str
    total: float | None
    lost: float | None
    how: str


class LedgerFailure(BaseModel):
    """A failure that stopped the job."""

    entity: str
    kind: str
    failure_class: str = Field(alias="class")
    gpus: int | None
    start_ns: int
    end_ns: int | None
    evidence: str


class LedgerAnswer(BaseModel):
    """`GET /api/v1/ledger`: where nothing is known everything is null or empty, and `why` tells it.

    `estimated_gpu_seconds` are not in `total`: what incidents take for lost where the ledger has not judged yet.
    """

    schema_version: int = Field(alias="schema")
    job: str
    from_ns: int | None
    to_ns: int | None
    window_ns: int | None
    gpus: float | None
    total: LedgerTotal | None
    estimated_gpu_seconds: float
    categories: list[LedgerCategory]
    owners: list[LedgerOwner]
    hosts: dict[str, str]
    unknown: list[LedgerUnknown]
    missing: LedgerMissing | None
    depths: dict[str, float]
    timeline: list[LedgerBin]
    takers: list[LedgerTaker]
    goodput: LedgerGoodput | None
    ettr: LedgerEttr | None
    mttf: LedgerMttf | None
    cost: LedgerCost
    failures: list[LedgerFailure]
    why: str
    note: str
