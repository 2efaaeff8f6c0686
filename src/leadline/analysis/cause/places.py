"""What stands on what, as it was when something began to hurt: where causes can be, and on what their signs show.

    rank ─> GPU, process ─> host ─> port ─(link)─ swport ─> switch            jobs, ranks ─> storage

From rows of `relation`, each pair once, whoever tells it. What is not told is not there: `ports` of a host that nobody
names leave its links out, and the verdict says what is missing.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Codes, codes
from leadline.model.ids import link_id

_KINDS = ("runs-on", "in", "has", "linked", "member", "mounts", "shares-machine")
_PASSED = ("flow:", "qp:", "address:", "nvlink:", "tenant:", "cluster:")  # say nothing of places, and are many

Many = dict[str, set[str]]


def _many() -> Many:
    return defaultdict(set)


@dataclass(slots=True)
class Places:
    """Who is where. All by entity id."""

    ranks_of: Many = field(default_factory=_many)  # job, host, GPU -> ranks
    on: Many = field(default_factory=_many)  # rank -> GPUs, processes, host; process, GPU -> host
    ports_of: Many = field(default_factory=_many)  # host, storage, switch -> its ports
    owner_of: dict[str, str] = field(default_factory=dict)  # port, swport, xcvr -> host, storage, switch, (sw)port
    far: dict[str, str] = field(default_factory=dict)  # port or swport -> the other end of its link
    xcvrs_of: Many = field(default_factory=_many)  # port, swport -> transceivers
    mates: Many = field(default_factory=_many)  # host -> the other hosts on its machine
    mounts: Many = field(default_factory=_many)  # job, rank, host -> storage
    gpus_of: Many = field(default_factory=_many)  # host -> GPUs

    def host(self, entity: str) -> str:
        """The host (or storage) that a rank, process, GPU or port is on; empty if nobody tells."""
        kind = kind_of(entity)
        if kind in ("host", "storage"):
            return entity
        if kind in ("port", "swport", "xcvr"):
            owner = self.owner(entity)
            return self.host(owner) if kind == "xcvr" else owner if kind == "port" else ""
        return next((each for each in sorted(self.on.get(entity, ())) if kind_of(each) == "host"), "")

    def owner(self, port: str) -> str:
        """What a port belongs to: as told, else by its name (`port:h3/eth0` is of h3)."""
        told = self.owner_of.get(port, "")
        kind, name = kind_of(port), port.partition(":")[2].rpartition("/")[0]
        if told or not name or kind not in ("port", "swport"):
            return told
        return f"switch:{name}" if kind == "swport" else f"host:{name}"

    def link(self, end: str) -> str:
        """The link of a port; empty if its other end is not known."""
        other = self.far.get(end)
        return link_id(end, other) if other else ""

    def ends(self, link: str) -> tuple[str, ...]:
        """The ports at both ends of a link, from its name: which of them are switches' the graph says."""
        first, _, second = link.partition(":")[2].partition("~")
        return tuple(self._end(name) for name in (first, second) if name)

    def _end(self, name: str) -> str:
        swport, port = f"swport:{name}", f"port:{name}"
        known = port in self.far or port in self.owner_of
        return port if known else swport if swport in self.far or swport in self.owner_of else port

    def parts(self, entity: str) -> frozenset[str]:
        """Where the signs of a component stand: itself and what is part of it."""
        kind = kind_of(entity)
        if kind == "link":
            ends = self.ends(entity)
            return frozenset({entity, *ends, *(xcvr for end in ends for xcvr in self.xcvrs_of.get(end, ()))})
        if kind in ("port", "swport"):
            return frozenset({entity, *self.xcvrs_of.get(entity, ()), *([link] if (link := self.link(entity)) else [])})
        if kind == "switch":
            ports = self.ports_of.get(entity, set())
            return frozenset({entity, *ports, *(self.far[port] for port in ports if port in self.far)})
        if kind == "storage":
            ports = self.ports_of.get(entity, set())
            return frozenset({entity, *ports, *(self.far[port] for port in ports if port in self.far)})
        if kind in ("rank", "host"):
            processes = {each for each in self.on.get(entity, ()) if kind_of(each) == "process"}
            if kind == "host":
                processes = {
                    each
                    for rank in self.ranks_of.get(entity, ())
                    for each in self.on.get(rank, ())
                    if kind_of(each) == "process"
                }
            return frozenset({entity, *processes})
        if kind == "job":
            return frozenset({entity, *self.ranks_of.get(entity, ())})
        return frozenset({entity})

    def wholes(self, entity: str) -> tuple[str, ...]:
        """The components that an entity's signs may be of: itself and what it is part of. Inverse of `parts`."""
        kind = kind_of(entity)
        if kind in ("port", "swport"):
            far, owner = self.far.get(entity, ""), self.owner(entity)
            owners = [
                each for each in (owner, self.owner(far) if far else "") if kind_of(each) in ("switch", "storage")
            ]
            return tuple(dict.fromkeys([entity, *([self.link(entity)] if far else []), *owners]))
        if kind == "xcvr":
            end = self.owner_of.get(entity, "")
            return (entity, *(self.wholes(end) if end else ()))
        if kind == "link":
            return (entity, *self.ends(entity))
        if kind == "process":
            ranks = {each for each in self.on.get(entity, ()) if kind_of(each) == "rank"}
            host = self.host(entity)
            return (entity, *sorted(ranks), *([host] if host else []))
        if kind == "rank":
            return (entity, f"job:{entity.partition(':')[2].rpartition('/')[0]}")
        return (entity,)

    def count(self, kind: str) -> int:
        """How many components of a kind there are: peers of one of them."""
        found = {
            "host": len({host for host in self.ranks_of if kind_of(host) == "host"} | set(self.gpus_of)),
            "gpu": sum(len(gpus) for gpus in self.gpus_of.values()),
            "rank": sum(len(ranks) for job, ranks in self.ranks_of.items() if kind_of(job) == "job"),
            "link": len(self.far) // 2,
            "port": sum(kind_of(port) == "port" for port in self.far),
            "switch": sum(kind_of(each) == "switch" for each in self.ports_of),
        }
        return max(1, found.get(kind, 1))


