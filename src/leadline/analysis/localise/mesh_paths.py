"""What paths of probes cross: links by direction, cards, hosts and switches, as sparse columns, alike ones together.

    path -> directed links          link -> its two ends          columns: each direction, each link both ways,
                                                                  each port and host at a link's end, each switch

Components that the same paths cross cannot be told apart by any measure: they are one class.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.ids import EntityId, entity_id

if TYPE_CHECKING:
    from scipy import sparse


@dataclass(frozen=True, slots=True, order=True)
class Component:
    """What may be broken. `way`: of a link, the node that packets go to; empty: both ways, or no link."""

    entity: str
    way: str = ""


@dataclass(frozen=True, slots=True)
class Classes:
    """Components by what crosses them. C = classes, P = paths."""

    cross_PC: sparse.csr_array  # 1.0 where a path crosses a class
    members_C: tuple[tuple[Component, ...], ...]
    hops_P: Ints  # links of each path; 0: nobody knows its way

    def summed(self, value_P: Floats) -> Floats:
        """Sums over the paths that cross each class, (C,) or (C, X)."""
        found: Floats = self.cross_PC.T @ value_P
        return found

    def paths_of(self, classes: Sequence[int]) -> Bools:
        """Paths that cross any of them, (P,)."""
        mask = np.zeros(len(self.members_C))
        mask[list(classes)] = 1.0
        found: Bools = self.cross_PC @ mask > 0
        return found


def classes(link_PX: Ints, links: Sequence[str], switches: Collection[str]) -> Classes:
    """Classes of all that paths cross.

    Inputs: directed links of each path, -1 where it has fewer, (P, X): number l is `links[l]` towards its second end,
    number L + l the same towards its first. `links`: entity ids, `link:a/port~b/port`. `switches`: which nodes are;
    the others are hosts.
    """
    from scipy import sparse  # here: it takes half a second to load, which a server need not wait for

    paths, count = len(link_PX), len(links)
    row, hop = np.nonzero(link_PX >= 0)
    direction = link_PX[row, hop]
    crossed = sparse.csr_array((np.ones(len(row)), (row, direction)), (paths, 2 * count))
    crossed.data[:] = 1.0
    names, column, link = _components(links, switches)
    of_DC = sparse.csr_array((np.ones(len(link)), (link, column)), (2 * count, len(names)))
    cross_PC = sparse.csc_array(crossed @ of_DC)
    cross_PC.data[:] = 1.0
    cross_PC.sort_indices()
    first: dict[bytes, int] = {}
    members: list[list[Component]] = []
    kept: list[int] = []
    for place, name in enumerate(names):
        rows = cross_PC.indices[cross_PC.indptr[place] : cross_PC.indptr[place + 1]]
        if not len(rows):
            continue
        at = first.setdefault(rows.tobytes(), len(members))
        if at == len(members):
            members.append([])
            kept.append(place)
        members[at].append(name)
    hops_P = (link_PX >= 0).sum(axis=1)
    return Classes(sparse.csr_array(cross_PC[:, kept]), tuple(tuple(each) for each in members), hops_P)


def ends_only(src_P: Sequence[str], dst_P: Sequence[str]) -> Classes:
    """Classes where no path is known: hosts, by what they send and what comes to them."""
    from scipy import sparse  # as above

    names = sorted({*src_P, *dst_P})
    place = {name: number for number, name in enumerate(names)}
    row = np.repeat(np.arange(len(src_P)), 2)
    column = np.array([place[name] for pair in zip(src_P, dst_P, strict=True) for name in pair], np.int64)
    cross = sparse.csr_array((np.ones(len(row)), (row, column)), (len(src_P), len(names)))
    members = tuple((Component(entity_id("host", name)),) for name in names)
    return Classes(cross, members, np.zeros(len(src_P), np.int64))


def _components(links: Sequence[str], switches: Collection[str]) -> tuple[list[Component], Ints, Ints]:
    """Components, and pairs (component, directed link)."""
    count = len(links)
    ends = [EntityId.of(link).ends for link in links]
    has: dict[Component, list[int]] = {}
    for number, (link, (first, second)) in enumerate(zip(links, ends, strict=True)):
        has[Component(link, second.partition("/")[0])] = [number]
        has[Component(link, first.partition("/")[0])] = [count + number]
        has[Component(link)] = [number, count + number]
        for end in (first, second):
            node = end.partition("/")[0]
            if node in switches:
                has.setdefault(Component(entity_id("switch", node)), []).extend((number, count + number))
            else:
                has.setdefault(Component(entity_id("port", *end.split("/", 1))), []).extend((number, count + number))
                has.setdefault(Component(entity_id("host", node)), []).extend((number, count + number))
    names = list(has)
    column = np.repeat(np.arange(len(names)), [len(each) for each in has.values()])
    return names, column, np.array([each for found in has.values() for each in found], np.int64)
