"""Samples on the fabric: groups with nodes and directions instead of names; what they say of links and addresses."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Ids, Ints, ids, ints
from leadline.analysis.path.addresses import spelled
from leadline.analysis.path.groups import Samples
from leadline.analysis.path.infer import Evidence
from leadline.analysis.path.topology import ClaimedLink, Topology
from leadline.model.ids import kind_of, name_of


@dataclass(frozen=True)
class FlowTable:
    """What flows are, arrays over F. Addresses are places in `addresses` (sorted, in one spelling)."""

    flow_F2: Ids
    addresses: list[str]
    src_F: Ints
    dst_F: Ints
    src_port_F: Ints
    dst_port_F: Ints
    protocol_F: Ints
    dst_qp_F: Ints
    tenant_F: list[str]

    def __len__(self) -> int:
        return len(self.src_F)


@dataclass(frozen=True)
class Placed:
    """Groups on the fabric, arrays over G. Nodes from `len(topology.nodes)` on are switches that it does not know."""

    node_G: Ints
    in_G: Ints  # direction, -1: no port told, or no link known behind it
    out_G: Ints
    strange_G: Bools  # a port was told that the topology does not know
    unknown: list[str]  # switches that the topology does not know


def flow_table(rows: pa.Table, row_F: Ints) -> FlowTable:
    """Five-tuples of flows, from a row of each."""
    one = rows.take(pa.array(row_F))
    src, dst = (
        [spelled(each) for each in one.column(name).cast(pa.string()).to_pylist()] for name in ("src_ip", "dst_ip")
    )
    names = sorted({*src, *dst})
    place = {name: number for number, name in enumerate(names)}
    return FlowTable(
        flow_F2=ids(one, "flow"),
        addresses=names,
        src_F=np.array([place[name] for name in src], np.int64),
        dst_F=np.array([place[name] for name in dst], np.int64),
        src_port_F=ints(one, "src_port"),
        dst_port_F=ints(one, "dst_port"),
        protocol_F=ints(one, "protocol"),
        dst_qp_F=ints(one, "dst_qp"),
        tenant_F=one.column("tenant").cast(pa.string()).to_pylist(),
    )


def placed(samples: Samples, topology: Topology) -> Placed:
    """Where on the fabric the groups were taken."""
    unknown = [name for name in samples.switches if f"switch:{name}" not in topology.node_places]
    strange = {name: len(topology.nodes) + number for number, name in enumerate(unknown)}
    node_S = np.array(
        [topology.node_places.get(f"switch:{name}", strange.get(name, -1)) for name in samples.switches], np.int64
    )
    port_in, told_in = _ports(samples, samples.in_G, topology)
    port_out, told_out = _ports(samples, samples.out_G, topology)
    in_G = np.where(port_in >= 0, topology.into_P[port_in] if len(topology.ports) else -1, -1)
    out_G = np.where(port_out >= 0, topology.out_P[port_out] if len(topology.ports) else -1, -1)
    return Placed(
        node_G=node_S[samples.switch_G] if len(node_S) else samples.switch_G,
        in_G=in_G,
        # A packet that was discarded did not leave, whatever port it was meant for.
        out_G=np.where(samples.dropped_G, -1, out_G),
        strange_G=(told_in & (port_in < 0)) | (told_out & (port_out < 0)),
        unknown=unknown,
    )


def _ports(samples: Samples, port_G: Ints, topology: Topology) -> tuple[Ints, Bools]:
    """Place of each group's port in the topology, -1 if it is not there; and whether a port was told."""
    told = port_G >= 0
    key_G = samples.switch_G * (len(samples.ports) + 1) + port_G + 1
    distinct, place_G = np.unique(key_G, return_inverse=True)
    switch, port = np.divmod(distinct, len(samples.ports) + 1)
    names = (
        f"swport:{samples.switches[s]}/{samples.ports[p - 1]}" if p else ""
        for s, p in zip(switch.tolist(), port.tolist(), strict=True)
    )
    found = np.array([topology.port_places.get(name, -1) for name in names], np.int64)
    return (found[place_G] if len(found) else port_G), told


