"""Incidents: symptoms of one cause, under one id from window to window.

symptoms ─ plainly one trouble (`symptoms.groups_of`) ─ one cause (`together`) ─ the id they had (`Known`) ─> Incident
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from hashlib import blake2b
from typing import Any

from leadline.analysis.cause.choice import Verdict, family, verdict_of
from leadline.analysis.cause.context import Context
from leadline.analysis.cause.evidence import Piece, remembered
from leadline.analysis.cause.feedback import AllFeedback
from leadline.analysis.cause.history import Episode
from leadline.analysis.cause.symptoms import SymptomRow, retold
from leadline.model.ids import EntityId
from leadline.model.incidents import Verdict as Told
from leadline.model.units import S

# Symptoms of one cause with a shorter break between them are one incident, because a link that flaps every minute is
# one fault to whoever repairs it. Source: judgement.
GAP_NS = 60 * S
# symptoms of an incident that are over and still judged with it: a link may flap for hours. Source: bound.
PAST_MAX = 32
# s; the end of the year 9999, beyond which the calendar of the standard library has no dates. Source: definition.
STAMP_MAX_S = 253_402_300_799


@dataclass(frozen=True, slots=True)
class Trouble:
    """Symptoms that are one incident, with its verdict."""

    symptoms: tuple[SymptomRow, ...]
    verdict: Verdict

    @property
    def start_ns(self) -> int:
        """The first lost second."""
        return min(each.start_ns for each in self.symptoms)

    @property
    def end_ns(self) -> int | None:
        """Over since; None while any of it lasts."""
        ends = [each.end_ns for each in self.symptoms]
        return None if None in ends else max(end for end in ends if end is not None)

    @property
    def first(self) -> SymptomRow:
        """What was affected first."""
        return min(self.symptoms, key=lambda each: (each.start_ns, each.tenant, each.entity, each.kind.value))

    @property
    def worst(self) -> SymptomRow:
        """What costs most."""
        return min(self.symptoms, key=lambda each: (-each.lost_gpu_s, each.start_ns, each.entity, each.kind.value))


@dataclass(frozen=True, slots=True)
class Earlier:
    """An incident as an earlier window told it."""

    incident: str
    start_ns: int
    told_ns: int
    open: bool
    symptoms: tuple[SymptomRow, ...]
    rows: tuple[Mapping[str, Any], ...]


@dataclass(slots=True)
class Known:
    """What earlier windows told."""

    incidents: list[Earlier] = field(default_factory=list)
    pieces: dict[str, list[Piece]] = field(default_factory=dict)  # incident -> evidence of its causes
    named: dict[str, set[tuple[str, str]]] = field(default_factory=dict)  # incident -> (entity, rule) named last
    episodes: dict[tuple[str, str], dict[str, Episode]] = field(default_factory=dict)  # (entity, rule) -> by incident

    def of(self, symptoms: Iterable[SymptomRow]) -> list[Earlier]:
        """The incidents that these symptoms belong to, the oldest first."""
        keys = {each.key for each in symptoms}
        return [each for each in self.incidents if any(symptom.key in keys for symptom in each.symptoms)]

    def rejoined(self, groups: Iterable[Sequence[SymptomRow]]) -> list[tuple[SymptomRow, ...]]:
        """Groups of symptoms, those in one that were told as one incident: two incidents have not the same id."""
        found: list[tuple[set[str], list[SymptomRow]]] = []
        for group in groups:
            ids, symptoms = {each.incident for each in self.of(group)}, list(group)
            for other in [each for each in found if each[0] & ids]:
                found.remove(other)
                ids, symptoms = ids | other[0], [*other[1], *symptoms]
            found.append((ids, symptoms))
        return [tuple(sorted(symptoms, key=lambda symptom: (symptom.start_ns, symptom.key))) for _, symptoms in found]

    def with_past(self, symptoms: Sequence[SymptomRow]) -> tuple[SymptomRow, ...]:
        """Symptoms with those of their incident that are over and out of sight, the costliest of them."""
        found = {each.key: each for each in symptoms}
        past = {
            symptom.key: symptom for each in self.of(symptoms) for symptom in each.symptoms if symptom.key not in found
        }
        kept = sorted(past.values(), key=lambda symptom: (-symptom.lost_gpu_s, symptom.key))[:PAST_MAX]
        return tuple(sorted((*symptoms, *kept), key=lambda symptom: (symptom.start_ns, symptom.key)))


def known_of(incident_rows: Iterable[Mapping[str, Any]], cause_rows: Iterable[Mapping[str, Any]]) -> Known:
    """Earlier incidents with their causes, and what was named in the past."""
    found = Known()
    by_id: dict[str, list[Mapping[str, Any]]] = {}
    for row in incident_rows:
        by_id.setdefault(row["incident"], []).append(row)
    found.incidents = sorted(
        (_earlier(rows) for rows in by_id.values()), key=lambda each: (each.start_ns, each.incident)
    )
    causes = sorted(
        cause_rows, key=lambda row: (row["incident"], -row["seen_ns"], row["position"], row["tenant"] or "")
    )
    newest: dict[str, int] = {}
    for name, rows in by_id.items():  # one that has become unknown has none of the causes of before
        if all(row["verdict"] == Told.UNKNOWN for row in rows):
            newest[name] = max(row["seen_ns"] for row in rows)
    for row in causes:
        current = row["seen_ns"] >= newest.setdefault(row["incident"], row["seen_ns"])
        if not row["chosen"]:
            continue
        whose = row["entity"], row["rule"]
        if current:
            found.named.setdefault(row["incident"], set()).add(whose)
            found.pieces.setdefault(row["incident"], []).extend(remembered(row["evidence"]))
            episode = Episode(row["start_ns"], row["seen_ns"])
            found.episodes.setdefault(whose, {}).setdefault(row["incident"], episode)
    return found


def _earlier(rows: Sequence[Mapping[str, Any]]) -> Earlier:
    first = min(rows, key=lambda row: (row["start_ns"], row["tenant"] or ""))
    symptoms = [symptom for row in rows for symptom in retold(row["symptoms"], row["tenant"] or "", row["seen_ns"])]
    return Earlier(
        first["incident"],
        first["start_ns"],
        min(row["told_ns"] for row in rows),
        any(row["end_ns"] is None for row in rows),
        tuple(sorted(symptoms, key=lambda symptom: symptom.key)),
        tuple(sorted(rows, key=lambda row: row["tenant"] or "")),
    )


def troubles_of(
    groups: Sequence[tuple[SymptomRow, ...]], context: Context, feedback: AllFeedback, now_ns: int
) -> list[Trouble]:
    """Incidents: groups of symptoms, put together where one component was named for several.

    Loops over the incidents of a window: few.
    """

    def verdict(symptoms: Sequence[SymptomRow]) -> Verdict:
        return verdict_of(symptoms, context, feedback.silent_for_all(each.tenant for each in symptoms))

    troubles = [Trouble(group, verdict(group)) for group in groups]
    while (pair := _alike(troubles, context, now_ns)) is not None:
        first, second = (troubles[place] for place in pair)
        troubles = [each for place, each in enumerate(troubles) if place not in pair]
        symptoms = tuple(sorted((*first.symptoms, *second.symptoms), key=lambda each: (each.start_ns, *each.key[:3])))
        troubles.append(Trouble(symptoms, verdict(symptoms)))
    return sorted(troubles, key=lambda each: (each.start_ns, each.first.key))


def _alike(troubles: Sequence[Trouble], context: Context, now_ns: int) -> tuple[int, int] | None:
    """Places of two incidents of which one component was named first, one while the other lasts or soon after."""
    for place, one in enumerate(troubles):
        for other_place in range(place + 1, len(troubles)):
            other = troubles[other_place]
            near = one.start_ns < _until(other, now_ns) + GAP_NS and other.start_ns < _until(one, now_ns) + GAP_NS
            if near and _same_cause(one, other, context):
                return place, other_place
    return None


def _same_cause(one: Trouble, other: Trouble, context: Context) -> bool:
    topology = context.ground.topology
    named = [each.candidate for each in one.verdict.chosen]
    others = [each.candidate for each in other.verdict.chosen]
    return any(
        family(each.entity, topology) & family(again.entity, topology) and each.rule.name == again.rule.name
        for each in named[:1]
        for again in others[:1]
    )


def _until(trouble: Trouble, now_ns: int) -> int:
    return now_ns if trouble.end_ns is None else trouble.end_ns


def id_of(trouble: Trouble, provider: str) -> str:
    """Id of a new incident: what was affected first, its symptom, and when: `bert-7-slow-20261122T170102Z`.

    Every tenant that suffers reads it, also one that joins later, and none may learn the names of another's jobs. So
    where anybody but the provider suffers, there is a number in place of the name: `job-9f86d081-slow-...`.
    """
    first = trouble.first
    seconds = min(max(first.start_ns // S, 0), STAMP_MAX_S)
    kind, name = EntityId.of(first.entity)
    name = name or first.entity
    if any(each.tenant != provider for each in trouble.symptoms):
        whole = f"{first.tenant}\0{first.entity}".encode()
        name = f"{kind}-{blake2b(whole, digest_size=4).hexdigest()}"
    return f"{name}-{first.kind.value}-{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%SZ}"
