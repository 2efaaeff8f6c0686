"""Fabrics that are not the full Clos: some links are not there, and who cannot be reached then."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace
from itertools import combinations

from leadline.lab.topology.parts import Host, Port, Role, Switch, Topology
from leadline.lab.topology.routing import NO_LINKS, leaf_prefix, routes


def without(topology: Topology, names: Collection[str]) -> Topology:
    """The topology without these links (`leaf1~spine1`) and their ports; the others keep their names and addresses.

    Errors: UsageError for a link that is not there.
    """
    gone = {topology.link_between(name).id for name in names}
    lost = {port.id for link in topology.links if link.id in gone for port in link.ends}

    def kept(ports: tuple[Port, ...]) -> tuple[Port, ...]:
        return tuple(port for port in ports if port.id not in lost)

    return Topology(
        name=topology.name,
        hosts=tuple(replace(host, ports=kept(host.ports)) for host in topology.hosts),
        switches=tuple(replace(switch, ports=kept(switch.ports)) for switch in topology.switches),
        links=tuple(link for link in topology.links if link.id not in gone),
        storage=tuple(replace(host, ports=kept(host.ports)) for host in topology.storage),
        shape=topology.shape,
    )


def cut_off(topology: Topology, down: Collection[str] = NO_LINKS) -> list[str]:
    """Who cannot be reached when the links `down` are dead, one phrase each; empty where all reach each other.

    A host needs a link to the backend and to the front end. Leaves that have hosts need a spine in common: the lab's
    routes go up once and down once, as in a real Clos. Every NIC counts, not only the one that is used first: what is
    sent from its address leaves by it.
    """
    lacks = []
    for host in (*topology.hosts, *topology.storage):
        alive = {port.role for port in host.ports if topology.link_of(port).id not in down}
        needed: tuple[Role, ...] = ("storage",) if host in topology.storage else ("backend", "frontend")
        lacks += [f"{host.name} has no {role} link" for role in needed if role not in alive]
    if lacks:
        return lacks  # a host without any port has no routes to ask for
    reached = {name: {route.prefix for route in table} for name, table in routes(topology, down).items()}
    leaves = [switch.name for switch in topology.switches if switch.tier == "leaf" and _has_hosts(topology, switch)]
    for here, there in combinations(leaves, 2):
        if leaf_prefix(there) not in reached[here]:
            lacks.append(f"no spine is linked to both {here} and {there}")
    return lacks


def _has_hosts(topology: Topology, leaf: Switch) -> bool:
    return any(isinstance(topology.node(peer.node), Host) for _, peer in topology.neighbours(leaf.name))
