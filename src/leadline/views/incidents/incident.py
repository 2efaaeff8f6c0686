"""What an incident is: its symptoms, its causes with their evidence, its state. How it is read from rows: `view`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from typing import Any

from leadline.model.hardware_codes import Xid, death_of
from leadline.model.ids import EntityId, name_of
from leadline.model.incidents import Symptom, Verdict, is_unwatched
from leadline.model.units import S
from leadline.views.lost import Loss

OPEN, OVER = "open", "over"
BEFORE, AFTER, TOGETHER, ORDER_UNKNOWN = "before", "after", "together", "unknown"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A row that speaks for a cause, or for a symptom. `after_s`: seconds after the first lost second.

    `order`: before, after or together with the first lost second (the difference is within the bounds of the clocks);
    unknown where a clock has no bound: then the difference orders nothing.
    """

    table: str
    entity: str
    what: str
    time_ns: int | None
    bound_ns: int | None
    text: str
    after_s: float | None
    order: str
    code: str = ""  # of an event: its vendor's number
    times: int = 1  # how often it was seen
    name: str = ""  # what people call the entity, as of a cause
    label: str = ""  # of an anomaly: what people call its metric, `SM clock`
    codes: Mapping[int, str] = field(default_factory=dict)  # of an anomaly: what its values stand for, or their bits


@dataclass(frozen=True, slots=True)
class Cause:
    """One ranked cause; columns of the table `cause`. `host`: where its component is, if it is known.

    `name`: what people call it, `h5 GPU 4`, where its id says it to nobody; empty: the id does.
    """

    position: int
    entity: str
    host: str | None
    rule: str
    chosen: bool
    layer: str
    fault_class: str
    probability: float
    start_ns: int
    reported_ns: int | None  # end of the window that named it first; None: not told
    score: Mapping[str, Any]
    evidence: tuple[Evidence, ...]
    action: str
    action_cost: float | None  # GPU-seconds, as the next two
    saves: float | None
    waiting_cost: float
    text: str
    name: str = ""

    @property
    def called(self) -> str:
        """Its name, with the id behind where they differ: `h5 GPU 4 (GPU-be1914a2)`."""
        return f"{self.name} ({name_of(self.entity)})" if self.name else self.entity

    @property
    def death(self) -> Xid | None:
        """What says that the component is dead until it is reset; None: nothing does."""
        found = (death_of(each.what, each.code) for each in self.evidence if each.table == "event")
        return next((each for each in found if each is not None), None)

    def as_json(self) -> dict[str, Any]:
        """As the API tells it; the class is called `class` there."""
        out = asdict(self)
        out["class"] = out.pop("fault_class")
        return out


@dataclass(frozen=True, slots=True)
class IncidentSymptom:
    """One symptom of an incident. What only its row in `symptom` knows is None where that is gone."""

    entity: str
    symptom: str
    start_ns: int | None
    end_ns: int | None
    lost_gpu_seconds: float
    lost_share: float | None
    missing: str | None
    blamed: tuple[Mapping[str, Any], ...]
    evidence: tuple[Evidence, ...]


ENDED_WITH_NS = 10 * S
"""An incident that was over so shortly before its job ended lasted until then: the last step of a slow rank ends it,
and what comes after (a checkpoint, the exit) takes seconds."""


@dataclass(frozen=True, slots=True)
class Incident:
    """Symptoms of one cause, or of one set of causes; columns of the table `incident`, of one tenant."""

    tenant: str
    cluster: str
    incident: str
    entity: str
    job: str | None
    jobs: tuple[str, ...]
    symptom: str
    start_ns: int
    end_ns: int | None
    bound_ns: int | None
    reported_ns: int
    seen_ns: int
    state: str
    verdict: str
    missing: str | None
    lost_gpu_seconds: float
    suppressed: str | None
    symptoms: tuple[IncidentSymptom, ...]
    causes: tuple[Cause, ...]  # by position
    estimated_gpu_seconds: float = 0.0  # of what was lost: not judged by the ledger yet, as its symptoms take it
    ended_with_ns: int | None = None  # when its jobs ended, if it lasted until then; None: it did not, or nobody looked

    def with_loss(self, loss: Loss | None) -> Incident:
        """The same with what it lost by the ledger; its symptoms add up to that. None: nothing was judged of it."""
        loss = loss or Loss(self.lost_gpu_seconds, self.lost_gpu_seconds)
        whole = sum(each.lost_gpu_seconds for each in self.symptoms)
        part = loss.gpu_seconds / whole if whole else 0.0
        symptoms = tuple(replace(each, lost_gpu_seconds=each.lost_gpu_seconds * part) for each in self.symptoms)
        return replace(self, lost_gpu_seconds=loss.gpu_seconds, estimated_gpu_seconds=loss.estimated, symptoms=symptoms)

    def with_job_ends(self, ended: Mapping[str, int | None]) -> Incident:
        """The same with whether it lasted until its jobs ended; `ended`: when each of them did, None or left out while
        it runs. A crash is an end itself, and goes on costing."""
        if self.symptom == Symptom.CRASH:
            return self
        ends = [ended.get(job) for job in self.jobs]
        last_ns = max((each for each in ends if each is not None), default=None)
        if last_ns is None or None in ends or (self.end_ns is not None and self.end_ns < last_ns - ENDED_WITH_NS):
            return self
        return replace(self, ended_with_ns=last_ns)

    @property
    def chosen(self) -> tuple[Cause, ...]:
        """The causes named, the likeliest first."""
        return tuple(cause for cause in self.causes if cause.chosen)

    @property
    def considered(self) -> tuple[Cause, ...]:
        """What was considered and is not it."""
        return tuple(cause for cause in self.causes if not cause.chosen)

    @property
    def known(self) -> bool:
        """Whether a cause is named."""
        return self.verdict == Verdict.KNOWN and bool(self.chosen)

    @property
    def open(self) -> bool:
        """Whether its symptoms last."""
        return self.state == OPEN

    @property
    def held(self) -> bool:
        """Whether its symptoms are over, and it is open because a part of its cause is dead until it is reset."""
        return self.open and all(each.end_ns is not None for each in self.symptoms) and bool(self.symptoms)

    @property
    def over_ns(self) -> int | None:
        """When its last symptom was over; None: one lasts."""
        ends = [each.end_ns for each in self.symptoms]
        return None if None in ends else max((each for each in ends if each is not None), default=self.end_ns)

    @property
    def unwatched(self) -> bool:
        """Whether its end was not seen: nobody watched it since `end_ns`."""
        return is_unwatched(self.end_ns, self.seen_ns)

    def concerns(self, job: str) -> bool:
        """Whether this job suffers."""
        return job in self.jobs or job == self.job or self.entity == f"job:{job}"

    def names(self, entity: str) -> bool:
        """Whether this entity suffers, is a cause that is named, is where one is, or is an end of a link that is."""
        said = {self.entity, *(f"job:{job}" for job in self.jobs), *(each.entity for each in self.symptoms)}
        for cause in self.chosen:
            ends = [end for end in EntityId.of(cause.entity).ends if end]
            said |= {cause.entity, cause.host or "", *(f"{kind}:{end}" for end in ends for kind in ("port", "swport"))}
        return entity in said
