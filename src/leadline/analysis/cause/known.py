"""Incidents and causes that earlier windows reported: under which id symptoms stand, and what was named before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from leadline.analysis.cause.evidence import Piece, remembered
from leadline.analysis.cause.history import Episode
from leadline.analysis.cause.symptoms import SymptomRow, retold
from leadline.model.incidents import Verdict as Told

# symptoms of an incident that are over and still judged with it: a link may flap for hours. Source: bound.
PAST_MAX = 32


@dataclass(frozen=True, slots=True)
class Earlier:
    """An incident as an earlier window told it."""

    incident: str
    start_ns: int
    reported_ns: int
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
        min(row["reported_ns"] for row in rows),
        any(row["end_ns"] is None for row in rows),
        tuple(sorted(symptoms, key=lambda symptom: symptom.key)),
        tuple(sorted(rows, key=lambda row: row["tenant"] or "")),
    )
