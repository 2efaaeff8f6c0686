"""How likely each candidate is, of each part of what was lost: a sum of documented log-odds, told part by part.

    logit = prior of the rule + blame + breadth + signs (+ alone) (+ wide) (+ before)

    prior    COMMON or RARE
    blame    how well it explains this blame: from +3 (it is what was blamed, or what that stands on) to 0
    breadth  from -1.5 to +1.5, by the share of all that was lost that it explains
    signs    weights of the rule, each times how near in time, how specific (peers that show the same) and how far out
             it is; the strongest counts whole, each further one half as much as the one before: signs of one fault are
             not independent
    alone    what the blame by itself tells, for rules that need no other row
    wide     for components that fail as a whole, where few of their parts show it: minus, and signs count by that share
    before   it was named by the window before: verdicts should not flicker

Each lost second has one cause. So candidates are rivals where they explain the same blame, and partners where they
explain different blame: of each blame there is a softmax over the best rule of each component and `unknown`, whose
logit is a constant. Two ranks that died are two causes, not half a cause each. Source: naive Bayes in log-odds (Good,
"Weight of Evidence", 1985) over a mixture of causes; the discount is ours. Calibration: docs/analyses/cause.md.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.cause.context import Context, Told, signs_of, wide_share
from leadline.analysis.cause.evidence import Piece
from leadline.analysis.cause.reach import Reach, explained
from leadline.analysis.cause.rule import Rule
from leadline.analysis.cause.symptoms import Blame, SymptomRow
from leadline.model.ids import kind_of

# Log-odds of `unknown`, nats: where blame explains all and one weak sign speaks for a rule, the odds are even. Raised
# from 3.0 when each part of a loss got its own cause. Source: recordings (docs/analyses/lab-evals.md).
UNKNOWN_LOGIT = 4.5
# Probability of the same blame if the cause is somewhere else, because the ledger errs: it makes blame count from 0 to
# 3 nats, and half an explanation 0.65 less than a whole one, where 71 recordings have 1.0. Source: recordings
# (docs/analyses/cause.md, weights by counts).
BLAME_ELSEWHERE = 0.05
# nats for a component that explains all of a loss, and as many against one that explains nothing, so that one cause of
# everything is preferred to many of a little. Source: recordings (with sets of causes).
BREADTH = 1.5
# Share of the sign before that each further sign counts, because signs of one fault are not independent: all of them
# together count at most twice the strongest. Source: judgement.
HALVING = 0.5
# Share of what a component explains of the part that it explains most of, from which on a part is its own: those parts
# have its onset. Source: recordings (docs/log.md, 2026-11-23: onsets of each who is blamed).
MOSTLY = 0.5
# nats against what fails as a whole and shows it on less than WIDE_MIN of its parts: nearly a TELLING sign, so that one
# part alone is not taken for the whole. Source: recordings (docs/analyses/cause.md).
WIDE_MISSES = -4.0
WIDE_MIN = 0.5  # Share of a component's parts that must show a fault of the whole: most of them. Source: judgement.
# nats for what the window before has named: verdicts that are nearly even do not change each 2 s. Source: judgement.
BEFORE = 0.5
# Share that is left of `alone` where a rule says where, not why, and nobody could see why: the host has no metrics, so
# silence proves nothing. Source: judgement.
UNSEEN = 0.3
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


@dataclass(frozen=True, slots=True)
class Candidate:
    """One component with one rule, and what speaks for it."""

    entity: str
    rule: Rule
    base: Mapping[str, float]  # parts of the logit that are the same of every blame
    told: tuple[Told, ...]
    near: tuple[float, ...]  # how well it explains each part, 0 to 1
    alone: tuple[float, ...]  # what each blame by itself tells for it, nats
    explains: float  # share of the lost seconds, 0 to 1
    onset_ns: int  # since when what it explains was lost
    late: tuple[Piece, ...] = ()  # what would fit and began after it hurt

    def parts(self, place: int) -> dict[str, float]:
        """The parts of its logit for one part of what was lost."""
        found = {**self.base, "blame": blame_nats(self.near[place])}
        found |= {"breadth": BREADTH * (2 * self.explains - 1), "alone": self.alone[place]}
        return {name: round(value, 3) for name, value in found.items() if value}

    def logit(self, place: int) -> float:
        """Its score for one part of what was lost."""
        return math.fsum(self.parts(place).values())

    @property
    def order(self) -> tuple[object, ...]:
        """Ties by name."""
        return self.entity, self.rule.name


def blame_nats(near: float) -> float:
    """What it tells that a component explains a lost second so well, 0 to 1: blame is that likely if it is the cause.

    Counted over 71 recordings (`evals.weights`) blame that is explained by half is worth 1.0 nats less than one that is
    explained whole, by a tenth 1.9; here 0.65 and 1.95.
    """
    return math.log((near + BLAME_ELSEWHERE) / BLAME_ELSEWHERE)


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


def candidates_of(parts: Sequence[Part], context: Context) -> list[Candidate]:
    """All candidates of one trouble, in order of their names."""
    asked = {part.symptom.kind for part in parts}
    rules = {rule.name: rule for rule in context.book.rules if rule.symptoms & asked}
    shown = _shown(rules, context)
    found = []
    for name, rule in rules.items():
        entities = shown.get(name, set()) | (_blamed(rule, parts, context) if rule.alone else set())
        for entity in sorted(entities):
            one = _candidate(entity, rule, parts, context)
            found += [one] if one is not None else []
    return sorted(found, key=lambda each: each.order)


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
    reaches = ((context.ground.reach(part.blame.owner, part.symptom.job), part.symptom) for part in parts)
    return {entity for reach, symptom in reaches for entity in _named(rule, reach, symptom)}


def _named(rule: Rule, reach: Reach, symptom: SymptomRow) -> set[str]:
    """What a blame names for a rule that needs nothing else."""
    if rule.where == "storage":
        return set(reach.storage) if len(reach.storage) == 1 else set()
    job = {f"job:{symptom.job}"} if symptom.job else set()
    return {each for each in reach.own | job if kind_of(each) in rule.kinds}


def _candidate(entity: str, rule: Rule, parts: Sequence[Part], context: Context) -> Candidate | None:
    near = tuple(explained(part.blame, part.symptom, entity, rule, context.ground) for part in parts)
    share = min(1.0, math.fsum(part.weight * each for part, each in zip(parts, near, strict=True)))
    if share <= 0:
        return None
    onset = _onset(parts, near)
    told, late = signs_of(entity, rule, onset, context)
    alone = tuple(_alone(entity, rule, part, context) for part in parts) if rule.alone else (0.0,) * len(parts)
    needs = any(sign.needed for sign in rule.signs)
    proven = any(context.book.signs(each.piece.face)[rule.name].needed for each in told)
    if (needs and not proven) or (not told and not any(alone)):
        return None
    base = {"prior": rule.prior}
    wide = wide_share(entity, context, told) if rule.wide and told else 1.0
    for place, each in enumerate(told):
        name = f"{each.piece.face.table} {each.piece.face.what} {each.piece.entity}"
        base[name] = base.get(name, 0.0) + each.weight * HALVING**place * (1.0 if wide >= WIDE_MIN else wide)
    if wide < WIDE_MIN:
        base["wide"] = WIDE_MISSES
    if (entity, rule.name) in context.before:
        base["before"] = BEFORE
    return Candidate(entity, rule, base, told, near, alone, share, onset.start_ns, late)


def _onset(parts: Sequence[Part], near: Sequence[float]) -> SymptomRow:
    """What a component explains, since its first second: of what it explains best, which may be less than all of it.

    Evidence has to be there when those whom it explains began to take time, not when others did.
    """
    best = max(part.weight * each for part, each in zip(parts, near, strict=True))
    mostly = [part for part, each in zip(parts, near, strict=True) if part.weight * each >= MOSTLY * best]
    first = min(mostly, key=lambda part: (part.since_ns, part.symptom.key))
    return replace(first.symptom, start_ns=first.since_ns)


def _alone(entity: str, rule: Rule, part: Part, context: Context) -> float:
    """What one blame by itself tells for a rule, nats."""
    blame, symptom = part.blame, part.symptom
    fits = not rule.categories or blame.category in rule.categories
    if symptom.kind not in rule.symptoms or not fits or not rule.fits_how(blame.how):
        return 0.0
    if entity not in _named(rule, context.ground.reach(blame.owner, symptom.job), symptom):
        return 0.0
    return rule.strength * (UNSEEN if rule.fallback and not _seen(entity, context) else 1.0)


def _seen(entity: str, context: Context) -> bool:
    """Whether metrics tell of the host of a component: else nothing below it could have shown why."""
    host = context.ground.topology.host_of(entity)
    return not host or host in context.ground.measured


def probabilities(rivals: Sequence[Candidate], place: int) -> tuple[list[float], float]:
    """Of each candidate for one part of what was lost, and of `unknown`: a softmax."""
    logits = [each.logit(place) for each in rivals]
    top = max([UNKNOWN_LOGIT, *logits])
    odds = [math.exp(each - top) for each in logits]
    unknown = math.exp(UNKNOWN_LOGIT - top)
    whole = math.fsum([*odds, unknown])
    return [each / whole for each in odds], unknown / whole
