"""Choose: which candidates are named as causes: one, a set, or none (`unknown`). The fourth stage of `cause`."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from leadline.analysis.cause.context import Context
from leadline.analysis.cause.explain import DIED, Part
from leadline.analysis.cause.feedback import AllFeedback
from leadline.analysis.cause.score import Candidate, Scored, probabilities
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.graph.topology import Topology
from leadline.model.ids import kind_of

# Probability from which on a component is named. Below it the verdict is `unknown`, because a wrong name costs trust
# and a wrong action, and none costs a look at the list of what was considered. Source: judgement.
NAMED_MIN = 0.6
# Share of what was lost that the named components of one rule must explain together to be the first cause, however
# broken they are: below a quarter, most of the loss has another reason. Source: recordings (with sets of causes;
# docs/analyses/lab-evals.md).
FIRST_MIN = 0.25
# Share that a further cause must explain that the first does not, and its probability: stricter than for the first,
# because two faults at once are rarer than blame that errs a bit. Source: recordings (with sets of causes;
# docs/analyses/lab-evals.md).
MORE_MIN, MORE_SURE = 0.15, 0.75
# Share of what the largest component of the first rule explains that a further one of the same rule must explain: less
# may be blame that errs. Source: recordings (with sets of causes; docs/analyses/lab-evals.md).
FELLOW_SHARE = 0.25
# Share of the loss below which that is told as the reason why a candidate was rejected, since FIRST_MIN is near.
# Source: judgement.
LITTLE = 0.3
# nats by which two that are proven to be broken may differ and both be why: signs of one fault differ by a port more or
# less that was told in time. Source: judgement.
ALIKE_NATS = 1.5
ECHO = "the same of the same component"
CAUSES_MAX = 8  # causes named of one incident: more do not help a reader. Source: bound.
CONSIDERED_MAX = 5  # rejected candidates that are listed, so that a row stays readable. Source: bound.


@dataclass(frozen=True, slots=True)
class Cause:
    """A candidate with its probability, and whether it is named; `why_not` where it is not."""

    candidate: Candidate
    place: int  # the part of what was lost that its score is told of
    probability: float
    chosen: bool
    why_not: str = ""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What was concluded of one trouble: causes in order, those that are named first."""

    causes: tuple[Cause, ...]
    unknown: float  # probability

    @property
    def chosen(self) -> tuple[Cause, ...]:
        """The causes that are named."""
        return tuple(each for each in self.causes if each.chosen)


@dataclass(frozen=True, slots=True)
class Trouble:
    """Symptoms that are one incident, with its verdict."""

    symptoms: tuple[SymptomRow, ...]
    verdict: Verdict
    of_tenant: Mapping[str, Verdict]  # what each tenant is told: without the rules that its own people found wrong

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


@dataclass(slots=True)
class _Tally:
    """What the parts of a trouble say of one candidate."""

    candidate: Candidate
    won: float = 0.0  # share of what was lost, of which it is the likeliest cause and likely enough
    sure: float = 0.0  # the same, times its probability
    mass: float = 0.0  # share of what was lost times its probability, of all parts
    best: tuple[float, int] = (-math.inf, 0)  # logit and minus place of the part that speaks most for it
    why_not: str = ""


def choose(scored: Scored, context: Context, feedback: AllFeedback) -> Trouble:
    """The verdict of symptoms that are one incident: for all tenants that suffer, and for each of them.

    Rules that people often found wrong name nothing: for all, where all say so, and for a tenant, where it says so.
    """
    topology = context.ground.topology
    tenants = sorted({each.tenant for each in scored.symptoms})
    whole = feedback.silent_for_all(tenants)
    verdicts = {whole: verdict_of(scored, topology, whole)}
    for silent in (feedback.to(tenant).silent for tenant in tenants):
        if silent not in verdicts:
            verdicts[silent] = verdict_of(scored, topology, silent)
    of_tenant = {tenant: verdicts[feedback.to(tenant).silent] for tenant in tenants}
    return Trouble(scored.symptoms, verdicts[whole], of_tenant)


def verdict_of(scored: Scored, topology: Topology, silent: frozenset[str]) -> Verdict:
    """The causes of one incident. `silent`: rules that may not name anything."""
    tallies = {id(each): _Tally(each) for each in scored.candidates}
    unknown = 0.0
    for place, part in enumerate(scored.parts):
        unknown += _judged(place, part, tallies, topology, silent)
    ranked = sorted(tallies.values(), key=lambda each: (-each.won, -each.mass, -each.best[0], each.candidate.order))
    named = _set(ranked)
    chosen = [Cause(each.candidate, -each.best[1], each.sure / each.won, True) for each in named]
    considered = [
        Cause(each.candidate, -each.best[1], min(1.0, each.mass), False, _why_not(each, named, silent))
        for each in sorted(ranked, key=lambda each: (-each.mass, -each.best[0], each.candidate.order))
        if each not in named and each.why_not != ECHO
    ]
    return Verdict((*chosen, *considered[:CONSIDERED_MAX]), min(1.0, unknown))


