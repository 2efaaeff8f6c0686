"""What is part of what: where the signs of a component stand, and of which components a sign may be."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import pyarrow as pa

from leadline.analysis.graph.topology import Topology, topology_of
from leadline.model.ids import EntityId, kind_of

_KINDS = ("runs-on", "in", "has", "linked", "member", "mounts", "shares-machine")


@dataclass(slots=True)
class Components:
    """Parts and wholes of components. Answers are remembered."""

    topology: Topology
    _known: dict[str, frozenset[str]] = field(default_factory=dict)

    def parts(self, entity: str) -> frozenset[str]:
        """Where the signs of a component stand: itself and what is part of it."""
        if (found := self._known.get(entity)) is None:
            found = self._known[entity] = frozenset((entity, *self._parts(entity)))
        return found

    def _parts(self, entity: str) -> Iterable[str]:
        kind = kind_of(entity)
        if kind == "link":
            ends = self.topology.ends(entity)
            return (*ends, *(one for end in ends for one in self._inside(end)))
        if kind in ("port", "swport"):
            link = self.topology.link(entity)
            return (*self._inside(entity), *([link] if link else []))
        if kind in ("switch", "storage"):
            ports = self.topology.ports_of(entity)
            return (*ports, *(far for port in ports if (far := self.topology.far(port))))
        if kind == "rank":
            return (one for one in self.topology.on(entity) if kind_of(one) == "process")
        if kind == "host":
            ranks = self.topology.ranks_of(entity)
            own = {one for rank in ranks for one in self.topology.on(rank) if kind_of(one) == "process"}
            return sorted(own | self.topology.ports_of(entity))  # who takes a machine's network shows it there
        return self.topology.ranks_of(entity) if kind == "job" else ()

    def _inside(self, port: str) -> tuple[str, ...]:
        """Transceivers of a port, and its RDMA devices: their counters are its own, under another name."""
        return (*self.topology.parts_in(port, "xcvr"), *self.topology.parts_in(port, "port"))

    def wholes(self, entity: str) -> tuple[str, ...]:
        """The components that an entity's signs may be of: itself and what it is part of. Inverse of `parts`."""
        kind = kind_of(entity)
        if kind == "port" and (interface := self.topology.interface(entity)):
            return self.wholes(interface)
        if kind in ("port", "swport"):
            far = self.topology.far(entity)
            owner, over = self.topology.owner(entity), self.topology.owner(far) if far else ""
            above = [owner] if owner else []
            above += [over] if over and kind_of(over) in ("switch", "storage") else []
            return tuple(dict.fromkeys([entity, *([self.topology.link(entity)] if far else []), *above]))
        if kind == "xcvr":
            end = self.topology.owner(entity)
            return (entity, *(self.wholes(end) if end else ()))
        if kind == "link":
            return (entity, *self.topology.ends(entity))
        if kind == "process":
            return (entity, *sorted(one for one in self.topology.on(entity) if kind_of(one) in ("rank", "host")))
        if kind == "rank":
            return (entity, f"job:{EntityId.of(entity).job}")
        return (entity,)


def components_of(relation: pa.Table) -> Components:
    """Components from the rows that held at some time of an incident."""
    return Components(topology_of(relation, _KINDS))
