"""The routes of every node as data: what BGP would have computed on this Clos, for a given set of dead links.

Leaves send to other leaves by all spines that reach them (ECMP), spines straight down, hosts out of their primary NIC
or, when that has no carrier, out of another. A packet that has a host's address goes out of the NIC that owns it.
Routes to directly linked /31 networks are the kernel's own and not listed.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import NamedTuple

from leadline.lab.topology.parts import Host, Link, Switch, Topology

NO_LINKS: frozenset[str] = frozenset()
FRONTEND_PREFIX = "172.16.0.0/16"
METRIC_PRIMARY, METRIC_FALLBACK = 100, 200
TABLE_FIRST = 101  # a host's table for what is sent from the address of rail 0; rail 1 has 102


class Hop(NamedTuple):
    """A next hop: the neighbour's address, and our port towards it."""

    via: str
    port: str


class Route(NamedTuple):
    """Where a prefix is sent. Several hops share it by hash (ECMP). Table 0 is the main one."""

    prefix: str
    hops: tuple[Hop, ...]
    metric: int = 0
    table: int = 0


class Rule(NamedTuple):
    """What is sent from this address looks at this table first."""

    address: str
    table: int


class EcmpGroup(NamedTuple):
    """Hops among which a switch chooses by hash."""

    switch: str
    prefix: str
    hops: tuple[Hop, ...]


def routes(topology: Topology, down: Collection[str] = NO_LINKS) -> dict[str, tuple[Route, ...]]:
    """Routes of every node when the links with the ids `down` are dead and everyone knows it.

    A host keeps its routes over a dead link: whether they are used is up to the carrier, as on a real host.
    """
    found: dict[str, tuple[Route, ...]] = {}
    for switch in topology.switches:
        found[switch.name] = _SWITCH_ROUTES[switch.tier](topology, switch, down)
    for host in (*topology.hosts, *topology.storage):
        found[host.name] = _host_routes(topology, host)
    return found


def rules(topology: Topology) -> dict[str, tuple[Rule, ...]]:
    """Source rules of every host that has several backend NICs; other nodes have none."""
    return {
        host.name: tuple(Rule(port.address, TABLE_FIRST + rail) for rail, port in enumerate(host.backend))
        for host in topology.hosts
        if len(host.backend) > 1
    }


def ecmp_groups(topology: Topology, down: Collection[str] = NO_LINKS) -> tuple[EcmpGroup, ...]:
    """All (switch, prefix) with more than one hop."""
    return tuple(
        EcmpGroup(node, route.prefix, route.hops)
        for node, table in routes(topology, down).items()
        for route in table
        if len(route.hops) > 1
    )


def leaf_prefix(leaf: str) -> str:
    """The network that a leaf owns: leaf3 has 10.3.0.0/16."""
    return f"10.{leaf.removeprefix('leaf')}.0.0/16"


def _uplinks(topology: Topology, node: str, down: Collection[str]) -> dict[str, Link]:
    """Live leaf-spine links of a switch, by the name of the switch at the other end."""
    found = {}
    for port, peer in topology.neighbours(node):
        link = topology.link_of(port)
        if link.id not in down and isinstance(topology.node(peer.node), Switch):
            found[peer.node] = link
    return found


def _leaf_routes(topology: Topology, leaf: Switch, down: Collection[str]) -> tuple[Route, ...]:
    up = _uplinks(topology, leaf.name, down)
    reached_by = {spine: _uplinks(topology, spine, down) for spine in up}
    found = []
    for other in topology.switches:
        if other.tier != "leaf" or other is leaf:
            continue
        hops = tuple(Hop(link.b.address, link.a.name) for spine, link in up.items() if other.name in reached_by[spine])
        if hops:
            found.append(Route(leaf_prefix(other.name), hops))
    return tuple(found)


def _spine_routes(topology: Topology, spine: Switch, down: Collection[str]) -> tuple[Route, ...]:
    return tuple(
        Route(leaf_prefix(leaf), (Hop(link.a.address, link.b.name),))
        for leaf, link in _uplinks(topology, spine.name, down).items()
    )


def _no_routes(topology: Topology, switch: Switch, down: Collection[str]) -> tuple[Route, ...]:
    return ()


_SWITCH_ROUTES = {"leaf": _leaf_routes, "spine": _spine_routes, "frontend": _no_routes}


def _host_routes(topology: Topology, host: Host) -> tuple[Route, ...]:
    out = {port.name: (Hop(topology.neighbour(port).address, port.name),) for port in host.ports}
    if not host.backend:
        return (Route("default", out[host.primary.name], METRIC_PRIMARY),)
    found = [Route(FRONTEND_PREFIX, out[port.name]) for port in host.ports if port.role == "frontend"]
    fallback = METRIC_FALLBACK
    for rail, port in enumerate(host.backend):
        if port == host.primary:
            found.append(Route("default", out[port.name], METRIC_PRIMARY))
        else:
            found.append(Route("default", out[port.name], fallback))
            fallback += 1
        if len(host.backend) > 1:
            found.append(Route("default", out[port.name], 0, TABLE_FIRST + rail))
    return tuple(found)
