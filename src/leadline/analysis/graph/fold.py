"""Arrows as the edges of a drawing: switch ports folded into links, what several sources say told once.

A link is one edge from the port of a host (or the lower switch) to the switch, and carries the names of both ports.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.depends import KIND
from leadline.analysis.graph.neighbourhood import Edge
from leadline.analysis.graph.rows import OPEN, distinct
from leadline.analysis.graph.walk import Around
from leadline.model.ids import link_id

NOTHING = -1


@dataclass(frozen=True, slots=True)
class Owners:
    """The switch of each switch port that one is told of."""

    port_P: Ints  # ascending
    switch_P: Ints

    def of(self, node_N: Ints) -> Ints:
        """The switch of each node that is a port of one; other nodes are themselves."""
        if not len(self.port_P):
            return node_N
        place_N = np.minimum(np.searchsorted(self.port_P, node_N), len(self.port_P) - 1)
        return np.where(self.port_P[place_N] == node_N, self.switch_P[place_N], node_N)

    def by_port(self) -> dict[int, int]:
        """The switch of each port."""
        return dict(zip(self.port_P.tolist(), self.switch_P.tolist(), strict=True))


def owners(found: Around) -> Owners:
    """Switches of the switch ports around; of contradicting ones that which is used."""
    net = found.arrows
    own = found.used_E & (found.kind_M[net.upper_E] == KIND["swport"]) & (found.kind_M[net.lower_E] == KIND["switch"])
    port_P, place_P = np.unique(net.upper_E[own], return_index=True)
    return Owners(port_P, net.lower_E[own][place_P])


@dataclass(frozen=True, slots=True)
class Drawn:
    """F edges to draw, before what several rows say of one is put together. -1: it is no link, and has no ports."""

    child_F: Ints
    parent_F: Ints
    child_port_F: Ints
    parent_port_F: Ints
    row_F: Ints
    used_F: Bools

    def nodes(self) -> Ints:
        """Both ends of all, each once."""
        return distinct(np.concatenate([self.child_F, self.parent_F]))


def drawn(found: Around, shown_E: Bools, owner: Owners) -> Drawn:
    """Edges of some arrows. That a port is in its switch is said by its link, where it has one."""
    net = found.arrows
    linked = np.zeros(len(found.kind_M), bool)
    linked[net.upper_E[net.link_E]] = True  # of a link both ends are the upper one of an arrow
    said = (found.kind_M[net.upper_E] == KIND["swport"]) & (found.kind_M[net.lower_E] == KIND["switch"])
    said &= linked[net.upper_E] | ~found.start[net.upper_E]
    place = np.flatnonzero(shown_E & ~said)
    upper, lower, link = net.upper_E[place], net.lower_E[place], net.link_E[place]
    return Drawn(
        np.where(link, owner.of(upper), upper),
        np.where(link, owner.of(lower), lower),
        np.where(link, upper, NOTHING),
        np.where(link, lower, NOTHING),
        net.row_E[place],
        found.used_E[place],
    )


def joined(parts: list[Drawn]) -> Drawn:
    """One after the other."""
    names = ("child_F", "parent_F", "child_port_F", "parent_port_F", "row_F", "used_F")
    return Drawn(*(np.concatenate([getattr(part, name) for part in parts]) for name in names))


def edges(told: Drawn, found: Around, place_M: Ints) -> list[Edge]:
    """Edges, each once, in the order of the places of their nodes.

    Since when: the earliest that any source says; until when: the latest; as sure as the surest.
    """
    if not len(told.row_F):
        return []
    rows, words, texts = found.rows, found.words, found.texts
    child_F, parent_F = place_M[told.child_F], place_M[told.parent_F]
    kind_F, ports = rows.kind[told.row_F], (told.parent_port_F, told.child_port_F)
    # By texts, not by numbers: those depend on the order in which rows came.
    by_kind = _ranks([str(word) for word in words])[kind_F]
    first_port, second_port = (_ranked(each, texts) for each in ports)
    sort = np.lexsort((rows.source[told.row_F], first_port, second_port, by_kind, parent_F, child_F))
    columns = [each[sort] for each in (child_F, parent_F, kind_F, *ports)]
    new = np.r_[True, np.any([each[1:] != each[:-1] for each in columns], axis=0)]
    begin = np.flatnonzero(new)
    row = told.row_F[sort]
    from_ns = np.minimum.reduceat(rows.from_ns[row], begin).tolist()
    to_ns = np.maximum.reduceat(rows.to_ns[row], begin).tolist()
    sure = np.maximum.reduceat(rows.confidence[row], begin).tolist()
    used = np.logical_or.reduceat(told.used_F[sort], begin).tolist()
    sources = _sources(rows.source[row].tolist(), begin.tolist(), words)
    first = sort[begin]
    ends = zip(told.child_F[first].tolist(), told.parent_F[first].tolist(), told.child_port_F[first].tolist(),
               told.parent_port_F[first].tolist(), kind_F[first].tolist(), strict=True)  # fmt: skip
    out = []
    for (upper, lower, near, far, kind), since, until, say, how_sure, is_used in zip(
        ends, from_ns, to_ns, sources, sure, used, strict=True
    ):
        end = None if until == OPEN else until
        is_link = near != NOTHING
        near_port, far_port = (texts[near], texts[far]) if is_link else (None, None)
        link = link_id(texts[near], texts[far]) if is_link else None
        out.append(
            Edge(texts[upper], texts[lower], words[kind], since, end, say, how_sure, link, near_port, far_port, is_used)
        )
    return out


def _ranks(texts: list[str]) -> Ints:
    """Place of each text in their order."""
    ranks = np.empty(len(texts), np.int64)
    ranks[sorted(range(len(texts)), key=texts.__getitem__)] = np.arange(len(texts))
    return ranks


def _ranked(number_F: Ints, texts: list[str]) -> Ints:
    """Numbers of names as places in the order of the names; what has no name comes first."""
    distinct, place_F = np.unique(number_F, return_inverse=True)
    return _ranks([texts[number] if number != NOTHING else "" for number in distinct.tolist()])[place_F]


def _sources(source_F: list[int], begin: list[int], words: list[str]) -> list[tuple[str, ...]]:
    """Who says each edge, in order of their names."""
    ends = [*begin[1:], len(source_F)]
    known: dict[tuple[int, ...], tuple[str, ...]] = {}
    out = []
    for low, high in zip(begin, ends, strict=True):
        own = tuple(source_F[low:high])
        if own not in known:
            known[own] = tuple(sorted({words[number] for number in own}))
        out.append(known[own])
    return out
