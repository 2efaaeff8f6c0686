"""What an entity has to do with, over a span: neighbours in the graph, its parts, the jobs that use it, its peers.

A walk over the edges that held at some time of the span, so that a job that ended meanwhile is still told. Upwards
(`UP`): from what is stood on to what stands on it, as `analysis/graph/depends.py` says for each relation.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.depends import KIND, WAY_OF_RULE, Way
from leadline.analysis.graph.graph import Graph
from leadline.analysis.graph.rows import OPEN, Rows, distinct
from leadline.analysis.graph.walk import tenant_numbers
from leadline.model.ids import EntityId, kind_of, link_id
from leadline.views.natural import natural

HOPS_MAX = 6  # port, host, process, rank, job, and one to spare
NODES_MAX = 50_000  # of a walk; a job of 16,384 ranks has some 49,000 below it
RANKS_TOLD = 16
JOBS_MAX = 50
NEAR_MAX = 200  # neighbours told
PEER_KINDS = ("gpu", "host", "port")  # those of a job; others have peers in the whole fleet
_PLURAL = {"gpu": "GPUs", "host": "hosts", "port": "ports"}
SAME_MIN = 3  # ports of one name (rails) that are peers by themselves


@dataclass(frozen=True, slots=True)
class Near:
    """One neighbour by one relation. `above`: it stands on what is asked for."""

    entity: str
    relation: str
    above: bool
    from_ns: int
    to_ns: int | None
    link: str | None


@dataclass(frozen=True, slots=True)
class JobOn:
    """A job that uses something, and the ranks that do."""

    job: str
    ranks: tuple[int, ...]


class Around:
    """The edges of a graph that held at some time of [from_ns, to_ns), told by `tenants` (None: anybody)."""

    def __init__(self, graph: Graph, from_ns: int, to_ns: int, tenants: Sequence[str] | None) -> None:
        self._graph, self._from_ns, self._to_ns = graph, from_ns, to_ns
        self._tenants = tenant_numbers(graph, tenants)

    def _rows(self, node_M: Ints) -> Rows:
        rows = self._graph.take(self._graph.touching(node_M))
        keep_N = (rows.from_ns < self._to_ns) & (rows.to_ns > self._from_ns) & (rows.to_ns > rows.from_ns)
        if self._tenants is not None:
            keep_N &= np.isin(rows.tenant, self._tenants)
        return rows.take(keep_N)

    def _texts(self, node_M: Ints) -> list[str]:
        return self._graph.names.take(node_M)

    def numbers(self, entities: Sequence[str]) -> Ints:
        """Numbers of entities that the graph has, ascending."""
        found = [number for each in entities if (number := self._graph.number(each)) >= 0]
        return distinct(np.array(found, np.int64))

    def parts(self, entity: str) -> list[str]:
        """The ports of a switch, the two ends of a link; of others the entity itself."""
        kind, name = EntityId.of(entity)
        if kind == "link":
            return [self._end(each) for each in EntityId.of(entity).ends]
        if kind != "switch":
            return [entity]
        texts = self._graph.names.whole()
        found = texts.filter(pc.starts_with(texts, f"swport:{name}/"))
        return [entity, *sorted(found.to_pylist())]

    def _end(self, name: str) -> str:
        """A link's end: its name does not tell whether it is the port of a host or of a switch."""
        return f"port:{name}" if self._graph.number(f"port:{name}") >= 0 else f"swport:{name}"

    def near(self, entities: Sequence[str]) -> tuple[list[Near], int]:
        """Neighbours of some entities (one, or the parts of one), what stands on it first; and how many there are."""
        start = self.numbers(entities)
        rows = self._rows(start)
        way_N = WAY_OF_RULE[self._graph.rules(rows)]
        children, parents = (self._texts(ends.astype(np.int64)) for ends in (rows.child, rows.parent))
        of = set(self._texts(start))
        found: dict[tuple[str, str], Near] = {}
        for place, (child, parent) in enumerate(zip(children, parents, strict=True)):
            if child in of and parent in of:
                continue
            other, mine = (parent, child) if child in of else (child, parent)
            relation = self._graph.words.texts[rows.kind[place]]
            above = way_N[place] == (Way.PARENT_ON_CHILD if child in of else Way.CHILD_ON_PARENT)
            link = link_id(mine, other) if way_N[place] == Way.LINK else None
            end_ns = None if rows.to_ns[place] == OPEN else int(rows.to_ns[place])
            one = Near(other, relation, bool(above), int(rows.from_ns[place]), end_ns, link)
            found[other, relation] = _longer(found.get((other, relation)), one)
        ordered = sorted(found.values(), key=lambda each: (not each.above, kind_of(each.entity), natural(each.entity)))
        return ordered[:NEAR_MAX], len(ordered)

    def jobs(self, entities: Sequence[str]) -> list[JobOn]:
        """Jobs whose ranks stand on one of these, those with most ranks on it first."""
        node_M = self.numbers(entities)
        seen = node_M
        for _ in range(HOPS_MAX):
            rows = self._rows(node_M)
            node_M = distinct(self._up(rows, node_M))
            node_M = node_M[~np.isin(node_M, seen)]
            if not len(node_M) or len(seen) > NODES_MAX:
                break
            seen = distinct(np.concatenate([seen, node_M]))
        return _jobs(self._texts(seen[np.isin(self._graph.kinds(seen), (KIND["rank"], KIND["job"]))]))

    def _up(self, rows: Rows, node_M: Ints) -> Ints:
        """What stands directly on some nodes. Over a link only from the switch to the host: the fabric is shared."""
        child, parent = rows.child.astype(np.int64), rows.parent.astype(np.int64)
        way_N = WAY_OF_RULE[self._graph.rules(rows)]
        is_child, is_parent = np.isin(child, node_M), np.isin(parent, node_M)
        port_child, port_parent = self._graph.kinds(child) == KIND["port"], self._graph.kinds(parent) == KIND["port"]
        link: Bools = way_N == Way.LINK
        return np.concatenate([
            child[is_parent & ((way_N == Way.CHILD_ON_PARENT) | (link & port_child))],
            parent[is_child & ((way_N == Way.PARENT_ON_CHILD) | (link & port_parent))],
        ])  # fmt: skip

    def below(self, job: str, kind: str) -> list[str]:
        """The GPUs, hosts or ports that a job uses."""
        ranks = self._ends(self.numbers([f"job:{job}"]), "rank")
        gpus = self._ends(ranks, "gpu")
        if kind == "gpu":
            return self._texts(gpus)
        hosts = self._ends(distinct(np.concatenate([ranks, gpus])), "host")
        return self._texts(hosts if kind == "host" else self._ends(hosts, "port"))

    def _ends(self, node_M: Ints, kind: str) -> Ints:
        """Neighbours of one kind."""
        rows = self._rows(node_M)
        ends = distinct(np.concatenate([rows.child, rows.parent]).astype(np.int64))
        of_kind: Ints = ends[self._graph.kinds(ends) == KIND[kind]]
        return of_kind

    def peers(self, entity: str, jobs: Sequence[JobOn]) -> tuple[list[str], str]:
        """Others of its kind on its job, and words for who they are; none: they are to be taken from the fleet.

        Of ports those with its name (its rail), where there are several.
        """
        kind = kind_of(entity)
        if kind not in PEER_KINDS or not jobs:
            return [], ""
        found = [each for each in self.below(jobs[0].job, kind) if each != entity]
        words = f"the other {_PLURAL[kind]} of {jobs[0].job}"
        if kind == "port":
            rail = EntityId.of(entity).part
            same = [each for each in found if EntityId.of(each).part == rail]
            if len(same) >= SAME_MIN:
                return same, f"{rail} of the other hosts of {jobs[0].job}"
        return (found, words) if len(found) >= SAME_MIN else ([], "")


def _longer(one: Near | None, other: Near) -> Near:
    """What several sources or times say of one neighbour, as one."""
    if one is None:
        return other
    to_ns = None if one.to_ns is None or other.to_ns is None else max(one.to_ns, other.to_ns)
    return Near(one.entity, one.relation, one.above, min(one.from_ns, other.from_ns), to_ns, one.link)


def _jobs(entities: Sequence[str]) -> list[JobOn]:
    ranks: dict[str, list[int]] = {}
    for each in entities:
        one = EntityId.of(each)
        known = ranks.setdefault(one.job, [])
        if one.kind == "rank" and one.part.isdecimal():
            known.append(int(one.part))
    found = [JobOn(job, tuple(sorted(some))) for job, some in ranks.items() if job]
    return sorted(found, key=lambda each: (-len(each.ranks), each.job))
