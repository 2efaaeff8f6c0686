"""Explain: which components could be why what was lost was lost, whatever speaks for them. The second stage of `cause`.

What was lost falls into parts, by symptom and blame. A component explains a part as far as whom it blames stands on the
component (`reach`), and only there are rules asked whose signs stand on it, or that need nothing but the blame.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.cause.context import Context
from leadline.analysis.cause.reach import ANYONE, Ground, Reach
from leadline.analysis.cause.rules.rule import Rule
from leadline.analysis.cause.symptoms import Blame, SymptomRow
from leadline.model.ids import kind_of

# Share by which a rule explains blame of another category than its own: not 0, because the ledger's owners are right
# more often than its categories. Source: judgement.
MISFIT = 0.2
# Share by which a rule explains what was lost and nobody could attribute (a job that tells steps alone): it may be of
# the rule's category or of another. Source: judgement.
UNATTRIBUTED = 0.5
STUCK, DIED = "stuck", "died"
# Share of what a component explains of the part that it explains most of, from which on a part is its own: those parts
# have its onset. Source: recordings (docs/log.md, 2026-11-23: onsets of each who is blamed).
MOSTLY = 0.5
# Storages that a job mounts, among which blame alone may choose: of more it says next to nothing of each. Source:
# judgement.
STORAGES_MAX = 4
PARTS_MAX = 64  # blames that are looked at, the costliest; what is left over is of nobody in particular. Source: bound.


@dataclass(frozen=True, slots=True)
class Part:
    """One part of what was lost: whom one symptom blames for it."""

    symptom: SymptomRow
    blame: Blame
    weight: float  # share of all that was lost

    @property
    def since_ns(self) -> int:
        """Since when it was lost: those who are blamed need not have begun the symptom."""
        return max(self.symptom.start_ns, self.blame.since_ns or 0)

    @property
    def blamed(self) -> tuple[str, str, int]:
        """Who is blamed, of which job, and at what time it stood where."""
        return self.blame.owner, self.symptom.job, self.symptom.start_ns


@dataclass(frozen=True, slots=True)
class Explanation:
    """One component with one rule, and what of the loss it would explain."""

    entity: str
    rule: Rule
    near: tuple[float, ...]  # how well it explains each part, 0 to 1
    share: float  # of the lost seconds, 0 to 1
    onset: SymptomRow  # since when what it explains was lost


@dataclass(frozen=True, slots=True)
class Explained:
    """Symptoms that are one incident, and what could be why."""

    symptoms: tuple[SymptomRow, ...]
    parts: tuple[Part, ...]  # of what was lost, the costliest first
    explanations: tuple[Explanation, ...]


def explain(symptoms: Sequence[SymptomRow], context: Context) -> Explained:
    """What could be why symptoms are there that are one incident."""
    parts = parts_of(symptoms)
    asked = {part.symptom.kind for part in parts}
    rules = {rule.name: rule for rule in context.book.rules if rule.symptoms & asked}
    shown = _shown(rules, context)
    found = []
    for name, rule in rules.items():
        entities = shown.get(name, set()) | (_blamed(rule, parts, context) if rule.alone else set())
        found += [one for entity in sorted(entities) if (one := _explanation(entity, rule, parts, context)) is not None]
    return Explained(tuple(symptoms), tuple(parts), tuple(found))


def parts_of(symptoms: Sequence[SymptomRow]) -> list[Part]:
    """What was lost, by symptom and blame, the costliest first; shares add up to 1."""
    whole = sum(sorted(max(symptom.lost_gpu_s, 1e-3) for symptom in symptoms))
    found = []
    for symptom in symptoms:
        rest = 1.0 - sum(blame.share for blame in symptom.blamed)
        nobody = (Blame(symptom.entity, "", "", rest),) if rest > 1e-6 else ()
        weight = max(symptom.lost_gpu_s, 1e-3) / whole
        found += [Part(symptom, blame, weight * blame.share) for blame in (*symptom.blamed, *nobody)]
    found.sort(key=lambda part: (-part.weight, part.symptom.key, part.blame.owner, part.blame.category, part.blame.how))
    return found[:PARTS_MAX]


def _shown(rules: Mapping[str, Rule], context: Context) -> dict[str, set[str]]:
    """Components on which signs stand, by the name of the rule."""
    found: dict[str, set[str]] = defaultdict(set)
    for entity, pieces in context.by_entity.items():
        names = {name for piece in pieces for name in context.book.signs(piece.face) if name in rules}
        wholes = context.ground.components.wholes(entity) if names else ()
        for name in names:
            found[name].update(whole for whole in wholes if kind_of(whole) in rules[name].kinds)
    return found


def _blamed(rule: Rule, parts: Sequence[Part], context: Context) -> set[str]:
    """What is blamed, for rules that need nothing else."""
    reaches = ((context.ground.reach(*part.blamed), part.symptom) for part in parts)
    return {entity for reach, symptom in reaches for entity in named(rule, reach, symptom)}


def named(rule: Rule, reach: Reach, symptom: SymptomRow) -> set[str]:
    """What a blame names for a rule that needs nothing else."""
    if rule.where == "storage":
        return set(reach.storage) if len(reach.storage) <= STORAGES_MAX else set()
    job = {f"job:{symptom.job}"} if symptom.job else set()
    return {each for each in reach.own | job if kind_of(each) in rule.kinds}


def _explanation(entity: str, rule: Rule, parts: Sequence[Part], context: Context) -> Explanation | None:
    near = tuple(explained(part.blame, part.symptom, entity, rule, context.ground) for part in parts)
    near = near if rule.fallback else _of_all_who_died(parts, near)
    share = min(1.0, math.fsum(part.weight * each for part, each in zip(parts, near, strict=True)))
    return Explanation(entity, rule, near, share, _onset(parts, near)) if share > 0 else None


def _of_all_who_died(parts: Sequence[Part], near: tuple[float, ...]) -> tuple[float, ...]:
    """Where several ranks are blamed for one crash, nobody knows which of them died first: what explains one of these
    deaths explains those that came of it. A rank that merely ended with an error does not."""
    best: dict[object, float] = {}
    for part, each in zip(parts, near, strict=True):
        if part.blame.category == DIED:
            best[part.symptom.key] = max(each, best.get(part.symptom.key, 0.0))
    return tuple(
        best[part.symptom.key] if part.blame.category == DIED else each for part, each in zip(parts, near, strict=True)
    )


def explained(blame: Blame, symptom: SymptomRow, entity: str, rule: Rule, ground: Ground) -> float:
    """Share of one blame, 0 to 1, that a rule explains of a component.

    Where a collective does not end, one broken component is why, wherever it is: it explains all of that.
    """
    nearness = ground.nearness(blame.owner, symptom.job, entity, rule.where, symptom.start_ns)
    if blame.category == STUCK and nearness == ANYONE:
        nearness = 1.0
    if not rule.categories or blame.category in rule.categories:
        return nearness
    return nearness * (MISFIT if blame.category else UNATTRIBUTED)


def _onset(parts: Sequence[Part], near: Sequence[float]) -> SymptomRow:
    """What a component explains, since its first second: of what it explains best, which may be less than all of it.

    Evidence has to be there when those whom it explains began to take time, not when others did.
    """
    best = max(part.weight * each for part, each in zip(parts, near, strict=True))
    mostly = [part for part, each in zip(parts, near, strict=True) if part.weight * each >= MOSTLY * best]
    first = min(mostly, key=lambda part: (part.since_ns, part.symptom.key))
    return replace(first.symptom, start_ns=first.since_ns)
