"""What `ip`, `tc` and the sysctls are told to make a topology real: text derived from data, nothing is done here.

switch port:  htb root, one class at the link's rate, below it a first-in-first-out queue of `queue_bytes`
host port:    the same with a long queue: a NIC sends no faster than its line either, and holds its sender back
              where a switch would drop. So a fabric without contention drops nothing.
machine:      hosts of one machine share what passes between a leaf and them: all their ports at the leaf send
              through one shaped ifb, and receive through another.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from zlib import crc32

from leadline.lab.topology.parts import Host, Switch, Topology
from leadline.lab.topology.routing import Route, routes, rules

A_INDEX = 1000  # first interface number of the `a` ends; no node has so many ports

# Written inside each new namespace before its links are there. A path that this kernel has not is left out, except
# those of ROUTER_MUST.
EVERY_NODE = {
    # Routed IPv4 only: no router solicitations and no address detection between the samples.
    "net/ipv6/conf/all/disable_ipv6": "1",
    "net/ipv6/conf/default/disable_ipv6": "1",
    # Replies may come back by the other NIC.
    "net/ipv4/conf/all/rp_filter": "0",
    "net/ipv4/conf/default/rp_filter": "0",
    # A link without carrier is not used: this is what makes a host fall back to its other NIC.
    "net/ipv4/conf/all/ignore_routes_with_linkdown": "1",
    "net/ipv4/conf/default/ignore_routes_with_linkdown": "1",
    # Two NICs in different networks: answer for an address only where it lives.
    "net/ipv4/conf/all/arp_ignore": "1",
    "net/ipv4/conf/all/arp_announce": "2",
    # Each flow to one CPU: veth would else reorder packets between them, which a healthy cable does not do (a RoCEv2
    # job counted up to 1,473 out_of_sequence on clos8 without a loss, and none with this).
    "net/core/rps_default_mask": f"{(1 << (os.cpu_count() or 1)) - 1:x}",
    # What one connection learned about a peer shall not slow the next job's.
    "net/ipv4/tcp_no_metrics_save": "1",
    # A namespace inherits the machine's default, and may change to an algorithm that is open to everyone only. BBR
    # collapses in shallow queues; CUBIC would first have to be opened for the whole machine, and a killed lab would
    # leave it so. Reno is always open, and fills these queues as well as CUBIC: they are deeper than the path is long.
    "net/ipv4/tcp_congestion_control": "reno",
}
ROUTER = {
    "net/ipv4/ip_forward": "1",
    "net/ipv4/fib_multipath_hash_policy": "3",
    "net/ipv4/fib_multipath_hash_fields": "55",  # addresses, protocol, ports
}
HOST_QUEUE_BYTES = 4_000_000  # more than the send buffers of a dozen sockets: senders wait, nothing is dropped
BURST_MS = 2  # at 1 ms ports of 250 Mbit/s carried 97 % of their rate on 2 busy cores, at 2 ms 99 %

MUST = frozenset({"net/ipv4/ip_forward", "net/ipv4/tcp_congestion_control"})


def sysctls(topology: Topology, node: str) -> dict[str, str]:
    """Settings of a node, by path below /proc/sys."""
    if not isinstance(topology.node(node), Switch):
        return EVERY_NODE
    # Each switch hashes differently, or all would make the same choice; and the same in every run.
    seed = crc32(f"{topology.name}/{node}".encode()) or 1
    return EVERY_NODE | ROUTER | {"net/ipv4/fib_multipath_hash_seed": str(seed)}


def cable_lines(topology: Topology, namespace_of: dict[str, str]) -> list[str]:
    """`ip -batch` in the machine's own namespace: every veth pair, each end born where it belongs, `a` ends up.

    The two ends of a pair get different interface numbers: with equal ones the kernel takes a lost carrier for no
    news of another device and tells of it only once a second.
    """
    place = {port.id: number for node in topology.nodes for number, port in enumerate(topology.node(node).ports)}
    return [
        f"link add name {link.a.name} index {A_INDEX + place[link.a.id]} up "
        f"address {link.a.mac} mtu {topology.shape.mtu_bytes} netns {namespace_of[link.a.node]} type veth "
        f"peer name {link.b.name} address {link.b.mac} mtu {topology.shape.mtu_bytes} "
        f"netns {namespace_of[link.b.node]}"
        for link in topology.links
    ]


def node_lines(topology: Topology) -> dict[str, list[str]]:
    """`ip -batch` inside each node: addresses, links up, routes."""
    route_table, rule_table = routes(topology), rules(topology)
    found = {}
    for name in topology.nodes:
        lines = ["link set lo up"]
        for port in topology.node(name).ports:
            lines.append(f"address add {port.address}/{port.prefix_len} dev {port.name}")
            lines.append(f"link set {port.name} up")
        lines += [route_line("add", route) for route in route_table[name]]
        lines += [line for uplink in shared_uplinks(topology, name) for line in uplink.ip_lines()]
        for place, rule in enumerate(rule_table.get(name, ())):
            lines.append(f"rule add from {rule.address} lookup {rule.table} priority {1000 + place}")
        found[name] = lines
    return found


def in_order(topology: Topology) -> tuple[list[str], list[str]]:
    """The nodes that are set up first, and those after them: those with `b` ends, and the rest.

    So every port has its carrier before a route over it is made. A route made without is passed over until the kernel
    looks at carriers again, which on a busy machine takes a second.
    """
    first = {link.b.node for link in topology.links}
    return [node for node in topology.nodes if node in first], [node for node in topology.nodes if node not in first]


def route_line(verb: str, route: Route) -> str:
    """One line of `ip -batch` for a route; `verb` is add, replace or del."""
    line = f"route {verb} {route.prefix}"
    if route.metric:
        line += f" metric {route.metric}"
    if route.table:
        line += f" table {route.table}"
    if len(route.hops) == 1:
        return f"{line} via {route.hops[0].via} dev {route.hops[0].port}"
    return line + "".join(f" nexthop via {hop.via} dev {hop.port}" for hop in route.hops)


def route_changes(before: tuple[Route, ...], after: tuple[Route, ...]) -> list[str]:
    """Lines of `ip -batch` that lead from one table to another."""
    gone = {(route.prefix, route.metric, route.table): route for route in before}
    lines = []
    for route in after:
        if gone.pop((route.prefix, route.metric, route.table), None) != route:
            lines.append(route_line("replace", route))
    return lines + [route_line("del", route) for route in gone.values()]


def shape_lines(port: str, rate_bps: int, queue_bytes: int) -> list[str]:
    """`tc -batch` for the first shaping of a port."""
    burst = burst_bytes(rate_bps)
    return [
        f"qdisc add dev {port} root handle 1: htb default 10 r2q 1000",
        f"class add dev {port} parent 1: classid 1:10 htb rate {rate_bps}bit burst {burst} cburst {burst}",
        f"qdisc add dev {port} parent 1:10 handle 10: bfifo limit {queue_bytes}",
    ]


def reshape_lines(port: str, rate_bps: int, queue_bytes: int) -> list[str]:
    """`tc -batch` that changes a shaped port while packets are in its queue; none of them is lost."""
    burst = burst_bytes(rate_bps)
    return [
        f"class change dev {port} parent 1: classid 1:10 htb rate {rate_bps}bit burst {burst} cburst {burst}",
        f"qdisc change dev {port} parent 1:10 handle 10: bfifo limit {queue_bytes}",
    ]


def burst_bytes(rate_bps: int) -> int:
    """What a port may send at once: `BURST_MS` at its rate, which late timers need, but at least two long frames."""
    return max(20_000, rate_bps * BURST_MS // 8000)


def node_shapes(topology: Topology) -> dict[str, list[str]]:
    """`tc -batch` inside each node: every port shaped to its link's rate, and what machines share."""
    found = {}
    for name in topology.nodes:
        node = topology.node(name)
        lines = []
        for port in node.ports:
            link = topology.link_of(port)
            queue_bytes = HOST_QUEUE_BYTES if isinstance(node, Host) else link.queue_bytes
            lines += shape_lines(port.name, link.rate_bps, queue_bytes)
        found[name] = lines + [line for uplink in shared_uplinks(topology, name) for line in uplink.tc_lines()]
    return found


