"""Sentences of verdicts: why something is the cause, or why it is not."""

from __future__ import annotations

from collections.abc import Sequence

from leadline.analysis.cause.choose import Cause, Verdict
from leadline.analysis.cause.reach import Ground
from leadline.analysis.cause.signs import Told
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.cause.timing import FIRST, when
from leadline.analysis.graph.topology import Topology
from leadline.model.ids import kind_of, name_of
from leadline.model.metric_words import rank_of
from leadline.model.units import S

# places in the order of `model.metric_words`: events come first, because they are sentences. Source: definition.
RANKS, RANK_ELSE = {"event": 0, "failure": 0}, 1
SHOWN_MAX = 3  # pieces of evidence in a sentence: more are not read. Source: bound.
# Seconds after the first lost one, from which on it is told that the cause came later; less is within windows. Source:
# recordings (two faults in one slow-down; docs/log.md, 2026-11-23).
LATER_S = 5.0


def text_of(cause: Cause, start_ns: int, topology: Topology) -> str:
    """Why it is, or is not, the cause: deterministic, times relative to the first lost second."""
    candidate = cause.candidate
    name = named(candidate.entity, topology)
    since_s = (candidate.onset_ns - start_ns) / S
    later = f", since {since_s:.0f} s after the first lost second" if since_s >= LATER_S else ""
    shown = [f"{each.piece.words} ({where(each.piece.entity, candidate.entity)}{when(each.piece, start_ns, FIRST)})"
             for each in plainest(candidate.told)[:SHOWN_MAX]]  # fmt: skip
    evidence = "; ".join(shown) or "the only evidence is that the lost time is attributed to it"
    if cause.chosen:
        return (
            f"{name} {candidate.rule.words}: {evidence}. It explains {candidate.explains:.0%} of what was lost{later}."
        )
    return f"{name} was considered ({candidate.rule.name}) and rejected: {cause.why_not}. Seen: {evidence}."


def plainest(told: Sequence[Told]) -> list[Told]:
    """Evidence with what people understand at once first, then by what it tells: clocks before bits of reasons."""

    def rank(each: Told) -> int:
        face = each.piece.face
        return rank_of(face.what) if face.table == "anomaly" else RANKS.get(face.table, RANK_ELSE)

    return sorted(told, key=rank)


def named(entity: str, topology: Topology) -> str:
    """An entity with the host it is on, where its name does not say it."""
    host = topology.host_of(entity) if kind_of(entity) in ("gpu", "rank", "process") else ""
    return f"{entity} on {name_of(host)}" if host else entity


def where(entity: str, candidate: str) -> str:
    """Where a piece stands, if not on the component itself."""
    return "" if entity == candidate else f"{entity}, "


def missing_of(symptoms: Sequence[SymptomRow], verdict: Verdict, ground: Ground) -> str:
    """The input for want of which nothing is named; empty if none is known to be missing."""
    if verdict.chosen:
        return ""
    topology, traffic, measured = ground.topology, ground.traffic, ground.measured
    for symptom in symptoms:
        if symptom.missing:
            return symptom.missing
    for symptom in symptoms:
        for blame in symptom.blamed:
            sender, arrow, receiver = blame.owner.partition(">")
            if arrow and not traffic.links_between(sender, receiver):
                return f"path of {blame.owner}"
            if kind_of(sender) == "rank" and not topology.host_of(sender):
                return f"place of {sender}"
            if ":" not in blame.owner:
                return blame.owner
            if (host := topology.host_of(sender)) and host not in measured:
                return f"metrics of {host}"
    if not any(symptom.blamed for symptom in symptoms):
        return "blame: the lost time is not blamed on anything"
    return ""
