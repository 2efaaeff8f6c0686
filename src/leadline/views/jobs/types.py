"""The shapes of what the API says of jobs: documentation for OpenAPI, of which the page's types are made."""

from __future__ import annotations

from pydantic import BaseModel, Field


class JobLine(BaseModel):
    """Step time over the span: the mean of all ranks, s."""

    t_ns: list[int]
    step_s: list[float | None]


class SpentShare(BaseModel):
    """A share of held GPU time that was neither productive nor lost."""

    category: str
    share: float


class JobFact(BaseModel):
    """Something that a run said of itself when it began."""

    name: str
    value: str


class JobNow(BaseModel):
    """One job in a span. What steps tell is null without them, what the ledger tells is null (and `why`) without it.

    `lost_gpu_seconds` has `estimated_gpu_seconds` in it: what incidents take for lost where the ledger has not judged
    yet. `step_s`: median of its newest steps; `baseline_s`: what the ledger holds it against. `goodput`: share of held
    GPU time that was productive; `goodput_max`: had all that is unknown been so too. Of the open incidents
    `incidents_known` have a known cause, of all `incidents_explained`, and `suppressed` alert nobody. `state`: running;
    ended: at `ended_ns` all its ranks were gone, as those say who saw it; silent: no step for a minute, and nobody saw
    it end. `since_ns`: since when its ranks are there, which may be before the span. `user`, `project` and the
    rest of `about` are what the hook of rank 0 found in its environment; empty where it told nothing.
    """

    tenant: str
    cluster: str
    job: str
    ranks: int | None
    hosts: int | None
    gpus: float | None
    since_ns: int
    until_ns: int
    running: bool
    state: str
    ended_ns: int | None
    step: int | None
    step_s: float | None
    baseline_s: float | None
    goodput: float | None
    goodput_max: float | None
    lost_gpu_seconds: float | None
    estimated_gpu_seconds: float
    held_gpu_seconds: float | None
    spent: list[SpentShare]
    why: str
    incidents: int
    incidents_open: int
    incidents_known: int
    incidents_explained: int
    suppressed: int
    user: str
    project: str
    about: list[JobFact]
    line: JobLine


class JobsAnswer(BaseModel):
    """`GET /api/v1/jobs`: that which lost most first."""

    schema_version: int = Field(alias="schema")
    from_ns: int
    to_ns: int
    jobs_total: int
    running: int
    lost_gpu_seconds: float | None
    jobs: list[JobNow]


class RankPlace(BaseModel):
    """Where a rank ran last in the span."""

    rank: int
    host: str | None
    gpu: str | None


class CommunicatorUsed(BaseModel):
    """`size`: ranks by its own account; `told`: of how many it is known."""

    comm: str
    size: int
    told: int
    collectives: int


class RunSpan(BaseModel):
    """A span in which a job ran."""

    from_ns: int
    to_ns: int


class ShownRun(RunSpan):
    """The run that the span shows, whole: `state` is running, ended (all its ranks are gone) or silent, at present."""

    state: str


class JobAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}`: `now` is null where nothing of it is in the span; `runs` are all that are kept."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    now: JobNow | None
    ranks: list[RankPlace]
    communicators: list[CommunicatorUsed]
    run: ShownRun | None
    runs: list[RunSpan]
    runs_total: int
    why: str
    note: str


class StepTimes(BaseModel):
    """Of each bin the median of all ranks and steps, the fastest and the slowest, s; without writing checkpoints."""

    p50: list[float | None]
    low: list[float | None]
    high: list[float | None]


class StepsAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}/steps`: bins that have steps, by the end of their newest one."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    bin_ns: int
    ranks: int
    baseline_s: float | None
    t_ns: list[int]
    step: list[int]
    step_s: StepTimes
    loss: list[float | None]
    tokens_per_s: list[float | None]
    samples_per_s: list[float | None]
    phases: dict[str, list[float | None]]
    why: str
    note: str


class LatenessAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}/lateness`: by line and bin the mean time after the median rank, s; null: nothing told.

    `sum_s`: for how long the median rank waited for it; null where only one in `one_in` collectives was looked at.
    `fold`: each line is the worst of so many ranks.
    """

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    bin_ns: int
    t_ns: list[int]
    ranks: list[str]
    fold: int
    late_s: list[list[float | None]]
    sum_s: list[float | None] | None
    one_in: int
    why: str
    note: str


class CollectiveKind(BaseModel):
    """Collectives of one operation and size. Times: from the last arrival to the end, by the last one's own clock.

    `seconds`: all of them together; `last_rank`: who most often came last, in `last_share` of them. `bus_bytes_s`: bus
    bandwidth of the median one, as nccl-tests counts it.
    """

    op: str
    bytes: int
    ranks: int
    comms: int
    count: int
    unfinished: int
    partly_told: int
    seconds: float | None
    took_p50_s: float | None
    took_p99_s: float | None
    bus_bytes_s: float | None
    last_rank: int | None
    last_share: float | None


class CollectivesAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}/collectives`: kinds with most time first; sends and receives are not among them."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    one_in: int
    kinds: list[CollectiveKind]
    kinds_total: int
    why: str
    note: str


class CallArrival(BaseModel):
    """When a rank came to a collective, after the first one to come, by the clocks as they are."""

    rank: int
    after_s: float | None


class Call(BaseModel):
    """One collective. `late_s`: by how much longer the median rank was in it than the one asked about; `took_s`: how
    long that one was; `spread_s`: from the first arrival to the last. Of `told` arrivals the last 64 are listed."""

    comm: str
    seq: int
    op: str
    bytes: int
    size: int
    at_ns: int
    late_s: float | None
    last_rank: int
    spread_s: float | None
    took_s: float | None
    told: int
    arrivals: list[CallArrival]


class CallsAnswer(BaseModel):
    """`GET /api/v1/jobs/{job}/calls`: those to which the rank came latest, in order of time."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    rank: int
    from_ns: int
    to_ns: int
    calls: list[Call]
    calls_total: int
    why: str
    note: str


class OverlayMark(BaseModel):
    """Something that happened. `entity` is empty where it stands for several (`entities`); `count`: of its events."""

    t_ns: int
    end_ns: int | None
    kind: str
    entity: str
    entities: int
    severity: str
    text: str
    count: int
    incident: str | None


class OverlaysAnswer(BaseModel):
    """`GET /api/v1/overlays`: marks in order of time; of more than 500 the worst."""

    schema_version: int = Field(alias="schema")
    job: str
    tenant: str
    from_ns: int
    to_ns: int
    overlays: list[OverlayMark]
    overlays_total: int
    note: str
