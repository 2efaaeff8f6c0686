"""Symptoms of one cause as one incident.

symptoms ─ plainly of one incident (`symptoms.groups_of`) ─ one cause (`together`) ─ the id they had (`Known`) ─> rows
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from leadline.analysis.cause.choose import Trouble, family
from leadline.analysis.cause.symptoms import SymptomRow
from leadline.analysis.graph.topology import Topology
from leadline.model.units import S

# Symptoms of one cause with a shorter break between them are one incident, because a link that flaps every minute is
# one fault to whoever repairs it. Source: judgement.
GAP_NS = 60 * S


def together(
    groups: Sequence[tuple[SymptomRow, ...]],
    judged: Callable[[Sequence[SymptomRow]], Trouble],
    topology: Topology,
    now_ns: int,
) -> list[Trouble]:
    """Incidents: groups of symptoms, put together where one component was named first for several, and judged again.

    Loops over the incidents of a window: few.
    """
    troubles = [judged(group) for group in groups]
    while (pair := _alike(troubles, topology, now_ns)) is not None:
        first, second = (troubles[place] for place in pair)
        troubles = [each for place, each in enumerate(troubles) if place not in pair]
        both = (*first.symptoms, *second.symptoms)
        troubles.append(judged(sorted(both, key=lambda each: (each.start_ns, *each.key[:3]))))
    return sorted(troubles, key=lambda each: (each.start_ns, each.first.key))


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
