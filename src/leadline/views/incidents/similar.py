"""Earlier incidents like one, and what people said of them.

incident, those before it ──> likeness: the same component and fault, the same fault on its host, in the job, anywhere
                          ──> the likest, of these the newest, each with the newest word of each person
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from leadline.model.incidents import Mark
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.incident import Incident
from leadline.views.incidents.marks import marks_of
from leadline.views.incidents.title import title
from leadline.views.incidents.view import Incidents
from leadline.views.names import no_incident
from leadline.views.rows import SCHEMA_VERSION

SHOWN = 5  # more are not read. Source: judgement.

# What makes two incidents alike, the likest first.
SAME_PART, SAME_HOST, SAME_JOB, SAME_FAULT, SAME_SYMPTOM = (
    "same component and fault", "same fault on the same host", "same fault in the same job", "same fault elsewhere",
    "same symptom of the same job, cause unknown too",
)  # fmt: skip
_ORDER = (SAME_PART, SAME_HOST, SAME_JOB, SAME_FAULT, SAME_SYMPTOM)


def likeness(one: Incident, other: Incident) -> str:
    """Why an incident is like another one; empty: it is not. Of each the likeliest cause counts."""
    if not one.known or not other.known:
        unknown = not one.known and not other.known
        alike = (one.job or one.entity, one.symptom) == (other.job or other.entity, other.symptom)
        return SAME_SYMPTOM if unknown and alike else ""
    mine, its = one.chosen[0], other.chosen[0]
    if mine.rule != its.rule:
        return ""
    if mine.entity == its.entity:
        return SAME_PART
    if mine.host is not None and mine.host == its.host:
        return SAME_HOST
    return SAME_JOB if one.job is not None and one.job == other.job else SAME_FAULT


def alike(one: Incident, others: Sequence[Incident]) -> list[tuple[str, Incident]]:
    """The likest of the incidents that began before it, with why; at most `SHOWN`."""
    before = (each for each in others if each.start_ns < one.start_ns and each.incident != one.incident)
    found = [(why, each) for each in before if each.tenant == one.tenant and (why := likeness(one, each))]
    return sorted(found, key=lambda pair: (_ORDER.index(pair[0]), -pair[1].start_ns, pair[1].incident))[:SHOWN]


def similar_answer(store: Store, asked: Asked, incident: str) -> dict[str, Any]:
    """What `/api/v1/incidents/{incident}/similar` says. Errors: RefusedError("unknown_incident"); StoreError."""
    every = Incidents(store, asked).between()
    mine = [each for each in every if each.incident == incident]
    if not mine:
        raise no_incident(store, asked, incident)
    found = [(why, each) for one in mine for why, each in alike(one, every)]
    said = marks_of(store, asked, sorted({each.incident for _, each in found}))
    similar = [
        {
            "tenant": each.tenant, "incident": each.incident, "title": title(each), "why": why,
            "start_ns": each.start_ns, "end_ns": each.end_ns, "state": each.state,
            "lost_gpu_seconds": each.lost_gpu_seconds,
            "marks": [
                row for row in said
                if (row["tenant"], row["incident"]) == (each.tenant, each.incident) and row["mark"] != Mark.ASSIGNED
            ],
        }
        for why, each in found
    ]  # fmt: skip
    return {"schema": SCHEMA_VERSION, "similar": similar}
