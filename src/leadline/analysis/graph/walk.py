"""What a thing stands on at a time: edges are gathered around it, contradictions found, used arrows followed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.arrows import STEPS_MAX, Arrows, arrows, jobs_below, reached
from leadline.analysis.graph.claims import Claims, alive, claims, unused
from leadline.analysis.graph.depends import KIND, WAY_OF_RULE, Way
from leadline.analysis.graph.graph import Graph
from leadline.analysis.graph.rows import Rows, among, distinct

Paths = Mapping[str, Iterable[str]]
"""Links that traced paths cross, each with the jobs whose flows do: `{"link:...": ["job:a", ...]}`."""


@dataclass(frozen=True, slots=True)
class Around:
    """Everything that lies around a start, at one time.

    Nodes have numbers of their own here, 0..M-1 in the order of their numbers in the graph; `rows.child`, arrows and
    claims speak of those. Masks are over nodes.
    """

    at_ns: int
    node_M: Ints  # numbers in the graph, ascending
    texts: list[str]  # names
    words: list[str]  # relations, sources, tenants
    kind_M: Ints
    start: Bools
    rows: Rows  # that hold
    rule_N: Ints
    arrows: Arrows
    claims: Claims
    used_E: Bools  # arrows whose claim is followed
    below: Bools  # nodes reached downwards over used arrows, the start among them
    above: Bools  # nodes reached upwards from those: everything that shares something with the start
    over: Bools  # nodes reached upwards from the start itself: what stands on it
    beside: Bools  # hosts on one machine with those below, and what stands on them

    def local(self, number: int) -> int:
        """Number here of a node of the graph; -1 if it is not around."""
        place = int(np.searchsorted(self.node_M, number))
        return place if place < len(self.node_M) and self.node_M[place] == number else -1

    def jobs(self) -> Ints:
        """The jobs around, by number."""
        return np.flatnonzero((self.below | self.above | self.beside) & (self.kind_M == KIND["job"]))


def around(
    graph: Graph, start: Iterable[int], more: Iterable[int], at_ns: int, tenants: Iterable[str] | None
) -> Around:
    """Gather what lies below the start, and what stands on that.

    Inputs: `start` nodes; `more` nodes whose edges are looked at too (ends of traced links), but not followed.
    """
    begin = distinct(np.array(list(start), np.int64))
    reach = _Reach(graph, at_ns, tenant_numbers(graph, tenants), begin)
    below = reach.closure(begin, downwards=True)
    hosts = below[graph.kinds(below) == KIND["host"]]
    beside = reach.machines(hosts)
    reach.closure(distinct(np.concatenate([below, beside])), downwards=False)
    reach.look(distinct(np.array(list(more), np.int64)))
    rows = reach.rows()
    node_M = distinct(np.concatenate([rows.child, rows.parent, begin]).astype(np.int64))
    rule_N = graph.rules(rows)
    rows = rows.renumbered(node_M)
    return _sorted_out(graph, at_ns, node_M, among(node_M, begin), among(node_M, beside), rows, rule_N)


def _sorted_out(
    graph: Graph, at_ns: int, node_M: Ints, start: Bools, beside: Bools, rows: Rows, rule_N: Ints
) -> Around:
    kind_M, texts = graph.kinds(node_M), graph.names.take(node_M)
    net = arrows(rows, rule_N, kind_M, start)
    contested = claims(rows, rule_N)
    used_E = ~unused(rows, contested, graph.words.texts, texts)[net.row_E]
    down, up = used_E & net.down_E, used_E & net.up_E
    below = reached(start, net.upper_E[down], net.lower_E[down])
    above, over, siblings = (reached(begin, net.lower_E[up], net.upper_E[up]) for begin in (below, start, beside))
    return Around(
        at_ns, node_M, texts, graph.words.texts, kind_M, start, rows, rule_N, net, contested, used_E, below, above,
        over, siblings,
    )  # fmt: skip


def labels(found: Around) -> tuple[list[str], dict[int, tuple[str, ...]]]:
    """The jobs around, sorted, and those that stand on each node."""
    jobs = np.array(sorted(found.jobs().tolist(), key=found.texts.__getitem__), np.int64)
    names = [found.texts[number] for number in jobs.tolist()]
    places = jobs_below(jobs, found.arrows, found.used_E, found.kind_M)
    spelled: dict[tuple[int, ...], tuple[str, ...]] = {}
    out = {}
    for node, own in places.items():
        if own not in spelled:
            spelled[own] = tuple(names[place] for place in own)
        out[node] = spelled[own]
    return names, out


class _Reach:
    """Collects edges step by step. Contradicted ones are followed here; whoever asks sorts them out."""

    def __init__(self, graph: Graph, at_ns: int, tenants: Ints | None, start: Ints) -> None:
        self._graph = graph
        self._at_ns = at_ns
        self._tenants = tenants
        self._start = start
        self._index: list[Ints] = [np.zeros(0, np.int64)]

    def rows(self) -> Rows:
        """All edges that were met, each once."""
        return self._holding(distinct(np.concatenate(self._index)))

    def _holding(self, index: Ints) -> Rows:
        """Of some edges, those that hold at the time, told by the tenants asked for."""
        rows = self._graph.take(index)
        keep_N = alive(rows, self._at_ns)
        if self._tenants is not None:
            keep_N &= np.isin(rows.tenant, self._tenants)
        return rows.take(keep_N)

    def look(self, frontier: Ints) -> tuple[Arrows, Rows, Ints, Ints]:
        """The arrows at some nodes, their rows, rules and nodes; numbers in arrows are places among the nodes."""
        index = self._graph.touching(frontier)
        self._index.append(index)
        rows = self._holding(index)
        node_M = distinct(np.concatenate([rows.child, rows.parent]).astype(np.int64))
        rule_N = self._graph.rules(rows)
        rows = rows.renumbered(node_M)
        start = among(node_M, self._start)
        return arrows(rows, rule_N, self._graph.kinds(node_M), start), rows, rule_N, node_M

    def closure(self, begin: Ints, downwards: bool) -> Ints:
        """All nodes that can be reached, ascending."""
        seen = frontier = begin
        for _ in range(STEPS_MAX):
            if not len(frontier):
                break
            net, _, _, node_M = self.look(frontier)
            near, far = (net.upper_E, net.lower_E) if downwards else (net.lower_E, net.upper_E)
            follow = (net.down_E if downwards else net.up_E) & among(node_M, frontier)[near]
            reached_M = np.zeros(len(node_M), bool)
            reached_M[far[follow]] = True
            frontier = node_M[reached_M & ~among(node_M, seen)]
            seen = distinct(np.concatenate([seen, frontier]))
        return seen

    def machines(self, hosts: Ints) -> Ints:
        """Hosts that share a machine with some, themselves left out."""
        seen = frontier = hosts
        for _ in range(STEPS_MAX):
            if not len(frontier):
                break
            _, rows, rule_N, node_M = self.look(frontier)
            own = WAY_OF_RULE[rule_N] == Way.BESIDE
            met = node_M[distinct(np.concatenate([rows.child[own], rows.parent[own]]).astype(np.int64))]
            frontier = met[~among(met, seen)]
            seen = distinct(np.concatenate([seen, frontier]))
        return seen[~among(seen, hosts)]


def tenant_numbers(graph: Graph, tenants: Iterable[str] | None) -> Ints | None:
    """The numbers of some tenants among the graph's words; None for everybody."""
    if tenants is None:
        return None
    wanted = set(tenants)
    return np.array([place for place, word in enumerate(graph.words.texts) if word in wanted], np.int64)
