"""Which NIC ports an address is reached by: as told, else as learnt from samples at the ports that hosts hang on."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.path.topology import Topology

VOTES_MIN = 20  # samples that must speak against what was told
SHARE_MIN = 0.9  # and their share
NOISE = 0.1  # a port with a smaller share of an address' samples is an error


@dataclass(frozen=True)
class Addresses:
    """Ports (places in the topology) of each address; `moved`: addresses whose samples contradict what was told."""

    ports_of: Mapping[str, tuple[int, ...]]
    learnt: frozenset[str]
    moved: Mapping[str, tuple[str, str, int]]  # address: told host, seen host, samples


@lru_cache(maxsize=1 << 20)
def spelled(address: str) -> str:
    """An address in one spelling: IPv4 in its own, IPv6 in short. What is no address stays as it is."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return address
    mapped = parsed.ipv4_mapped if isinstance(parsed, ipaddress.IPv6Address) else None
    return str(mapped or parsed)


def told_addresses(relation: pa.Table, topology: Topology) -> dict[str, tuple[int, ...]]:
    """Ports of each address from `address:A in port:P`; ports without a link are left out."""
    child = relation.column("child").cast(pa.string())
    rows = relation.filter(pc.starts_with(child, "address:"))
    pairs = zip(
        rows.column("child").cast(pa.string()).to_pylist(),
        rows.column("parent").cast(pa.string()).to_pylist(),
        strict=True,
    )
    places = topology.port_places
    found: dict[str, set[int]] = {}
    for address, port in pairs:
        if port in places:
            found.setdefault(spelled(address.removeprefix("address:")), set()).add(places[port])
    return {address: tuple(sorted(ports)) for address, ports in found.items()}


def addresses(
    told: Mapping[str, tuple[int, ...]], votes: Sequence[tuple[str, int, int]], topology: Topology
) -> Addresses:
    """Candidates of each address.

    Inputs: what was told; `votes`: (address, port, samples) of packets that came from the address by the link of that
    port, or went to it. A host with several ports, or a port bonded to two leaves, gives several candidates.
    """
    seen: dict[str, dict[int, int]] = {}
    for address, port, count in votes:
        if many(address):
            continue
        of = seen.setdefault(address, {})
        of[port] = of.get(port, 0) + count
    ports_of, learnt, moved = dict(told), set(), {}
    for address, counts in sorted(seen.items()):
        by_node: dict[int, int] = {}
        for port, count in counts.items():
            node = int(topology.node_P[port])
            by_node[node] = by_node.get(node, 0) + count
        node = min(by_node, key=lambda at: (-by_node[at], at))
        total = sum(by_node.values())
        mine = [port for port, count in counts.items() if topology.node_P[port] == node and count >= NOISE * total]
        if not mine:
            mine = [min((port for port in counts if topology.node_P[port] == node), key=lambda port: -counts[port])]
        hosts = {int(topology.node_P[port]) for port in told.get(address, ())}
        if not hosts:
            ports_of[address] = tuple(sorted(mine))
            learnt.add(address)
        elif node in hosts:
            ports_of[address] = tuple(sorted({*mine, *told[address]}))
        elif by_node[node] >= max(VOTES_MIN, SHARE_MIN * total):
            ports_of[address] = tuple(sorted(mine))
            moved[address] = (topology.nodes[min(hosts)], topology.nodes[node], by_node[node])
    return Addresses(ports_of, frozenset(learnt), moved)


def many(address: str) -> bool:
    """Whether an address is of many receivers (multicast, broadcast): such a flow has a tree, not a path."""
    try:
        parsed = ipaddress.ip_address(address)
    except ValueError:
        return False
    return parsed.is_multicast or address == "255.255.255.255"
