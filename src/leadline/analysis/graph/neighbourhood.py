"""What the graph answers: what a thing stands on at a time, and with whom it shares that.

Nodes and edges are named tuples, not dataclasses: a job of a thousand ranks has some ten thousand of them, and a frozen
dataclass takes five times as long to make.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from leadline.model.ids import kind_of

SCHEMA = 1


class Node(NamedTuple):
    """An entity in a drawing. `jobs`: those that stand on it at that time, sorted; `layer` 0 is on top."""

    entity: str
    kind: str
    layer: int
    jobs: tuple[str, ...]
    conflict: bool  # sources contradict each other about it

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        entity, kind, layer, jobs, conflict = self
        return {"entity": entity, "kind": kind, "layer": layer, "jobs": list(jobs), "conflict": conflict}


class Edge(NamedTuple):
    """`child` stands on `parent`, whichever way round a source told it. A link is one edge, with its ports' names."""

    child: str
    parent: str
    kind: str
    from_ns: int
    to_ns: int | None  # None while it holds
    sources: tuple[str, ...]
    confidence: float
    link: str | None = None
    child_port: str | None = None
    parent_port: str | None = None
    used: bool = True  # False: contradicted by a claim that is trusted more; shown, not followed

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        child, parent, kind, from_ns, to_ns, sources, confidence, link, child_port, parent_port, used = self
        return {
            "child": child, "parent": parent, "kind": kind, "from_ns": from_ns, "to_ns": to_ns,
            "sources": list(sources), "confidence": confidence, "link": link, "child_port": child_port,
            "parent_port": parent_port, "used": used,
        }  # fmt: skip


class Shared(NamedTuple):
    """Something that several jobs stand on at that time."""

    entity: str
    kind: str  # of entity; `machine` for hosts on one machine
    jobs: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Neighbourhood:
    """What a thing stands on and what stands on it, at a time. Everything is in a fixed order."""

    entity: str
    at_ns: int
    nodes: tuple[Node, ...]
    edges: tuple[Edge, ...]
    shared: tuple[Shared, ...]
    conflicts: tuple[Mapping[str, Any], ...]  # columns of the table `conflict`
    missing: tuple[str, ...]  # what no source tells, in sentences

    def as_answer(self) -> dict[str, Any]:
        """As JSON: `job` or `of` names what was asked for."""
        is_job = kind_of(self.entity) == "job"
        return {
            "schema": SCHEMA,
            "job": self.entity if is_job else None,
            "of": None if is_job else self.entity,
            "at_ns": self.at_ns,
            "nodes": [node.as_answer() for node in self.nodes],
            "edges": [edge.as_answer() for edge in self.edges],
            "shared": [{"entity": each.entity, "kind": each.kind, "jobs": list(each.jobs)} for each in self.shared],
            "conflicts": [dict(each) for each in self.conflicts],
            "missing": list(self.missing),
        }


@dataclass(frozen=True, slots=True)
class Change:
    """An edge that came or went."""

    at_ns: int
    what: str  # came, went
    edge: Edge

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        return {"at_ns": self.at_ns, "what": self.what, "edge": self.edge.as_answer()}