def evidence(samples: Samples, at: Placed, topology: Topology, flows: int) -> Evidence:
    """The groups as the inference takes them. A switch tells if it sampled anything in the window."""
    nodes = len(topology.nodes)
    node_G = np.where(at.node_G < nodes, at.node_G, -1)
    mine = samples.now_G & (node_G >= 0)
    count_V = np.bincount(node_G[mine], samples.samples_G[mine], nodes)
    stood_for_V = np.bincount(node_G[mine], samples.samples_G[mine] * samples.rate_G[mine].astype(float), nodes)
    return Evidence(
        group_F=np.searchsorted(samples.flow_G, np.arange(flows + 1)).astype(np.int64),
        flow_G=samples.flow_G,
        node_G=node_G,
        in_G=at.in_G,
        out_G=at.out_G,
        samples_G=samples.samples_G,
        per_packet_V=count_V / np.maximum(stood_for_V, 1.0),
    )


def edge_votes(samples: Samples, at: Placed, flows: FlowTable, topology: Topology) -> list[tuple[str, int, int]]:
    """(address, NIC port, samples) of packets that came by the link of a NIC from the address, or went by it to it."""
    votes: dict[tuple[int, int], int] = {}
    ways = (
        (at.in_G, topology.from_D, topology.tail_D, flows.src_F),
        (at.out_G, topology.to_D, topology.head_D, flows.dst_F),
    )
    for direction_G, node_D, port_D, address_F in ways:
        g = np.flatnonzero(direction_G >= 0)
        g = g[~topology.switch_V[node_D[direction_G[g]]]]
        key = address_F[samples.flow_G[g]] * len(topology.ports) + port_D[direction_G[g]]
        distinct, place = np.unique(key, return_inverse=True)
        counts = np.bincount(place, samples.samples_G[g], len(distinct))
        for one, count in zip(distinct.tolist(), counts.tolist(), strict=True):
            pair = divmod(one, len(topology.ports))
            votes[pair] = votes.get(pair, 0) + int(count)
    return [(flows.addresses[address], port, count) for (address, port), count in sorted(votes.items())]


def link_votes(
    links: Sequence[ClaimedLink],
    contested: Mapping[str, list[int]],
    samples: Samples,
    flows: FlowTable,
    told: Mapping[str, frozenset[str]],
) -> dict[int, int]:
    """How many flows were seen at both ends of each contested link: leaving by one, coming in by the other.

    At a NIC's end counts that the flow is from, or to, an address told of that NIC (`told`: addresses by port).
    """
    votes = {}
    crossing = _Crossing(samples, flows, told)
    for place in sorted({each for places in contested.values() for each in places}):
        link = links[place]
        sides = [crossing.at(end) for end in (link.a, link.b)]
        forth = np.intersect1d(sides[0][1], sides[1][0]).size
        back = np.intersect1d(sides[1][1], sides[0][0]).size
        if forth + back:
            votes[place] = int(forth + back)
    return votes


class _Crossing:
    """Flows by port: groups and flows are sorted once, for where names differ every link may be contested."""

    def __init__(self, samples: Samples, flows: FlowTable, told: Mapping[str, frozenset[str]]) -> None:
        self._samples, self._told = samples, told
        self._switch = {name: place for place, name in enumerate(samples.switches)}
        self._port = {name: place for place, name in enumerate(samples.ports)}
        self._address = {name: place for place, name in enumerate(flows.addresses)}
        self._by_switch_G = np.argsort(samples.switch_G, kind="stable")
        self._first_S = _firsts(samples.switch_G, len(samples.switches))
        self._by_F = [np.argsort(address_F, kind="stable") for address_F in (flows.dst_F, flows.src_F)]
        self._first_A = [_firsts(address_F, len(flows.addresses)) for address_F in (flows.dst_F, flows.src_F)]

    def at(self, port: str) -> tuple[Ints, Ints]:
        """Flows that came in by a port, and that left by it."""
        if kind_of(port) == "port":
            mine = sorted(self._address[each] for each in self._told.get(port, ()) if each in self._address)
            into, out = (
                np.concatenate([np.zeros(0, np.int64), *(by_F[first_A[a] : first_A[a + 1]] for a in mine)])
                for by_F, first_A in zip(self._by_F, self._first_A, strict=True)
            )
            return into, out
        switch, _, name = name_of(port).partition("/")
        s, number = self._switch.get(switch, -1), self._port.get(name, -1)
        here = self._by_switch_G[self._first_S[s] : self._first_S[s + 1]] if min(s, number) >= 0 else np.zeros(0, int)
        into, out = (
            np.unique(self._samples.flow_G[here[port_G[here] == number]])
            for port_G in (self._samples.in_G, self._samples.out_G)
        )
        return into, out


def _firsts(place_N: Ints, count: int) -> Ints:
    """Where each place begins among the sorted ones, (count + 1,)."""
    found: Ints = np.concatenate((np.zeros(1, np.int64), np.cumsum(np.bincount(place_N, minlength=count))))
    return found
