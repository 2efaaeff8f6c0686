"""What stands on what while something hurts: where causes can be, and on what their signs show.

    rank ─> GPU, process ─> host ─> port ─(link)─ swport ─> switch            jobs, ranks ─> storage

Made of rows of `relation`, whoever tells them. Nothing is built for entities that nobody asks about: rows are sorted by
either end once, and a question is a look-up (a job of 10,240 ranks has 170,000 rows, a blamed rank needs fifty).
What is not told is not there: `ports` of a host that nobody names leave its links out.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import cache

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ints, ints
from leadline.model.ids import link_id

_KINDS = ("runs-on", "in", "has", "linked", "member", "mounts", "shares-machine")

NONE: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Side:
    """Rows sorted by one of their ends."""

    order_N: Ints
    sorted_N: Ints

    def rows(self, number: int) -> Ints:
        """The rows that have it at this end."""
        low, high = np.searchsorted(self.sorted_N, [number, number + 1])
        return self.order_N[low:high]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of `relation` as numbers."""

    names: list[str]
    number: dict[str, int]
    child_N: Ints
    parent_N: Ints
    kind_N: Ints
    kinds: list[str]
    from_N: Ints
    by_child: Side
    by_parent: Side
    counts: dict[str, int]  # distinct names by kind of entity

    def above(self, entity: str) -> list[tuple[str, str]]:
        """(relation, parent) of each row that has it as child."""
        return self._ends(self.by_child, entity, self.parent_N)

    def below(self, entity: str) -> list[tuple[str, str]]:
        """(relation, child) of each row that has it as parent."""
        return self._ends(self.by_parent, entity, self.child_N)

    def _ends(self, side: Side, entity: str, other_N: Ints) -> list[tuple[str, str]]:
        number = self.number.get(entity, -1)
        if number < 0:
            return []
        row_M = side.rows(number)
        pairs = zip(self.kind_N[row_M].tolist(), other_N[row_M].tolist(), strict=True)
        return sorted({(self.kinds[kind], self.names[other]) for kind, other in pairs})