@dataclass(frozen=True, slots=True)
class SharedUplink:
    """What the hosts of a machine share at one leaf: two ifb devices that all their ports' packets pass."""

    machine: str
    ports: tuple[str, ...]  # of the leaf
    rate_bps: int
    queue_bytes: int

    def ip_lines(self) -> list[str]:
        """`ip -batch` that makes the devices."""
        return [line for name in self._names for line in (f"link add {name} type ifb", f"link set {name} up")]

    def tc_lines(self) -> list[str]:
        """`tc -batch` that shapes them and sends the ports' packets through."""
        lines = [line for name in self._names for line in shape_lines(name, self.rate_bps, self.queue_bytes)]
        out, into = self._names
        for port in self.ports:
            lines.append(f"qdisc add dev {port} clsact")
            for side, device in (("egress", out), ("ingress", into)):
                # u32 matching nothing in particular: matchall is not in every kernel.
                lines.append(
                    f"filter add dev {port} {side} protocol all u32 match u32 0 0 "
                    f"action mirred egress redirect dev {device}"
                )
        return lines

    @property
    def _names(self) -> tuple[str, str]:
        return f"{self.machine}-out", f"{self.machine}-in"


def shared_uplinks(topology: Topology, node: str) -> list[SharedUplink]:
    """The shared uplinks at a node: none but at leaves, and only of machines with several hosts."""
    shape = topology.shape
    found = []
    for machine, hosts in topology.machines().items():
        members = {host.name for host in hosts}
        ports = tuple(
            port.name for port, peer in topology.neighbours(node) if port.role == "backend" and peer.node in members
        )
        if len(members) > 1 and ports and isinstance(topology.node(node), Switch):
            found.append(SharedUplink(machine, ports, shape.machine_bps, shape.queue_bytes))
    return found
