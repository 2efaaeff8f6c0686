"""Who is held to what: entities by number, what they are part of, who their peers are, and since when they are there.

An entity is known by tenant and id, so that two tenants' jobs of one name stay two.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, codes, ints
from leadline.analysis.graph.topology import HELD, Topology, topology_of
from leadline.model.ids import EntityId, kind_of

# Kinds whose names begin with that of what they are part of: `port:h3/eth0` is of `host:h3`.
_PREFIX = {
    "port": "host",
    "process": "host",
    "xcvr": "host",
    "swport": "switch",
    "rank": "job",
    "comm": "job",
    "nvlink": "gpu",
}
_OF_JOBS = ("rank", "job", "comm")  # entities that are their tenant's alone
# Parts that are found over others: a GPU's job is that of the ranks that run on it.
_OVER = {
    ("port", "job"): "host",
    ("nvlink", "job"): "gpu",
    ("nvlink", "host"): "gpu",
    ("process", "job"): "rank",
    ("gpu", "job"): "rank",
    ("host", "job"): "rank",
}


@dataclass(slots=True)
class Entities:
    """Entities by number, in the order in which they were named."""

    tenants: list[str] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    _number: dict[tuple[str, str], int] = field(default_factory=dict)

    def number(self, tenant: str, name: str) -> int:
        """The number of an entity; a new one, if it was not named before."""
        key = (tenant, name)
        found = self._number.get(key)
        if found is None:
            found = self._number[key] = len(self.names)
            self.tenants.append(tenant)
            self.names.append(name)
        return found

    def numbers(self, table: pa.Table, column: str, prefix: str = "") -> Ints:
        """The entities of a column; -1 where it is null or empty. `prefix` stands before its texts."""
        tenant, name = codes(table, "tenant"), codes(table, column)
        width = len(name.names) + 1
        pair_N = (tenant.code_N + 1) * width + name.code_N + 1
        pair_U, back_N = np.unique(pair_N, return_inverse=True)
        found_U = np.full(len(pair_U), -1, np.int64)
        for place, pair in enumerate(pair_U.tolist()):
            owner, text = pair // width - 1, pair % width - 1
            if text >= 0 and name.names[text]:
                found_U[place] = self.number(tenant.names[owner] if owner >= 0 else "", prefix + name.names[text])
        return found_U[back_N.reshape(-1)] if len(pair_U) else np.zeros(0, np.int64)

    def kind(self, number: int) -> str:
        """Kind of an entity."""
        return kind_of(self.names[number])


@dataclass(slots=True)
class Scope:
    """Entities and what they are part of."""

    entities: Entities
    topology: Topology
    provider: str  # tenant of what all share
    _found: dict[tuple[int, str], tuple[int, ...]] = field(default_factory=dict)

    def owners(self, number: int, kind: str) -> tuple[int, ...]:
        """The entities of a kind that an entity is, or is part of, in order of their names."""
        key = (number, kind)
        if key not in self._found:
            tenant, name = self.entities.tenants[number], self.entities.names[number]
            found = sorted(self._owners(tenant, name, kind))
            self._found[key] = tuple(self.entities.number(*each) for each in found)
        return self._found[key]

    def _owners(self, tenant: str, name: str, kind: str) -> set[tuple[str, str]]:
        one = EntityId.of(name)
        own = one.kind
        if own == kind:
            return {(tenant, name)}
        if told := self._told(tenant, name, kind):
            return told
        if _PREFIX.get(own) == kind and one.holder:
            return {(tenant, f"{kind}:{one.holder}")}
        over = _OVER.get((own, kind))
        if over is None:
            return set()
        return {each for middle in self._owners(tenant, name, over) for each in self._owners(*middle, kind)}

    def _told(self, tenant: str, name: str, kind: str) -> set[tuple[str, str]]:
        """What the relations say. A tenant's jobs are what that tenant says, whatever others say of the same names;
        and who says what runs on its own hardware is believed before others. The provider's is everybody's."""
        told = {
            (whose, other)
            for whose, how, other, is_parent in self.topology.said(name)
            if kind_of(other) == kind and (is_parent or how == "runs-on") and how != "linked"
        }
        own = {each for each in told if each[0] == tenant}
        if kind_of(name) in _OF_JOBS or (own and tenant != self.provider):
            return own
        return told

    def group(self, number: int, group: str) -> str:
        """The name of an entity's peer group; empty if it has none. Tenants are not told apart: hardware is shared."""
        kind = self.entities.kind(number)
        if group == "kind":
            return kind
        if group == "role":
            return f"{kind} {self._role(number)}"
        owners = self.owners(number, group)
        return " ".join([kind, *self._texts(owners[:1])]) if owners else ""

    def _texts(self, numbers: Iterable[int]) -> list[str]:
        return [f"{self.entities.tenants[each]} {self.entities.names[each]}" for each in numbers]

    def _role(self, number: int) -> str:
        """What ports do alike: those of switches of one tier to the same kind of neighbour; NICs of one name."""
        name = self.entities.names[number]
        one = EntityId.of(name)
        if one.kind == "swport":
            return f"{re.sub(r'[0-9]+', '#', one.holder)} {kind_of(self.topology.far(name))}"
        return one.part


def scope_of(entities: Entities, relation: pa.Table, from_ns: int, provider: str) -> Scope:
    """What entities were part of at some time since `from_ns`, by the relations."""
    return Scope(entities, topology_of(relation, (*HELD, "linked"), since_ns=from_ns), provider)


@dataclass(frozen=True, slots=True)
class Life:
    """From when until when a job or rank was there, as far as it is known, ns."""

    born_ns: int
    died_ns: int


def lives(scope: Scope, relation: pa.Table, event: pa.Table, seen: dict[int, tuple[int, int]]) -> dict[int, Life]:
    """The lives of ranks and jobs: since they were told or first seen; until all their processes had exited.

    `seen`: of each rank the first and the last begin of a step or collective. One that began something after its exit
    was started again. A job is there while one of its ranks is; without any news it is taken to be.
    """
    born: dict[int, int] = {rank: first for rank, (first, _) in seen.items()}
    died: dict[int, int] = {}
    kind, child_N = codes(relation, "kind"), scope.entities.numbers(relation, "child")
    from_N, to_N = ints(relation, "from_ns"), ints(relation, "to_ns", 2**62)
    rank_N = np.array([kind_of(name) == "rank" for name in scope.entities.names] + [False])[child_N]
    for place in np.flatnonzero(rank_N & (kind.code_N == kind.places().get("in", -2))).tolist():
        rank, since, until = int(child_N[place]), int(from_N[place]), int(to_N[place])
        born[rank] = min(since, born.get(rank, since))
        died[rank] = max(until, died.get(rank, until))
    exits, entity_N, time_N = codes(event, "kind"), scope.entities.numbers(event, "entity"), ints(event, "time_ns")
    for place in np.flatnonzero(exits.code_N == exits.places().get("process-exit", -2)).tolist():
        rank, at = int(entity_N[place]), int(time_N[place])
        if rank >= 0 and at > seen.get(rank, (0, -(2**63)))[1] and at >= born.get(rank, at):
            died[rank] = min(at, died.get(rank, at))
    found = {rank: Life(since, died.get(rank, 2**62)) for rank, since in born.items()}
    jobs: dict[int, list[Life]] = defaultdict(list)
    for rank, life in found.items():
        for job in scope.owners(rank, "job"):
            jobs[job].append(life)
    for job, of in jobs.items():
        found[job] = Life(min(each.born_ns for each in of), max(each.died_ns for each in of))
    return found
