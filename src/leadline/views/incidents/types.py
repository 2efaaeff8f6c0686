"""What the API answers about incidents, as types: the page's are made of them. Answers are not checked at run time."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from leadline.model.incidents import Mark
from leadline.views.compare.types import SlowWorkersAnswer
from leadline.views.incidents.actions import Advice, ToDo
from leadline.views.incidents.diagnosis import About, Watched
from leadline.views.incidents.incident import Evidence


class _Answer(BaseModel):
    """Every answer says the version of its form."""

    schema_version: int = Field(alias="schema")


class Blamed(BaseModel):
    """Who is blamed for what a symptom lost."""

    owner: str
    category: str
    how: str
    lost_gpu_seconds: float
    since_ns: int | None


class HurtAnswer(BaseModel):
    """One symptom of an incident."""

    entity: str
    symptom: str
    start_ns: int | None
    end_ns: int | None
    lost_gpu_seconds: float
    lost_share: float | None
    missing: str | None
    blamed: list[Blamed]
    evidence: list[Evidence]


class CauseAnswer(BaseModel):
    """One cause that is named, or one that was considered. GPU-seconds: `action_cost`, `saves` (in the next hour),
    `waiting_cost` (of ten minutes). `name`: what people call it (`h5 GPU 4`); empty: as its id says."""

    model_config = ConfigDict(populate_by_name=True)

    position: int
    entity: str
    host: str | None
    rule: str
    chosen: bool
    layer: str
    fault_class: str = Field(alias="class")
    probability: float
    start_ns: int
    reported_ns: int | None
    score: dict[str, Any]
    evidence: list[Evidence]
    action: str
    action_cost: float | None
    saves: float | None
    waiting_cost: float
    text: str
    name: str
    todo: ToDo


class IncidentAnswer(BaseModel):
    """One incident of one tenant.

    `title`: its cause in words and what that cost; its symptom where no cause is named. `severity`: critical where a
    job stands still or is down, else warning. `held`: its symptoms are over since `over_ns`; it is open because a part
    of its cause is dead until it is reset. `ended_with_ns`: when its jobs ended, where it lasted until then; null in
    lists, which do not look.
    """

    tenant: str
    cluster: str
    incident: str
    title: str
    severity: str
    entity: str
    job: str | None
    jobs: list[str]
    symptom: str
    start_ns: int
    end_ns: int | None
    bound_ns: int | None
    reported_ns: int
    seen_ns: int
    state: str
    unwatched: bool
    held: bool
    over_ns: int | None
    verdict: str
    missing: str | None
    lost_gpu_seconds: float
    estimated_gpu_seconds: float
    ended_with_ns: int | None
    suppressed: str | None
    symptoms: list[HurtAnswer]
    causes: list[CauseAnswer]
    considered: list[CauseAnswer]
    advice: list[Advice]


class IncidentsAnswer(_Answer):
    """Open ones first, of these what lost most; `incidents_total` counts all of them."""

    from_ns: int | None
    to_ns: int
    incidents_total: int
    incidents: list[IncidentAnswer]


class OneIncidentAnswer(_Answer):
    """One entry for each tenant that it affects."""

    incidents: list[IncidentAnswer]


class DiagnosedIncident(IncidentAnswer):
    """With the GPUs of its jobs, and the GPU-seconds that ten minutes of waiting cost."""

    gpus: int | None
    waiting_cost: float


class SlowWorkersOfJob(SlowWorkersAnswer):
    """The slow ranks of one job that was asked for."""

    job: str


class DiagnosisAnswer(_Answer):
    """`state`: ok, warning, critical, unknown; `why` where no incident says so."""

    state: str
    about: str
    about_kind: About
    at_ns: int
    recorded: bool
    why: str
    watched: Watched
    price: float | None
    currency: str
    slow_workers: list[SlowWorkersOfJob]
    incidents_total: int
    incidents: list[DiagnosedIncident]


class FactAnswer(BaseModel):
    """A numbered fact. `kind`: symptom, cause, evidence, considered, action, unknown, suppressed."""

    number: int
    kind: str
    text: str


class SentenceAnswer(BaseModel):
    """A sentence and the numbers of the facts that it rests on."""

    text: str
    cites: list[int]


class WordedAnswer(BaseModel):
    """What a language model made of the facts: `state` ok, off, failed, nothing."""

    state: str
    why: str
    model: str
    sentences: list[SentenceAnswer]
    dropped: list[str]
    tokens: int
    money: float


class OpinionAnswer(BaseModel):
    """What a language model would name: `state` ok, off, failed, nothing. `entity`, `rule`: its choice, empty where it
    says that the cause is unknown. `agrees`: with the verdict; None without a choice. `rests_on`: facts cited."""

    state: str
    why: str
    model: str
    entity: str
    rule: str
    agrees: bool | None
    reason: str
    rests_on: list[str]


class ExplainedIncident(BaseModel):
    """The explanation of an incident of one tenant."""

    incident: str
    tenant: str
    cluster: str
    verdict: str
    facts: list[FactAnswer]
    sentences: list[SentenceAnswer]
    model: WordedAnswer
    opinion: OpinionAnswer


class ExplanationAnswer(_Answer):
    """One explanation for each tenant that the incident affects."""

    explanations: list[ExplainedIncident]


class MarkAnswer(BaseModel):
    """What somebody said of a cause or an incident, and when. `reason`: why; the text of a comment; of `assigned` whose
    the incident is, nobody's if empty."""

    tenant: str
    cluster: str
    incident: str
    entity: str
    rule: str
    mark: Mark
    actor: str
    reason: str
    time_ns: int


class SimilarIncident(BaseModel):
    """An earlier incident that is like one, and why; `marks`: what people said of it, the newest first."""

    tenant: str
    incident: str
    title: str
    why: str
    start_ns: int
    end_ns: int | None
    state: str
    lost_gpu_seconds: float
    marks: list[MarkAnswer]


class SimilarAnswer(_Answer):
    """The likest first, of these the newest."""

    similar: list[SimilarIncident]


class MarksAnswer(_Answer):
    """Marks, the newest first."""

    marks: list[MarkAnswer]