@dataclass(slots=True)
class Places:
    """Who is where. All by entity id; answers are remembered."""

    rows: Rows
    _known: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def _asked(self, question: str, entity: str, answer: Iterable[str]) -> frozenset[str]:
        found = self._known[question, entity] = frozenset(answer)
        return found

    def ranks_of(self, entity: str) -> frozenset[str]:
        """Ranks of a job, on a host, on a GPU."""
        if (found := self._known.get(("ranks", entity))) is not None:
            return found
        rows = self.rows.below(entity)
        return self._asked("ranks", entity, (child for _, child in rows if kind_of(child) == "rank"))

    def on(self, entity: str) -> frozenset[str]:
        """What a rank, process, GPU or pod stands on: GPUs, processes, its host; of a process also its rank."""
        if (found := self._known.get(("on", entity))) is not None:
            return found
        above = [one for kind, one in self.rows.above(entity) if kind in ("runs-on", "in", "member")]
        member = [one for kind, one in self.rows.below(entity) if kind == "member" and kind_of(one) == "process"]
        below = [one for kind, one in self.rows.below(entity) if kind == "runs-on" and kind_of(entity) == "process"]
        wanted = ("gpu", "process", "host", "pod", "rank")
        return self._asked("on", entity, (one for one in (*above, *member, *below) if kind_of(one) in wanted))

    def gpus_of(self, host: str) -> frozenset[str]:
        """GPUs in a host."""
        if (found := self._known.get(("gpus", host))) is not None:
            return found
        told = (*self.rows.below(host), *self.rows.above(host))
        return self._asked("gpus", host, (one for kind, one in told if kind_of(one) == "gpu" and kind in ("in", "has")))

    def ports_of(self, owner: str) -> frozenset[str]:
        """Ports of a host, a storage or a switch."""
        if (found := self._known.get(("ports", owner))) is not None:
            return found
        told = (*self.rows.below(owner), *((kind, one) for kind, one in self.rows.above(owner) if kind == "has"))
        return self._asked("ports", owner, (one for _, one in told if kind_of(one) in ("port", "swport")))

    def xcvrs_of(self, port: str) -> frozenset[str]:
        """Transceivers of a port."""
        return frozenset(one for kind, one in self.rows.below(port) if kind == "in" and kind_of(one) == "xcvr")

    def rdma_of(self, port: str) -> frozenset[str]:
        """RDMA devices of a port: their counters are its own, under another name."""
        return frozenset(one for kind, one in self.rows.below(port) if kind == "in" and kind_of(one) == "port")

    def interface(self, port: str) -> str:
        """The port that an RDMA device is of; empty for what is none."""
        return min((one for kind, one in self.rows.above(port) if kind == "in" and kind_of(one) == "port"), default="")

    def mates(self, host: str) -> frozenset[str]:
        """The other hosts on its machine."""
        told = (*self.rows.above(host), *self.rows.below(host))
        return frozenset(one for kind, one in told if kind == "shares-machine")

    def mounts(self, user: str) -> frozenset[str]:
        """Storage that a job, rank or host mounts."""
        return frozenset(one for kind, one in self.rows.above(user) if kind == "mounts")

    def far(self, end: str) -> str:
        """The other end of a port's link; empty if nobody tells, the last by name if several are told."""
        if (found := self._known.get(("far", end))) is None:
            told = (*self.rows.above(end), *self.rows.below(end))
            found = self._asked("far", end, (one for kind, one in told if kind == "linked"))
        return max(found, default="")

    def began_ns(self, job: str) -> int | None:
        """Since when a job is told of: the first time that a rank of it was."""
        number = self.rows.number.get(job, -1)
        row_M = self.rows.by_parent.rows(number) if number >= 0 else np.zeros(0, np.int64)
        return int(self.rows.from_N[row_M].min()) if len(row_M) else None

    def storages(self) -> frozenset[str]:
        """All storage that there is."""
        return frozenset(name for name in self.rows.names if name.startswith("storage:"))

    def host(self, entity: str) -> str:
        """The host (or storage) that a rank, process, GPU or port is on; empty if nobody tells."""
        kind = kind_of(entity)
        if kind in ("host", "storage"):
            return entity
        if kind in ("port", "xcvr"):
            owner = self.owner(entity)
            return self.host(owner) if kind == "xcvr" else owner
        return "" if kind == "swport" else min((one for one in self.on(entity) if kind_of(one) == "host"), default="")

    def owner(self, port: str) -> str:
        """What a port belongs to: as told, else by its name (`port:h3/eth0` is of h3). Of a transceiver: its port."""
        wanted = ("port", "swport") if kind_of(port) == "xcvr" else ("host", "storage", "switch")
        above = (one for kind, one in self.rows.above(port) if kind == "in")
        told = max((one for one in above if kind_of(one) in wanted), default="")
        kind, name = kind_of(port), port.partition(":")[2].rpartition("/")[0]
        if told or not name or kind not in ("port", "swport"):
            return told
        return f"switch:{name}" if kind == "swport" else f"host:{name}"

    def link(self, end: str) -> str:
        """The link of a port; empty if its other end is not known."""
        other = self.far(end)
        return link_id(end, other) if other else ""

    def ends(self, link: str) -> tuple[str, ...]:
        """The ports at both ends of a link, from its name: which of them are switches' the graph says."""
        first, _, second = link.partition(":")[2].partition("~")
        return tuple(self._end(name) for name in (first, second) if name)

    def _end(self, name: str) -> str:
        port, swport = f"port:{name}", f"swport:{name}"
        return swport if swport in self.rows.number and port not in self.rows.number else port

    def parts(self, entity: str) -> frozenset[str]:
        """Where the signs of a component stand: itself and what is part of it."""
        if (found := self._known.get(("parts", entity))) is not None:
            return found
        return self._asked("parts", entity, (entity, *self._parts(entity)))

    def _parts(self, entity: str) -> Iterable[str]:
        kind = kind_of(entity)
        if kind == "link":
            ends = self.ends(entity)
            return (*ends, *(one for end in ends for one in (*self.xcvrs_of(end), *self.rdma_of(end))))
        if kind in ("port", "swport"):
            link = self.link(entity)
            return (*self.xcvrs_of(entity), *self.rdma_of(entity), *([link] if link else []))
        if kind in ("switch", "storage"):
            ports = self.ports_of(entity)
            return (*ports, *(far for port in ports if (far := self.far(port))))
        if kind == "rank":
            return (one for one in self.on(entity) if kind_of(one) == "process")
        if kind == "host":
            return (one for rank in self.ranks_of(entity) for one in self.on(rank) if kind_of(one) == "process")
        return self.ranks_of(entity) if kind == "job" else ()

    def wholes(self, entity: str) -> tuple[str, ...]:
        """The components that an entity's signs may be of: itself and what it is part of. Inverse of `parts`."""
        kind = kind_of(entity)
        if kind == "port" and (interface := self.interface(entity)):
            return self.wholes(interface)
        if kind in ("port", "swport"):
            far = self.far(entity)
            owners = (self.owner(end) for end in (entity, far) if end)
            above = [owner for owner in owners if kind_of(owner) in ("switch", "storage")]
            return tuple(dict.fromkeys([entity, *([self.link(entity)] if far else []), *above]))
        if kind == "xcvr":
            end = self.owner(entity)
            return (entity, *(self.wholes(end) if end else ()))
        if kind == "link":
            return (entity, *self.ends(entity))
        if kind == "process":
            return (entity, *sorted(one for one in self.on(entity) if kind_of(one) in ("rank", "host")))
        if kind == "rank":
            return (entity, f"job:{entity.partition(':')[2].rpartition('/')[0]}")
        return (entity,)

    def count(self, kind: str) -> int:
        """How many components of a kind there are: peers of one of them."""
        ends = self.rows.counts.get("port", 0) + self.rows.counts.get("swport", 0)
        return max(1, ends // 2 if kind == "link" else self.rows.counts.get(kind, 1))


@cache
def kind_of(entity: str) -> str:
    """Kind of an entity id."""
    return entity.partition(":")[0]


def places_of(relation: pa.Table) -> Places:
    """Places from the rows that held at some time of a trouble: a rank that moved meanwhile is in both places."""
    plain = relation["kind"].cast(pa.string())
    relation = relation.filter(pc.and_(pc.is_in(plain, pa.array(_KINDS)), _named(relation)))
    ends = [relation[name].cast(pa.string()).combine_chunks() for name in ("child", "parent")]
    both = pc.dictionary_encode(pa.concat_arrays([_whole(each) for each in ends]))
    number_N = both.indices.to_numpy(zero_copy_only=False).astype(np.int64)
    kinds = pc.dictionary_encode(_whole(relation["kind"].cast(pa.string()).combine_chunks()))
    names, count = both.dictionary.to_pylist(), len(relation)
    child_N, parent_N = number_N[:count], number_N[count:]
    rows = Rows(
        names=names,
        number={name: place for place, name in enumerate(names)},
        child_N=child_N,
        parent_N=parent_N,
        kind_N=kinds.indices.to_numpy(zero_copy_only=False).astype(np.int64),
        kinds=kinds.dictionary.to_pylist(),
        from_N=ints(relation, "from_ns"),
        by_child=_side(child_N),
        by_parent=_side(parent_N),
        counts=_counts(both.dictionary),
    )
    return Places(rows)


def _named(relation: pa.Table) -> pa.ChunkedArray:
    return pc.and_(pc.is_valid(relation["child"]), pc.is_valid(relation["parent"]))


def _whole(array: pa.Array | pa.ChunkedArray) -> pa.Array:
    if not isinstance(array, pa.ChunkedArray):
        return array
    return pa.concat_arrays(array.chunks) if array.num_chunks else pa.array([], array.type)


def _side(end_N: Ints) -> Side:
    order_N = np.argsort(end_N, kind="stable")
    return Side(order_N, end_N[order_N])


def _counts(names: pa.Array) -> dict[str, int]:
    found = {}
    for kind in ("host", "gpu", "rank", "port", "swport", "switch"):
        found[kind] = int(pc.sum(pc.starts_with(names, f"{kind}:")).as_py() or 0)
    return found
