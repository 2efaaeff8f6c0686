"""Links above the leaves: which of them somebody uses is known from traced paths only."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from leadline.analysis.graph.depends import KIND
from leadline.analysis.graph.fold import Drawn, Owners
from leadline.analysis.graph.walk import Around, Paths
from leadline.model.ids import kind_of

TIERS_MAX = 8


@dataclass(frozen=True, slots=True)
class Traced:
    """What paths add: edges between switches, jobs that cross each, tiers of switches, links that nobody told of."""

    drawn: Drawn
    jobs_of_port: dict[int, frozenset[str]]  # by the number of the lower end of the link
    jobs_of_switch: dict[int, frozenset[str]]
    tiers: dict[int, int]
    unknown: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Crossing:
    link: str
    ends: tuple[int, int]
    switches: tuple[int, int]
    jobs: frozenset[str]


def job_entity(name: str) -> str:
    """A job as entity: tables of flows name it without its kind."""
    return name if kind_of(name) == "job" else f"job:{name}"


def traced(
    found: Around, owner: Owners, wanted: Iterable[str], paths: Paths, ends: dict[str, tuple[int, int]]
) -> Traced:
    """Of the links of traced paths those between switches that matter here.

    Inputs: `wanted` jobs, of which one must cross a link; links of a switch that was asked for matter whoever crosses
    them. `ends` the numbers of each link's two ports.
    """
    of_interest = frozenset(wanted)
    tier = _leaves(found, owner)
    switch_of = owner.by_port()
    crossed, unknown = [], []
    for link in sorted(paths):
        jobs = frozenset(map(job_entity, paths[link]))
        here = ends[link]
        if min(here) < 0:
            if jobs & of_interest:
                unknown.append(link)
            continue
        if KIND["port"] in found.kind_M[list(here)]:
            continue  # a host's own link is known from the graph
        switches = (switch_of.get(here[0], here[0]), switch_of.get(here[1], here[1]))
        if jobs & of_interest or found.start[[*here, *switches]].any():
            crossed.append(_Crossing(link, here, switches, jobs))
    _climb(tier, [each.switches for each in crossed])
    return _told(found, crossed, tier, unknown)


def _leaves(found: Around, owner: Owners) -> dict[int, int]:
    net = found.arrows
    hosts = net.link_E & (found.kind_M[net.upper_E] == KIND["port"])
    return dict.fromkeys(np.unique(owner.of(net.lower_E[hosts])).tolist(), 1)


def _climb(tier: dict[int, int], pairs: list[tuple[int, int]]) -> None:
    """Tiers of switches along links: one more than the lowest neighbour's. What hangs on no leaf here is of tier 2."""
    for level in range(1, TIERS_MAX):
        above = {far for a, b in pairs for near, far in ((a, b), (b, a)) if tier.get(near) == level and far not in tier}
        tier.update(dict.fromkeys(above, level + 1))
    for pair in pairs:
        for switch in pair:
            tier.setdefault(switch, 2)


def _told(found: Around, crossed: list[_Crossing], tier: dict[int, int], unknown: list[str]) -> Traced:
    rows = found.rows
    row_of: dict[tuple[int, int], list[int]] = {}
    for place in np.unique(found.arrows.row_E[found.arrows.link_E]).tolist():
        ends = (int(rows.child[place]), int(rows.parent[place]))
        row_of.setdefault((min(ends), max(ends)), []).append(place)
    used_N = np.ones(len(rows), bool)
    used_N[found.arrows.row_E[~found.used_E]] = False
    told: list[tuple[int, int, int, int, int]] = []
    jobs_of_port: dict[int, frozenset[str]] = {}
    jobs_of_switch: dict[int, frozenset[str]] = {}
    for each in crossed:
        own = row_of.get((min(each.ends), max(each.ends)))
        if own is None:
            unknown.append(each.link)
            continue
        (child, low), (parent, high) = sorted(
            zip(each.switches, each.ends, strict=True), key=lambda end: (tier[end[0]], end[1])
        )
        told += [(child, parent, low, high, row) for row in own]
        jobs_of_port[low] = each.jobs
        for switch in (child, parent):
            jobs_of_switch[switch] = jobs_of_switch.get(switch, frozenset()) | each.jobs
    columns = np.array(told, np.int64).reshape(-1, 5)
    drawn = Drawn(columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3], columns[:, 4], used_N[columns[:, 4]])
    return Traced(drawn, jobs_of_port, jobs_of_switch, tier, tuple(sorted(unknown)))
