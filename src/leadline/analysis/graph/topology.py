"""What stands on what: the one reader of rows of `relation` for analyses that ask where something is.

    rank ─> GPU, process ─> host ─> port ─(link)─ swport ─> switch            jobs, ranks ─> storage

Rows are those that held at some time of a span, whoever told them. Nothing is built for what is not asked for:
rows are sorted by either end once, and a question is a look-up (a job of 10,240 ranks has 170,000 rows, a blamed rank
needs fifty). What is not told is not there.

**Where a rank is, if rows disagree**: the place that it was put on last counts, of places since the same time the first
by name (`placed`, `host_of`). So it is with all that has one answer: the other end of a cable (`far`), whose a port is
(`owner`, `interface`). Questions for sets (`on`, `ranks_of`, `jobs_on`) are answered with all places of a span:
a rank that moved meanwhile was in both.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Codes, Ints, codes, ints
from leadline.model.ids import EntityId, kind_of, link_id

HELD = ("in", "runs-on", "member")
"""Relations of a part to what holds it."""
_CABLED = ("port", "swport")
_FOREVER = 2**63 - 1


class Placed(NamedTuple):
    """One row: a child on its parent, from when to when, ns; `to_ns` is None if no end was told."""

    child: str
    parent: str
    from_ns: int
    to_ns: int | None


@dataclass(frozen=True, slots=True)
class _Side:
    """Rows sorted by one of their ends."""

    order_N: Ints
    sorted_N: Ints

    @staticmethod
    def of(end_N: Ints) -> _Side:
        order_N = np.argsort(end_N, kind="stable")
        return _Side(order_N, end_N[order_N])

    def rows(self, number: int) -> Ints:
        """The rows that have it at this end."""
        low, high = np.searchsorted(self.sorted_N, [number, number + 1])
        return self.order_N[low:high]


@dataclass(slots=True)
class Topology:
    """Rows of `relation` by their ends. N rows; names and kinds of relations by number. Answers are remembered."""

    names: list[str]  # in order, so that numbers are too
    kinds: list[str]
    child_N: Ints
    parent_N: Ints
    kind_N: Ints
    from_N: Ints
    to_N: Ints
    tenants: list[str]
    tenant_N: Ints  # who said it, -1: not known
    number: dict[str, int] = field(init=False)
    _by_child: _Side = field(init=False)
    _by_parent: _Side = field(init=False)
    _kind_K: list[str] = field(default_factory=list)
    _counts: dict[str, int] = field(default_factory=dict)
    _known: dict[tuple[str, str], frozenset[str]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.number = {name: place for place, name in enumerate(self.names)}
        self._by_child, self._by_parent = _Side.of(self.child_N), _Side.of(self.parent_N)

    # --- rows --------------------------------------------------------------------------------------------------------

    def above(self, entity: str) -> list[tuple[str, str]]:
        """(relation, parent) of the rows that have it as child, each once, in order."""
        return self._ends(self._by_child, entity, self.parent_N)

    def below(self, entity: str) -> list[tuple[str, str]]:
        """(relation, child) of the rows that have it as parent, each once, in order."""
        return self._ends(self._by_parent, entity, self.child_N)

    def beside(self, entity: str) -> list[tuple[str, str]]:
        """(relation, other end) of all rows that have it at either end."""
        return [*self.above(entity), *self.below(entity)]

    def said(self, entity: str) -> set[tuple[str, str, str, bool]]:
        """Who said it, the relation, the other end, and whether that is the parent, of all rows that have it."""
        number = self.number.get(entity, -1)
        found = set()
        for side, other_N, is_parent in ((self._by_child, self.parent_N, True), (self._by_parent, self.child_N, False)):
            for row in side.rows(number).tolist():
                whose = self.tenants[self.tenant_N[row]] if self.tenant_N[row] >= 0 else ""
                found.add((whose, self.kinds[self.kind_N[row]], self.names[other_N[row]], is_parent))
        return found

    def placed(self, relation: str, child_kind: str, parent_kind: str) -> list[Placed]:
        """Rows of a relation between entities of two kinds, so that the last row of a child is the one that counts:
        in order of their begin; of rows with one begin the first by the name of the parent comes last."""
        wanted = self.kinds.index(relation) if relation in self.kinds else -1
        row_M = np.flatnonzero(
            (self.kind_N == wanted) & self._is(child_kind)[self.child_N] & self._is(parent_kind)[self.parent_N]
        )
        # Of rows that differ in their end alone, the one without an end comes last.
        order_M = np.lexsort((self.to_N[row_M], -self.parent_N[row_M], self.child_N[row_M], self.from_N[row_M]))
        row_M = row_M[order_M]
        columns = (self.child_N, self.parent_N, self.from_N, self.to_N)
        return [
            Placed(self.names[child], self.names[parent], from_ns, None if to_ns == _FOREVER else to_ns)
            for child, parent, from_ns, to_ns in zip(*(column[row_M].tolist() for column in columns), strict=True)
        ]

    def began_ns(self, entity: str) -> int | None:
        """Since when anything is told to be part of it; None if nothing is."""
        row_M = self._by_parent.rows(self.number.get(entity, -1))
        return int(self.from_N[row_M].min()) if len(row_M) else None

    def _ends(self, side: _Side, entity: str, other_N: Ints) -> list[tuple[str, str]]:
        number = self.number.get(entity, -1)
        if number < 0:
            return []
        row_M = side.rows(number)
        pairs = zip(self.kind_N[row_M].tolist(), other_N[row_M].tolist(), strict=True)
        return sorted({(self.kinds[kind], self.names[other]) for kind, other in pairs})

    def _is(self, kind: str) -> Bools:
        """Which names are of a kind of entity."""
        if not self._kind_K and self.names:
            self._kind_K += map(kind_of, self.names)
        return np.fromiter((each == kind for each in self._kind_K), bool, len(self.names))

    def _asked(self, question: str, entity: str, answer: Iterable[str]) -> frozenset[str]:
        found = self._known[question, entity] = frozenset(answer)
        return found

    # --- jobs, ranks, GPUs, hosts ------------------------------------------------------------------------------------

    def ranks_of(self, entity: str) -> frozenset[str]:
        """Ranks of a job, on a host, on a GPU, of a process."""
        if (found := self._known.get(("ranks", entity))) is not None:
            return found
        rows = self.below(entity)
        return self._asked("ranks", entity, (child for _, child in rows if kind_of(child) == "rank"))

    def jobs_on(self, entity: str) -> frozenset[str]:
        """Names of the jobs whose ranks are on a GPU or host, or are a process."""
        if (found := self._known.get(("jobs", entity))) is not None:
            return found
        ranks = (one for kind, one in self.beside(entity) if kind in HELD and kind_of(one) == "rank")
        return self._asked("jobs", entity, (EntityId.of(rank).job for rank in ranks))

    def on(self, entity: str) -> frozenset[str]:
        """What a rank, process, GPU or pod stands on: GPUs, processes, its host; of a process also its rank."""
        if (found := self._known.get(("on", entity))) is not None:
            return found
        above = [one for kind, one in self.above(entity) if kind in HELD]
        member = [one for kind, one in self.below(entity) if kind == "member" and kind_of(one) == "process"]
        below = [one for kind, one in self.below(entity) if kind == "runs-on" and kind_of(entity) == "process"]
        wanted = ("gpu", "process", "host", "pod", "rank")
        return self._asked("on", entity, (one for one in (*above, *member, *below) if kind_of(one) in wanted))

    def host_of(self, entity: str, at_ns: int | None = None) -> str:
        """The host (or storage) that a rank, process, GPU or port is on; empty if it is not told.

        `at_ns`: that it was put on last by then, or first of all where it was put nowhere yet (places are told late).
        """
        kind = kind_of(entity)
        if kind in ("host", "storage"):
            return entity
        if kind in ("port", "xcvr"):
            owner = self.owner(entity)
            return self.host_of(owner) if kind == "xcvr" else owner
        if kind == "swport":
            return ""
        return self._newest(entity, HELD, ("host",)) if at_ns is None else self._host_at(entity, at_ns)

    def _host_at(self, entity: str, at_ns: int) -> str:
        rows = self._by_child.rows(self.number.get(entity, -1)).tolist()
        held = [row for row in rows if self.kinds[self.kind_N[row]] in HELD]
        places: list[tuple[int, str]] = [(int(self.from_N[row]), self.names[self.parent_N[row]]) for row in held]
        hosts = [(from_ns, name) for from_ns, name in places if kind_of(name) == "host"]
        by_then = [each for each in hosts if each[0] <= at_ns]
        if by_then:
            return min((-from_ns, name) for from_ns, name in by_then)[1]
        return min(hosts)[1] if hosts else ""

    def gpus_of(self, host: str) -> frozenset[str]:
        """GPUs in a host."""
        if (found := self._known.get(("gpus", host))) is not None:
            return found
        told = (one for kind, one in self.beside(host) if kind_of(one) == "gpu" and kind in ("in", "has"))
        return self._asked("gpus", host, told)

    def hosts_beside(self, host: str) -> frozenset[str]:
        """The other hosts on its machine."""
        return frozenset(one for kind, one in self.beside(host) if kind == "shares-machine")

    def storages(self) -> frozenset[str]:
        """All storage that there is."""
        return frozenset(name for name in self.names if kind_of(name) == "storage")

    def storage_of(self, user: str) -> frozenset[str]:
        """Storage that a job, rank or host mounts."""
        return frozenset(one for kind, one in self.above(user) if kind == "mounts")

    def _newest(self, entity: str, relations: Collection[str], kinds: Collection[str], both: bool = False) -> str:
        """The parent of some kinds that an entity was put on last, of those since one time the first by name. `both`:
        the other end, whichever of the two the entity is. Empty if there is none."""
        key = f"newest {'/'.join((*relations, *kinds))}"
        if (known := self._known.get((key, entity))) is not None:
            return next(iter(known), "")
        number = self.number.get(entity, -1)
        sides = [(self._by_child, self.parent_N), *([(self._by_parent, self.child_N)] if both else [])]
        others = [
            (-int(self.from_N[row]), self.names[other_N[row]])
            for side, other_N in sides
            for row in side.rows(number).tolist()
            if self.kinds[self.kind_N[row]] in relations
        ]
        newest = min((one for one in others if kind_of(one[1]) in kinds), default=None)
        return next(iter(self._asked(key, entity, [newest[1]] if newest else [])), "")

    # --- ports, links, switches --------------------------------------------------------------------------------------

    def ports_of(self, owner: str) -> frozenset[str]:
        """Ports of a host, a storage or a switch."""
        if (found := self._known.get(("ports", owner))) is not None:
            return found
        told = (*self.below(owner), *((kind, one) for kind, one in self.above(owner) if kind == "has"))
        return self._asked("ports", owner, (one for _, one in told if kind_of(one) in ("port", "swport")))

    def parts_in(self, entity: str, kind: str) -> frozenset[str]:
        """Parts of a kind in it: transceivers of a port (`xcvr`), RDMA devices of a port (`port`)."""
        return frozenset(one for how, one in self.below(entity) if how == "in" and kind_of(one) == kind)

    def interface(self, port: str) -> str:
        """The port that an RDMA device is of; empty for what is none."""
        return self._newest(port, ("in",), ("port",))

    def far(self, end: str) -> str:
        """The other end of a port's cable, that it was plugged into last; empty if it is not told."""
        return self._newest(end, ("linked",), _CABLED, both=True)

    def owner(self, port: str) -> str:
        """What a port belongs to: as told, else by its name (`port:h3/eth0` is of h3). Of a transceiver: its port."""
        wanted = ("port", "swport") if kind_of(port) == "xcvr" else ("host", "storage", "switch")
        told = self._newest(port, ("in",), wanted)
        entity = EntityId.of(port)
        if told or not entity.holder or entity.kind not in ("port", "swport"):
            return told
        return f"switch:{entity.holder}" if entity.kind == "swport" else f"host:{entity.holder}"

    def link(self, end: str) -> str:
        """The link of a port; empty if its other end is not known."""
        other = self.far(end)
        return link_id(end, other) if other else ""

    def ends(self, link: str) -> tuple[str, ...]:
        """The ports at both ends of a link, from its name: which of them are switches' the rows say."""
        return tuple(self._end(name) for name in EntityId.of(link).ends if name)

    def _end(self, name: str) -> str:
        port, swport = f"port:{name}", f"swport:{name}"
        return swport if swport in self.number and port not in self.number else port

    def count(self, kind: str) -> int:
        """How many components of a kind there are, 1 at least: peers of one of them."""
        if kind == "link":
            return max(1, (self._count("port") + self._count("swport")) // 2)
        return max(1, self._count(kind))

    def _count(self, kind: str) -> int:
        if kind not in self._counts:
            self._counts[kind] = int(self._is(kind).sum())
        return self._counts[kind]


def topology_of(
    relation: pa.Table, kinds: Collection[str] = (), child: str = "", since_ns: int | None = None
) -> Topology:
    """The topology in rows of `relation` (columns child, parent, kind, from_ns, to_ns, and maybe tenant).

    `kinds`: only these relations; `child`: only rows whose child's id begins with it; `since_ns`: only rows that still
    held after it. Rows without a child or a parent are left out. The order of rows does not matter.
    """
    low, high, how = (codes(relation, name) for name in ("child", "parent", "kind"))
    keep_N = _where(low, lambda name: bool(name) and name.startswith(child))
    keep_N &= _where(high, bool)
    if kinds:
        keep_N &= _where(how, lambda name: name in kinds)
    to_N = ints(relation, "to_ns", _FOREVER)
    if since_ns is not None:
        keep_N &= to_N > since_ns
    row_M = np.flatnonzero(keep_N)
    whose = codes(relation, "tenant") if "tenant" in relation.column_names else None
    names, (child_M, parent_M) = _numbered(low, low.code_N[row_M], high, high.code_N[row_M])
    return Topology(
        names=names,
        kinds=how.names,
        child_N=child_M,
        parent_N=parent_M,
        kind_N=how.code_N[row_M],
        from_N=ints(relation, "from_ns", 0)[row_M],
        to_N=to_N[row_M],
        tenants=whose.names if whose else [],
        tenant_N=whose.code_N[row_M] if whose else np.full(len(row_M), -1),
    )


def _where(texts: Codes, wanted: Callable[[str], bool]) -> Bools:
    """Which rows have a text that is wanted; null never is."""
    return np.array([*(wanted(name) for name in texts.names), False], bool)[texts.code_N]


def _numbered(low: Codes, child_M: Ints, high: Codes, parent_M: Ints) -> tuple[list[str], tuple[Ints, Ints]]:
    """The names that occur, in order, and both ends by their number among them."""
    used = {low.names[code] for code in np.unique(child_M).tolist()}
    used |= {high.names[code] for code in np.unique(parent_M).tolist()}
    names = sorted(used)
    place = {name: number for number, name in enumerate(names)}
    of_low, of_high = (np.array([place.get(name, -1) for name in texts.names] + [-1]) for texts in (low, high))
    return names, (of_low[child_M], of_high[parent_M])
