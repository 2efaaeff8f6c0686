"""Symptoms of one cause as one incident.

symptoms ─ plainly of one incident (`symptoms.groups_of`) ─ one cause (`together`) ─ the id they had (`Known`) ─> rows
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from itertools import combinations

from leadline.analysis.cause.choose import Trouble, family
from leadline.analysis.cause.score import AT_ONCE_NS
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.graph.topology import Topology
from leadline.model.units import S

# Symptoms of one cause with a shorter break between them are one incident, because a link that flaps every minute is
# one fault to whoever repairs it. Source: judgement.
GAP_NS = 60 * S
# Share of the probability of the likeliest from which on another leads beside it. Source: judgement.
LEADS_SHARE = 0.8


def together(
    groups: Sequence[tuple[SymptomRow, ...]],
    judged: Callable[[Sequence[SymptomRow]], Trouble],
    topology: Topology,
    now_ns: int,
) -> list[Trouble]:
    """Incidents: groups of symptoms, put together where one component was named first for several, and judged again.

    Where jobs began to suffer at about one time, and the same component is likeliest of each though too little speaks
    for it to be named, it is named of both together or of neither. Loops over the incidents of a window: few.
    """
    troubles = [judged(group) for group in groups]
    while (pair := _alike(troubles, topology, now_ns)) is not None:
        troubles = _joined(troubles, pair, _both(troubles, pair, judged))
    apart: set[frozenset[object]] = set()
    while (pair := _at_once(troubles, topology, apart)) is not None:
        both = _both(troubles, pair, judged)
        if both.verdict.chosen and _leads(both, topology) & _leads(troubles[pair[0]], topology):
            troubles = _joined(troubles, pair, both)
        else:
            apart.add(_names(troubles, pair))
    return sorted(troubles, key=lambda each: (each.start_ns, each.first.key))


def _both(
    troubles: Sequence[Trouble], pair: tuple[int, int], judged: Callable[[Sequence[SymptomRow]], Trouble]
) -> Trouble:
    symptoms = [each for place in pair for each in troubles[place].symptoms]
    return judged(sorted(symptoms, key=lambda each: (each.start_ns, *each.key[:3])))


def _joined(troubles: Sequence[Trouble], pair: tuple[int, int], both: Trouble) -> list[Trouble]:
    return [*(each for place, each in enumerate(troubles) if place not in pair), both]


def _names(troubles: Sequence[Trouble], pair: tuple[int, int]) -> frozenset[object]:
    return frozenset(troubles[place].first.key for place in pair)


def _at_once(
    troubles: Sequence[Trouble], topology: Topology, apart: Collection[frozenset[object]]
) -> tuple[int, int] | None:
    """Places of two incidents that began at about one time with the same likeliest component. Those of which it is
    named are together by then."""
    for pair in combinations(range(len(troubles)), 2):
        one, other = (troubles[place] for place in pair)
        at_once = abs(one.start_ns - other.start_ns) <= AT_ONCE_NS and not _jobs(one) & _jobs(other)
        if at_once and _leads(one, topology) & _leads(other, topology) and _names(troubles, pair) not in apart:
            return pair
    return None


def _jobs(trouble: Trouble) -> set[str]:
    return {each.job for each in trouble.symptoms}


def _leads(trouble: Trouble, topology: Topology) -> set[tuple[str, str]]:
    """The likeliest component, by all that a person would take for it, with its rule; named or not. Others that are as
    likely, too: of two storages that a job mounts nobody knows which."""
    causes = trouble.verdict.causes
    first = [each.candidate for each in causes if each.probability >= LEADS_SHARE * causes[0].probability]
    return {(part, each.rule.name) for each in first for part in family(each.entity, topology)}


def _alike(troubles: Sequence[Trouble], topology: Topology, now_ns: int) -> tuple[int, int] | None:
    """Places of two incidents of which one component was named first, one while the other lasts or soon after."""
    for place, one in enumerate(troubles):
        for other_place in range(place + 1, len(troubles)):
            other = troubles[other_place]
            near = one.start_ns < _until(other, now_ns) + GAP_NS and other.start_ns < _until(one, now_ns) + GAP_NS
            if near and _same_cause(one, other, topology):
                return place, other_place
    return None


def _same_cause(one: Trouble, other: Trouble, topology: Topology) -> bool:
    named = [each.candidate for each in one.verdict.chosen]
    others = [each.candidate for each in other.verdict.chosen]
    return any(
        family(each.entity, topology) & family(again.entity, topology) and each.rule.name == again.rule.name
        for each in named[:1]
        for again in others[:1]
    )


def _until(trouble: Trouble, now_ns: int) -> int:
    return now_ns if trouble.end_ns is None else trouble.end_ns
