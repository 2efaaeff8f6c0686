"""Which candidates are named as causes: one, a set, or none (`unknown`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from leadline.analysis.cause.hurts import Blame, Hurt
from leadline.analysis.cause.places import Places, kind_of
from leadline.analysis.cause.reach import explained
from leadline.analysis.cause.score import Candidate, Matter, candidates_of, probabilities

NAMED_MIN = 0.6
"""Probability from which on a component is named. Below it the verdict is `unknown`: a wrong name costs trust and a
wrong action, none costs a look at the list of what was considered."""
EXPLAINS_MIN = 0.25
"""Share of what was lost that a component must explain to be named first, however broken it is."""
REST_MIN = 0.25
"""Share of what was lost that the causes named do not explain, from which on another one is looked for."""
SECOND_MIN = 0.75
"""Probability from which on a further cause is named: two faults at once are rarer than blame that errs a bit."""
CAUSES_MAX = 4
CONSIDERED_MAX = 5


@dataclass(frozen=True, slots=True)
class Cause:
    """A candidate with its probability, and whether it is named; `why_not` where it is not."""

    candidate: Candidate
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


def verdict_of(hurts: Sequence[Hurt], matter: Matter, silent: frozenset[str]) -> Verdict:
    """The causes of one trouble. `silent`: rules that may not name anything, because people often found them wrong."""
    blames: dict[int, Sequence[Blame]] = {place: _blamed(hurt) for place, hurt in enumerate(hurts)}
    first, losers = _rivals(candidates_of(hurts, matter, blames), matter.ground.places)
    chances, unknown = probabilities(first)
    named: list[Cause] = []
    rest, pool = blames, list(zip(first, chances, strict=True))
    while pool and len(named) < CAUSES_MAX:
        best, chance = _best(pool, silent)
        if best is None or chance < (SECOND_MIN if named else NAMED_MIN):
            break
        named.append(Cause(best, chance, True))
        rest = _left(rest, hurts, best, matter)
        if sum(blame.share for own in rest.values() for blame in own) < REST_MIN * len(hurts):
            break
        again, _ = _rivals(candidates_of(hurts, matter, _whole(rest)), matter.ground.places)
        taken = {part for each in named for part in family(each.candidate.entity, matter.ground.places)}
        others = [each for each in again if not taken & family(each.entity, matter.ground.places)]
        pool = list(zip(others, probabilities(others)[0], strict=True))
    considered = _considered(first, chances, losers, named, silent)
    return Verdict((*named, *considered), unknown)


def _blamed(hurt: Hurt) -> Sequence[Blame]:
    """Whom a symptom blames; nobody in particular, if it names nobody."""
    rest = 1.0 - sum(blame.share for blame in hurt.blamed)
    nobody = (Blame(hurt.entity, "", "", rest),) if rest > 1e-6 else ()
    return (*hurt.blamed, *nobody)


def _rivals(found: Sequence[Candidate], places: Places) -> tuple[list[Candidate], list[tuple[Candidate, str]]]:
    """The best candidate of each component; those that lost against another of the same one, with the reason.

    Ends of a link and the link are one component. A fallback (it says where, not why) gives way to a better one of
    which the same lost seconds come.
    """
    best: list[Candidate] = []
    losers: list[tuple[Candidate, str]] = []
    seen: dict[str, Candidate] = {}
    for each in found:
        own = family(each.entity, places)
        before = next((seen[part] for part in sorted(own) if part in seen), None)
        if before is None:
            best.append(each)
            seen.update(dict.fromkeys(own, each))
        elif before.rule.name != each.rule.name:
            losers.append((each, f"{before.rule.name} of {before.entity} fits better"))
    kept = [each for each in best if not (each.rule.fallback and _has_better(each, best, places))]
    losers += [(each, "what it stands on shows why") for each in best if each not in kept]
    return kept, losers


def family(entity: str, places: Places) -> frozenset[str]:
    """What a person would take for the same component: a link and its two ends."""
    if kind_of(entity) == "link":
        return frozenset({entity, *places.ends(entity)})
    if kind_of(entity) in ("port", "swport"):
        link = places.link(entity)
        return frozenset({entity, *({link, *places.ends(link)} if link else ())})
    return frozenset({entity})


def _has_better(fallback: Candidate, best: Sequence[Candidate], places: Places) -> bool:
    below = {*places.on(fallback.entity), places.host(fallback.entity), fallback.entity}
    return any(each.logit >= fallback.logit and not each.rule.fallback and each.entity in below for each in best)


def _best(pool: Sequence[tuple[Candidate, float]], silent: frozenset[str]) -> tuple[Candidate | None, float]:
    """The likeliest that may be named."""
    speaking = [
        (each, chance) for each, chance in pool if each.rule.name not in silent and each.explains >= EXPLAINS_MIN
    ]
    return speaking[0] if speaking else (None, 0.0)


def _left(
    blames: Mapping[int, Sequence[Blame]], hurts: Sequence[Hurt], cause: Candidate, matter: Matter
) -> dict[int, Sequence[Blame]]:
    """What a cause leaves unexplained of each blame."""
    out: dict[int, Sequence[Blame]] = {}
    for place, own in blames.items():
        shares = [blame.share * (1.0 - _explains(blame, hurts[place], cause, matter)) for blame in own]
        out[place] = [replace(blame, share=share) for blame, share in zip(own, shares, strict=True) if share > 1e-6]
    return out


def _explains(blame: Blame, hurt: Hurt, cause: Candidate, matter: Matter) -> float:
    """A cause of a job's trouble explains blame that names nobody in particular, or that it is near, whole."""
    found = explained(blame, hurt, cause.entity, cause.rule, matter.ground)
    reach = matter.ground.reach(blame.owner, hurt.job)
    return 1.0 if found > 0 and (reach.anyone or found >= 0.5) else found


def _whole(blames: Mapping[int, Sequence[Blame]]) -> dict[int, Sequence[Blame]]:
    """Shares that add up to 1 again."""
    out: dict[int, Sequence[Blame]] = {}
    for place, own in blames.items():
        whole = sum(blame.share for blame in own)
        out[place] = [replace(blame, share=blame.share / whole) for blame in own] if whole > 0 else []
    return out


def _considered(
    found: Sequence[Candidate],
    chances: Sequence[float],
    losers: Sequence[tuple[Candidate, str]],
    named: Sequence[Cause],
    silent: frozenset[str],
) -> list[Cause]:
    """What was weighed and is not named, the likeliest first, with the reason."""
    taken = {(each.candidate.entity, each.candidate.rule.name) for each in named}
    out = [
        Cause(each, chance, False, _why_not(each, named, silent))
        for each, chance in zip(found, chances, strict=True)
        if (each.entity, each.rule.name) not in taken
    ]
    out += [Cause(each, 0.0, False, why) for each, why in losers if (each.entity, each.rule.name) not in taken]
    out.sort(key=lambda each: (-each.probability, each.candidate.order))
    return out[:CONSIDERED_MAX]


def _why_not(candidate: Candidate, named: Sequence[Cause], silent: frozenset[str]) -> str:
    if candidate.rule.name in silent:
        return "people found this rule wrong too often, so it names nothing"
    if not named:
        return "the evidence is too thin to name it"
    if candidate.explains < 0.3:
        return f"it explains {candidate.explains:.0%} of what was lost"
    if not candidate.told:
        return "nothing but the blame speaks for it"
    if candidate.late:
        return "part of what would speak for it began only afterwards"
    return f"{named[0].candidate.entity} explains the same, and more speaks for it"