def _judged(place: int, part: Part, tallies: dict[int, _Tally], topology: Topology, silent: frozenset[str]) -> float:
    """One part of what was lost: its rivals, who wins. Returns: the share of it that stays unknown."""
    rivals, losers = _rivals([each.candidate for each in tallies.values()], part, place, topology)
    chances, unknown = probabilities(rivals, place)
    for each, chance in zip(rivals, chances, strict=True):
        tally = tallies[id(each)]
        tally.mass += part.weight * chance
        tally.best = max(tally.best, (each.logit(place), -place))
    for each, why in losers:
        tally = tallies[id(each)]
        tally.best = max(tally.best, (each.logit(place), -place))
        tally.why_not = tally.why_not or why
    speaking = [(chance, each) for each, chance in zip(rivals, chances, strict=True) if each.rule.name not in silent]
    _, best = max(speaking, key=lambda one: one[0], default=(0.0, None))
    winners = [each for each in speaking if best is not None and (each[1] is best or _both(each[1], best, place))]
    chance = min(1.0, math.fsum(each for each, _ in winners))
    if chance >= NAMED_MIN:
        for _, each in winners:
            tallies[id(each)].won += part.weight
            tallies[id(each)].sure += part.weight * chance
    return part.weight * unknown


def _both(one: Candidate, best: Candidate, place: int) -> bool:
    """Whether two are broken alike, each by its own proof: then they are no rivals (two spines that died at once)."""
    alike = one.rule is best.rule and one.proven and best.proven
    return alike and best.logit(place) - one.logit(place) <= ALIKE_NATS


def _set(ranked: Sequence[_Tally]) -> list[_Tally]:
    """Those that are named: all of the first rule that explain something, and further ones that explain much more."""
    winners = [each for each in ranked if each.won > 0]
    by_rule: dict[str, float] = {}
    for each in winners:
        by_rule[each.candidate.rule.name] = by_rule.get(each.candidate.rule.name, 0.0) + each.won
    if not winners:
        return []
    first = min(by_rule, key=lambda name: (-by_rule[name], name))
    if by_rule[first] < FIRST_MIN:
        return []
    largest = max(each.won for each in winners if each.candidate.rule.name == first)
    return [
        each
        for each in winners
        if (each.candidate.rule.name == first and each.won >= FELLOW_SHARE * largest)
        or (each.won >= MORE_MIN and each.sure / each.won >= MORE_SURE)
    ][:CAUSES_MAX]


def rivals_of(scored: Scored, place: int, topology: Topology) -> list[Candidate]:
    """The candidates between which the cause of one part of what was lost is chosen."""
    return _rivals(scored.candidates, scored.parts[place], place, topology)[0]


def _rivals(
    candidates: Sequence[Candidate], part: Part, place: int, topology: Topology
) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """The best candidate of each component; those that lost against another of the same one, with the reason.

    Ends of a link and the link are one component, and a switch with what it is linked by. A fallback (it says where,
    not why) gives way to a better one of which the same lost seconds come; of several deaths at once, wherever it is.
    """
    found = [each for each in candidates if each.near[place] > 0]
    best: list[Candidate] = []
    losers: list[tuple[Candidate, str]] = []
    seen: dict[str, Candidate] = {}
    for each in sorted(found, key=lambda each: (-each.logit(place), each.order)):
        own = family(each.entity, topology)
        before = next((seen[part] for part in sorted(own) if part in seen), None)
        if before is None:
            best.append(each)
            seen.update(dict.fromkeys(own, each))
        else:
            better = f"{before.rule.name} of {before.entity} fits better"
            losers.append((each, ECHO if before.rule is each.rule else better))
    lost = [each for each in best if each.rule.fallback and _has_better(each, best, part, place, topology)]
    losers += [(each, "something it depends on explains it") for each in lost]
    return [each for each in best if each not in lost], losers


def family(entity: str, topology: Topology) -> frozenset[str]:
    """What a person would take for the same component: a link and its two ends, a switch and its links."""
    if kind_of(entity) == "switch":
        ports = topology.ports_of(entity)
        return frozenset({entity}).union(*(family(port, topology) for port in ports))
    if kind_of(entity) == "link":
        return frozenset({entity, *topology.ends(entity)})
    if kind_of(entity) in ("port", "swport"):
        link = topology.link(entity)
        return frozenset({entity, *({link, *topology.ends(link)} if link else ())})
    return frozenset({entity})


def _has_better(fallback: Candidate, best: Sequence[Candidate], part: Part, place: int, topology: Topology) -> bool:
    host = topology.host_of(fallback.entity)
    below = {*topology.on(fallback.entity), host, fallback.entity}
    beside = topology.hosts_beside(host) if host else frozenset()
    return any(
        each.logit(place) >= fallback.logit(place)
        and not each.rule.fallback
        and (
            each.entity in below
            or (each.rule.where == "machine" and each.entity in beside)
            or (part.blame.category == DIED and each.near[place] == 1.0)
        )
        for each in best
    )


def _why_not(tally: _Tally, named: Sequence[_Tally], silent: frozenset[str]) -> str:
    candidate = tally.candidate
    if tally.why_not and tally.mass == 0:
        return tally.why_not
    if candidate.rule.name in silent:
        return "this rule was marked wrong too often and is switched off"
    if not named:
        return "the evidence is too weak"
    if candidate.explains < LITTLE:
        return f"it explains {candidate.explains:.0%} of what was lost"
    if not candidate.told:
        return "only the blame points to it"
    if candidate.late:
        return "some of its evidence began only afterwards"
    return f"{named[0].candidate.entity} explains the same with more evidence"
