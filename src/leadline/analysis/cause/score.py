"""Score: how likely each candidate is, of each part of what was lost. The third stage of `cause`.

A sum of documented log-odds, reported part by part:

    logit = prior of the rule + blame + breadth + signs (+ alone) (+ wide) (+ jobs) (+ before)

    prior    COMMON or RARE
    blame    how well it explains this blame: from +3 (it is what was blamed, or what that stands on) to 0
    breadth  from -1.5 to +1.5, by the share of all that was lost that it explains
    signs    weights of the rule, each times how near in time, how specific (peers that show the same) and how far out
             it is; the strongest counts whole, each further one half as much as the one before: signs of one fault are
             not independent
    alone    what the blame by itself tells, for rules that need no other row
    wide     for components that fail as a whole, where few of their parts show it: minus, and signs count by that share
    jobs     plus, where jobs that share it began to suffer within seconds of each other: chance seldom does that
    before   it was named by the window before: verdicts should not flicker

Each lost second has one cause. So candidates are rivals where they explain the same blame, and partners where they
explain different blame: of each blame there is a softmax over the best rule of each component and `unknown`, whose
logit is a constant. Two ranks that died are two causes, not half a cause each. Source: naive Bayes in log-odds (Good,
"Weight of Evidence", 1985) over a mixture of causes; the discount is ours. Calibration: docs/analyses/cause.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.cause.context import Context
from leadline.analysis.cause.evidence import Piece
from leadline.analysis.cause.explain import Explained, Explanation, Part, named
from leadline.analysis.cause.reach import ANYONE
from leadline.analysis.cause.rules.rule import Rule
from leadline.analysis.cause.signs import Told, signs_of, wide_share
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.cause.weights import WEIGHTS
from leadline.model.units import S

# Log-odds of `unknown`, nats: where blame explains all and one weak sign speaks for a rule, the odds are even. It was
# raised from 3.0 when each part of a loss got its own cause. Source: recordings (docs/analyses/lab-evals.md), in the
# table of `weights`.
UNKNOWN_LOGIT = WEIGHTS.unknown
# Probability of the same blame if the cause is somewhere else, because the ledger errs: it makes blame count from 0 to
# 3 nats, and half an explanation 0.65 less than a whole one, where 71 recordings have 1.0. Source: recordings
# (docs/analyses/cause.md, weights by counts).
BLAME_ELSEWHERE = 0.05
# nats for a component that explains all of a loss, and as many against one that explains nothing, so that one cause of
# everything is preferred to many of a little. Source: recordings (with sets of causes), in the table of `weights`.
BREADTH = WEIGHTS.breadth
# Share of the sign before that each further sign counts, because signs of one fault are not independent: all of them
# together count at most twice the strongest. Source: judgement.
HALVING = 0.5
# nats against what fails as a whole and shows it on less than WIDE_MIN of its parts: nearly a TELLING sign, so that one
# part alone is not taken for the whole. Source: recordings (docs/analyses/cause.md).
WIDE_MISSES = -4.0
WIDE_MIN = 0.5  # Share of a component's parts that must show a fault of the whole: most of them. Source: judgement.
# nats for what the window before has named: verdicts that are nearly even do not change each 2 s. Source: judgement.
BEFORE = 0.5
# Share of the weight of a proof from which on a sign is one: what is told a little late or early still is. Source:
# judgement.
PROVEN_SHARE = 0.75
# nats for each further job that begins to suffer of it within AT_ONCE_NS, for two of them at most: a job is disturbed
# a few times a day, so that two unrelated ones are within ten seconds happens once in hundreds; half of that is left,
# since jobs may share more than this. Source: judgement.
FURTHER_JOB, FURTHER_MAX = 2.0, 2
AT_ONCE_NS = 10 * S  # as long as two windows of the slowest symptom differ. Source: judgement.
# Share that is left of `alone` where a rule says where, not why, and nobody could see why: the host has no metrics, so
# silence proves nothing. Source: judgement.
UNSEEN = 0.3


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
    late: tuple[Piece, ...] = ()  # what would fit and began after the onset

    def parts(self, place: int) -> dict[str, float]:
        """The parts of its logit for one part of what was lost."""
        found = {**self.base, "blame": blame_nats(self.near[place])}
        found |= {"breadth": BREADTH * (2 * self.explains - 1), "alone": self.alone[place]}
        return {name: round(value, 3) for name, value in found.items() if value}

    def logit(self, place: int) -> float:
        """Its score for one part of what was lost."""
        return math.fsum(self.parts(place).values())

    @property
    def proven(self) -> bool:
        """Whether one sign alone says that it is broken."""
        return any(each.weight >= PROVEN_SHARE * WEIGHTS.proof for each in self.told)

    @property
    def order(self) -> tuple[object, ...]:
        """Ties by name."""
        return self.entity, self.rule.name


def blame_nats(near: float) -> float:
    """What it tells that a component explains a lost second so well, 0 to 1: blame is that likely if it is the cause.

    Counted over 71 recordings (`evals.weights`) blame that is explained by half is worth 1.0 nats less than one that is
    explained whole, by a tenth 1.9; here 0.65 and 1.95.
    """
    return WEIGHTS.blame * math.log((near + BLAME_ELSEWHERE) / BLAME_ELSEWHERE)


@dataclass(frozen=True, slots=True)
class Scored:
    """Symptoms that are one incident, and the candidates with what speaks for them, in order of their names."""

    symptoms: tuple[SymptomRow, ...]
    parts: tuple[Part, ...]
    candidates: tuple[Candidate, ...]


def score(explained: Explained, context: Context) -> Scored:
    """What speaks for each explanation; those for which nothing does are left out."""
    found = (_candidate(each, explained.parts, context) for each in explained.explanations)
    candidates = sorted((each for each in found if each is not None), key=lambda each: each.order)
    return Scored(explained.symptoms, explained.parts, tuple(candidates))


def _candidate(one: Explanation, parts: Sequence[Part], context: Context) -> Candidate | None:
    rule = one.rule
    told, late = signs_of(one.entity, rule, one.onset, context)
    alone = tuple(_alone(one.entity, rule, part, context) for part in parts) if rule.alone else (0.0,) * len(parts)
    needs = any(sign.needed for sign in rule.signs)
    proven = any(context.book.signs(each.piece.face)[rule.name].needed for each in told)
    if (needs and not proven) or (not told and not any(alone)):
        return None
    base = _base(one, told, context)
    if further := _jobs(one, parts) - 1:
        base["jobs"] = FURTHER_JOB * min(further, FURTHER_MAX)
    return Candidate(one.entity, rule, base, told, one.near, alone, one.share, one.onset.start_ns, late)


def _jobs(one: Explanation, parts: Sequence[Part]) -> int:
    """How many jobs began to suffer of what a component explains at about one time; 1 at least."""
    began: dict[str, int] = {}
    for part, near in zip(parts, one.near, strict=True):
        if near >= ANYONE and part.symptom.job:
            began[part.symptom.job] = min(part.symptom.start_ns, began.get(part.symptom.job, part.symptom.start_ns))
    first_ns = min(began.values(), default=0)
    return max(1, sum(at_ns - first_ns <= AT_ONCE_NS for at_ns in began.values()))


def _base(one: Explanation, told: Sequence[Told], context: Context) -> dict[str, float]:
    """The parts of a logit that are the same of every blame: prior and signs."""
    base = {"prior": one.rule.prior}
    wide = wide_share(one.entity, context, told) if one.rule.wide and told else 1.0
    for place, each in enumerate(told):
        name = f"{each.piece.face.table} {each.piece.face.what} {each.piece.entity}"
        base[name] = base.get(name, 0.0) + each.weight * HALVING**place * (1.0 if wide >= WIDE_MIN else wide)
    if wide < WIDE_MIN:
        base["wide"] = WIDE_MISSES
    if (one.entity, one.rule.name) in context.before:
        base["before"] = BEFORE
    return base


def _alone(entity: str, rule: Rule, part: Part, context: Context) -> float:
    """What one blame by itself tells for a rule, nats."""
    blame, symptom = part.blame, part.symptom
    fits = not rule.categories or blame.category in rule.categories
    if symptom.kind not in rule.symptoms or not fits or not rule.fits_how(blame.how):
        return 0.0
    reach = context.ground.reach(*part.blamed)
    if entity not in named(rule, reach, symptom):
        return 0.0
    # Of several that a job mounts each is as likely.
    one_of = math.log(len(reach.storage)) if rule.where == "storage" else 0.0
    return WEIGHTS.alone * rule.strength * (UNSEEN if rule.fallback and not _seen(entity, context) else 1.0) - one_of


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
