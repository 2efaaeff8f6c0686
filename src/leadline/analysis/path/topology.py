"""The fabric as numbers, from what is told of it: nodes, ports, links; which link is used where claims contradict.

    host -- port ==link== swport -- switch -- swport ==link== swport -- switch ...

Axes: V = node (host, storage, switch), P = port, E = link, D = direction of a link: `e` goes from end a to end b of
link `e`, `E + e` back.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, codes, floats, ints
from leadline.analysis.graph.trust import Claim, chosen
from leadline.model.ids import EntityId, kind_of, link_id

FOREVER_NS = 2**63 - 1
_PORTS = ("port:", "swport:")
_NODES = {"port": "host", "swport": "switch"}


@dataclass(frozen=True, slots=True)
class ClaimedLink:
    """One link that somebody claims, both ends as entities, with the time that it held."""

    name: str
    a: str
    b: str
    from_ns: int
    to_ns: int
    sources: tuple[str, ...]
    confidence: float

    def overlaps(self, other: ClaimedLink) -> bool:
        """Whether both are claimed at some moment."""
        return self.from_ns < other.to_ns and other.from_ns < self.to_ns


@dataclass(frozen=True)
class Topology:
    """What is linked with what. Names are entity ids, sorted; numbers are places in them."""

    nodes: list[str]
    ports: list[str]
    links: list[str]
    node_P: Ints
    a_E: Ints  # port
    b_E: Ints
    switch_V: Bools

    @cached_property
    def tail_D(self) -> Ints:
        """Port that sends in each direction."""
        return np.concatenate((self.a_E, self.b_E))

    @cached_property
    def head_D(self) -> Ints:
        """Port that receives in each direction."""
        return np.concatenate((self.b_E, self.a_E))

    @cached_property
    def from_D(self) -> Ints:
        """Node that sends in each direction."""
        return self.node_P[self.tail_D]

    @cached_property
    def to_D(self) -> Ints:
        """Node that receives in each direction."""
        return self.node_P[self.head_D]

    @cached_property
    def into_P(self) -> Ints:
        """The direction that comes in at each port, -1 where no link leads to it."""
        out = np.full(len(self.ports), -1, np.int64)
        out[self.head_D] = np.arange(len(self.head_D))
        return out

    @cached_property
    def out_P(self) -> Ints:
        """The direction that leaves by each port, -1 where no link does."""
        out = np.full(len(self.ports), -1, np.int64)
        out[self.tail_D] = np.arange(len(self.tail_D))
        return out

    @cached_property
    def port_places(self) -> dict[str, int]:
        """Number of each port."""
        return {name: place for place, name in enumerate(self.ports)}

    @cached_property
    def node_places(self) -> dict[str, int]:
        """Number of each node."""
        return {name: place for place, name in enumerate(self.nodes)}

    @cached_property
    def onward(self) -> tuple[Ints, Ints]:
        """Directions between switches by the node that sends them: first place of each node (V + 1,), directions."""
        between = np.flatnonzero(self.switch_V[self.from_D] & self.switch_V[self.to_D])
        between = between[np.argsort(self.from_D[between], kind="stable")]
        first = np.searchsorted(self.from_D[between], np.arange(len(self.nodes) + 1))
        return first.astype(np.int64), between.astype(np.int64)

    def link_of(self, direction: int) -> str:
        """The link of a direction."""
        return self.links[direction % len(self.links)]


def structure(relation: pa.Table) -> pa.Table:
    """The rows of `relation` that tell the fabric: `in` and `linked`."""
    return relation.filter(pc.is_in(relation.column("kind").cast(pa.string()), pa.array(["in", "linked"])))


def claimed_links(rows: pa.Table) -> list[ClaimedLink]:
    """Every link that is claimed, once, whichever end was named first; in the order of their names."""
    linked = rows.filter(pc.equal(rows.column("kind").cast(pa.string()), "linked"))
    child, parent, source = (codes(linked, name) for name in ("child", "parent", "source"))
    from_N, to_N = ints(linked, "from_ns").tolist(), ints(linked, "to_ns", FOREVER_NS).tolist()
    sure_N = np.nan_to_num(floats(linked, "confidence")).tolist()
    found: dict[str, list[int]] = {}
    for row, (a, b) in enumerate(zip(child.code_N.tolist(), parent.code_N.tolist(), strict=True)):
        ends = child.names[a], parent.names[b]
        if ends[0] != ends[1] and ends[0].startswith(_PORTS) and ends[1].startswith(_PORTS):
            found.setdefault(link_id(*ends), []).append(row)
    source_N = source.code_N.tolist()
    out = []
    for name in sorted(found):
        at = found[name]
        a, b = sorted((child.names[child.code_N[at[0]]], parent.names[parent.code_N[at[0]]]))
        sources = tuple(sorted({source.names[source_N[row]] for row in at if source_N[row] >= 0}))
        from_ns, to_ns = min(from_N[row] for row in at), max(to_N[row] for row in at)
        out.append(ClaimedLink(name, a, b, from_ns, to_ns, sources, max(sure_N[row] for row in at)))
    return out


def contested(links: Sequence[ClaimedLink]) -> dict[str, list[int]]:
    """Ports that two links or more are claimed of at one time, with the numbers of these links."""
    of_port: dict[str, list[int]] = {}
    for place, link in enumerate(links):
        of_port.setdefault(link.a, []).append(place)
        of_port.setdefault(link.b, []).append(place)
    several = {port: places for port, places in of_port.items() if len(places) > 1}
    return {
        port: places
        for port, places in sorted(several.items())
        if any(links[x].overlaps(links[y]) for at, x in enumerate(places) for y in places[:at])
    }


def used_links(links: Sequence[ClaimedLink], votes: Mapping[int, int]) -> Bools:
    """Which of the claimed links are used: at any time a port has one link.

    Where claims contradict, the link that more flows were seen on (`votes`, by number of the link) is used; without
    votes, the one that `trust` chooses.
    """
    used = np.ones(len(links), bool)
    places = {place for places in contested(links).values() for place in places}
    taken: dict[str, list[int]] = {}
    left = sorted(places)
    used[left] = False
    while left:
        most = max(votes.get(place, 0) for place in left)
        best = [place for place in left if votes.get(place, 0) == most]
        claims = [Claim(links[i].name, links[i].sources, links[i].from_ns, links[i].confidence) for i in best]
        pick = best[chosen(claims)]
        left.remove(pick)
        rivals = taken.get(links[pick].a, []) + taken.get(links[pick].b, [])
        if not any(links[pick].overlaps(links[rival]) for rival in rivals):
            used[pick] = True
            taken.setdefault(links[pick].a, []).append(pick)
            taken.setdefault(links[pick].b, []).append(pick)
    return used


def topology(rows: pa.Table, links: Sequence[ClaimedLink]) -> Topology:
    """The fabric of these links; `rows` as of `structure`, which tell where ports are.

    A port that nobody told the place of belongs to what its name says: `port:h3/eth0` to `host:h3`. A port that has had
    several links in the window leads to the one of the latest begin.
    """
    links = sorted(links, key=lambda link: (link.from_ns, link.name))
    names = sorted({end for link in links for end in (link.a, link.b)})
    place = {name: number for number, name in enumerate(names)}
    node_of = nodes_of_ports(rows, names)
    nodes = sorted(set(node_of))
    node_place = {name: number for number, name in enumerate(nodes)}
    return Topology(
        nodes=nodes,
        ports=names,
        links=[link.name for link in links],
        node_P=np.array([node_place[node] for node in node_of], np.int64),
        a_E=np.array([place[link.a] for link in links], np.int64),
        b_E=np.array([place[link.b] for link in links], np.int64),
        switch_V=np.array([kind_of(node) == "switch" for node in nodes], bool),
    )


def nodes_of_ports(rows: pa.Table, ports: Sequence[str]) -> list[str]:
    """The host, storage or switch of each port: as told, else as its name says."""
    inside = rows.filter(pc.equal(rows.column("kind").cast(pa.string()), "in"))
    child = inside.column("child").cast(pa.string()).to_pylist()
    parent = inside.column("parent").cast(pa.string()).to_pylist()
    told: dict[str, str] = {}
    for port, node in sorted(zip(child, parent, strict=True)):
        if port.startswith(_PORTS) and kind_of(node) in ("host", "storage", "switch"):
            told.setdefault(port, node)
    return [told.get(port) or named_node(port) for port in ports]


def named_node(port: str) -> str:
    """The node that a port's name names: `swport:leaf1/Ethernet3` is of `switch:leaf1`."""
    kind, name = EntityId.of(port)
    return f"{_NODES[kind]}:{name.rpartition('/')[0] or name}"
