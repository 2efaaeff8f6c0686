"""What a thing stands on at a time: edges are gathered around it, contradictions found, used arrows followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.arrows import STEPS_MAX, Arrows, arrows, jobs_below, mask, reached
from leadline.analysis.graph.claims import Claims, alive, claims, unused
from leadline.analysis.graph.depends import KIND, WAY_OF_RULE, Way
from leadline.analysis.graph.rows import Rows

if TYPE_CHECKING:
    from leadline.analysis.graph.graph import Graph

Paths = Mapping[str, Iterable[str]]
"""Links that traced paths cross, each with the jobs whose flows do: `{"link:...": ["job:a", ...]}`."""


@dataclass(frozen=True, slots=True)
class Around:
    """Everything that lies around a start, at one time. Masks are over all nodes of the graph."""

    graph: Graph
    at_ns: int
    start: Bools
    rows: Rows  # that hold
    rule_N: Ints
    kind_N: Ints  # of all nodes
    arrows: Arrows
    claims: Claims
    used_E: Bools  # arrows whose claim is followed
    below: Bools  # nodes reached downwards over used arrows, the start among them
    above: Bools  # nodes reached upwards from those: everything that shares something with the start
    over: Bools  # nodes reached upwards from the start itself: what stands on it
    beside: Bools  # hosts on one machine with those below, and what stands on them

    def jobs(self) -> Ints:
        """The jobs around, by number."""
        return np.flatnonzero((self.below | self.above | self.beside) & (self.kind_N == KIND["job"]))


def around(
    graph: Graph, start: Iterable[int], more: Iterable[int], at_ns: int, tenants: Iterable[str] | None
) -> Around:
    """Gather what lies below the start, and what stands on that.

    Inputs: `start` nodes; `more` nodes whose edges are looked at too (ends of traced links), but not followed.
    """
    count = len(graph.names)
    kind_N = graph.names.kind_N.astype(np.int64)
    start_mask = mask(start, count)
    reach = _Reach(graph, at_ns, _tenant_numbers(graph, tenants), kind_N, start_mask)
    below = reach.closure(np.flatnonzero(start_mask), downwards=True)
    beside = reach.machines(np.flatnonzero(below & (kind_N == KIND["host"])))
    reach.closure(np.flatnonzero(below | beside), downwards=False)
    reach.look(np.array(sorted(set(more)), np.int64))
    index = np.unique(np.concatenate(reach.index))
    rows = reach.holding(index)
    rule_N = graph.rules(rows)
    net = arrows(rows, rule_N, kind_N, start_mask)
    contested = claims(rows, rule_N)
    texts = texts_of(graph, contested.other_K)
    unused_N = unused(rows, contested, graph.words.texts, texts)
    used_E = ~unused_N[net.row_E]
    down, up = used_E & net.down_E, used_E & net.up_E
    below = reached(start_mask, net.upper_E[down], net.lower_E[down])
    above = reached(below, net.lower_E[up], net.upper_E[up])
    over = reached(start_mask, net.lower_E[up], net.upper_E[up])
    beside = reached(beside, net.lower_E[up], net.upper_E[up])
    return Around(
        graph, at_ns, start_mask, rows, rule_N, kind_N, net, contested, used_E, below, above, over, beside,
    )  # fmt: skip


def labels(found: Around) -> tuple[list[str], dict[int, tuple[str, ...]]]:
    """The jobs around, sorted, and those that stand on each node."""
    jobs = found.jobs()
    names = found.graph.names.take(jobs)
    order = sorted(range(len(names)), key=names.__getitem__)
    jobs, names = jobs[order], [names[place] for place in order]
    places = jobs_below(jobs, found.arrows, found.used_E, found.kind_N)
    spelled: dict[tuple[int, ...], tuple[str, ...]] = {}
    out = {}
    for node, own in places.items():
        if own not in spelled:
            spelled[own] = tuple(names[place] for place in own)
        out[node] = spelled[own]
    return names, out


class _Reach:
    """Collects the indices of edges step by step. Contradicted edges are followed here; whoever asks sorts them out."""

    def __init__(self, graph: Graph, at_ns: int, tenants: Ints | None, kind_N: Ints, start: Bools) -> None:
        self._graph = graph
        self._at_ns = at_ns
        self._tenants = tenants
        self._kind_N = kind_N
        self._start = start
        self.index: list[Ints] = [np.zeros(0, np.int64)]

    def holding(self, index: Ints) -> Rows:
        """Of some edges, those that hold at the time, told by the tenants asked for."""
        rows = self._graph.take(index)
        keep_N = alive(rows, self._at_ns)
        if self._tenants is not None:
            keep_N &= np.isin(rows.tenant, self._tenants)
        return rows.take(keep_N)

    def look(self, frontier: Ints) -> Arrows:
        """The arrows at some nodes."""
        index = self._graph.touching(frontier)
        self.index.append(index)
        rows = self.holding(index)
        return arrows(rows, self._graph.rules(rows), self._kind_N, self._start)

    def closure(self, begin: Ints, downwards: bool) -> Bools:
        """All nodes that can be reached; (nodes,)."""
        seen = mask(begin.tolist(), len(self._kind_N))
        frontier = begin
        for _ in range(STEPS_MAX):
            if not len(frontier):
                break
            net = self.look(frontier)
            near, far = (net.upper_E, net.lower_E) if downwards else (net.lower_E, net.upper_E)
            follow = net.down_E if downwards else net.up_E
            ours = mask(frontier.tolist(), len(self._kind_N))
            frontier = np.unique(far[follow & ours[near]])
            frontier = frontier[~seen[frontier]]
            seen[frontier] = True
        return seen

    def machines(self, hosts: Ints) -> Bools:
        """Hosts that share a machine with some, themselves left out; (nodes,)."""
        seen = mask(hosts.tolist(), len(self._kind_N))
        frontier = hosts
        for _ in range(STEPS_MAX):
            if not len(frontier):
                break
            index = self._graph.touching(frontier)
            rows = self.holding(index)
            own = WAY_OF_RULE[self._graph.rules(rows)] == Way.BESIDE
            if not own.any():
                break
            self.index.append(index)
            frontier = np.unique(np.concatenate([rows.child[own], rows.parent[own]])).astype(np.int64)
            frontier = frontier[~seen[frontier]]
            seen[frontier] = True
        seen[hosts] = False
        return seen


def _tenant_numbers(graph: Graph, tenants: Iterable[str] | None) -> Ints | None:
    if tenants is None:
        return None
    wanted = set(tenants)
    return np.array([place for place, word in enumerate(graph.words.texts) if word in wanted], np.int64)


def texts_of(graph: Graph, node_N: Ints) -> dict[int, str]:
    """Names of nodes, by number."""
    node_N = np.unique(node_N)
    return dict(zip(node_N.tolist(), graph.names.take(node_N), strict=True))