@cache
def kind_of(entity: str) -> str:
    """Kind of an entity id."""
    return entity.partition(":")[0]


def places_of(relation: pa.Table, at_ns: int) -> Places:
    """The places that held at a time, or, of what had not been told then, that were told later."""
    found = Places()
    for child, parent, kind in sorted(_held(relation, at_ns)):
        _put(found, child, parent, kind)
    return found


def _held(relation: pa.Table, at_ns: int) -> Iterable[tuple[str, str, str]]:
    """Distinct (child, parent, kind) of the rows that matter."""
    child, parent, kind = (codes(relation, name) for name in ("child", "parent", "kind"))
    keep_N = np.isin(kind.code_N, [place for place, name in enumerate(kind.names) if name in _KINDS])
    keep_N &= ~_begins(child, _PASSED) & ~_begins(parent, _PASSED) & (child.code_N >= 0) & (parent.code_N >= 0)
    row_X = np.flatnonzero(keep_N)
    if not len(row_X):
        return
    parents, kinds = len(parent.names), len(kind.names)
    key_X = (child.code_N[row_X] * parents + parent.code_N[row_X]) * kinds + kind.code_N[row_X]
    for key in np.unique(key_X).tolist():
        pair, place = divmod(key, kinds)
        yield child.names[pair // parents], parent.names[pair % parents], kind.names[place]


def _begins(column: Codes, prefixes: tuple[str, ...]) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    fits = np.array([*(name.startswith(prefixes) for name in column.names), False], bool)
    return fits[column.code_N]


def _put(found: Places, child: str, parent: str, kind: str) -> None:
    below, above = kind_of(child), kind_of(parent)
    if kind == "linked":
        found.far[child], found.far[parent] = parent, child
    elif kind == "shares-machine":
        found.mates[child].add(parent)
        found.mates[parent].add(child)
    elif kind == "mounts":
        found.mounts[child].add(parent)
    elif kind == "has":
        _put(found, parent, child, "in")
    elif below == "xcvr":
        found.xcvrs_of[parent].add(child)
        found.owner_of[child] = parent
    elif below in ("port", "swport"):
        found.ports_of[parent].add(child)
        found.owner_of[child] = parent
    elif below == "rank" and above == "job":
        found.ranks_of[parent].add(child)
    elif below in ("rank", "process", "gpu", "pod") and above in ("host", "gpu", "process", "rank", "pod"):
        _stands(found, child, parent)


def _stands(found: Places, child: str, parent: str) -> None:
    found.on[child].add(parent)
    if kind_of(child) == "gpu" and kind_of(parent) == "host":
        found.gpus_of[parent].add(child)
    elif kind_of(child) == "rank":
        found.ranks_of[parent].add(child)
        if kind_of(parent) == "process":
            found.on[parent].add(child)
    elif kind_of(child) == "process" and kind_of(parent) == "rank":
        found.on[parent].add(child)
