"""Cables and port names held against samples: what leaves by one end of a link comes in at its other end.

A link of which that is not so for most flows is wrong in one of two ways. If the flows come in at another port of the
same switch, that switch names its ports wrongly: its samples are taken by the names that fit. If they come in at
another switch, the cable runs there: the link is taken to run where the samples say. Two exchanged cables of one switch
look like the former; `conflict` says so.

Axes: D = direction of a link, Q = (flow, port) pairs.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.conflict import Conflict
from leadline.analysis.path.groups import Samples
from leadline.analysis.path.seen import FlowTable, Placed
from leadline.analysis.path.topology import FOREVER_NS, ClaimedLink, Topology
from leadline.model.ids import link_id

EXPECTED_MIN = 3.0  # samples that a flow should have at the other end before their absence says anything
MISSING_MIN = 20.0  # samples that must be missing at the other end in all before a link is doubted
COMMON_MIN = 20.0  # samples of the flows that two ports have in common, for a wire
MATCH_MIN = 0.5  # of the flows of a link that is as it is told
LIKE_MIN = 0.7  # flows of two ports in common, of all of both, for a wire
PAIRS_MAX = 20_000_000  # of ports that share a flow


@dataclass(frozen=True)
class Wiring:
    """What samples say against the fabric as it is told."""

    renamed: dict[str, str]  # port as its switch names it: port that it is
    doubted: frozenset[str]  # ports whose samples fit nothing: their names are not used
    relinked: tuple[tuple[str, str], ...]  # cables as they run
    marks: tuple[Conflict, ...]


@dataclass(frozen=True)
class _Pairs:
    """(flow, port) pairs with the packets that they stand for, sorted by port."""

    port_Q: Ints
    flow_Q: Ints
    packets_Q: Floats
    aimed_Q: Bools  # the flow's other end is told: whether it should show at a NIC is known


def wiring(
    samples: Samples,
    at: Placed,
    flows: FlowTable,
    topology: Topology,
    ports_of: Sequence[tuple[int, ...]],
    from_ns: int,
) -> Wiring:
    """Hold every link against the flows that crossed it.

    Inputs: groups and where they were taken; `ports_of`: NIC ports told of each address of `flows` (none if not told).
    """
    ends = len(topology.ports)
    if not ends or not len(flows):
        return Wiring({}, frozenset(), (), ())
    alone_A = np.array([ports[0] if len(ports) == 1 else -1 for ports in ports_of], np.int64)
    src_F, dst_F = alone_A[flows.src_F], alone_A[flows.dst_F]
    out = _pairs(samples, at.out_G, topology.tail_D, src_F, dst_F)
    into = _pairs(samples, at.in_G, topology.head_D, dst_F, src_F)
    per_packet_P = _per_packet(samples, at, topology)
    peer_P = np.full(ends, -1, np.int64)
    peer_P[topology.a_E], peer_P[topology.b_E] = topology.b_E, topology.a_E
    wrong = [
        _suspicious(out, into, peer_P, per_packet_P, topology, len(flows)),
        _suspicious(into, out, peer_P, per_packet_P, topology, len(flows)),
    ]
    suspects = wrong[0] | wrong[1] | _peers(wrong[0] | wrong[1], peer_P)
    if not suspects.any():
        return Wiring({}, frozenset(), (), ())
    wires = _wires(out, into, suspects, per_packet_P, peer_P, topology)
    return _decided(wires, suspects, peer_P, topology, from_ns)


def _pairs(samples: Samples, direction_G: Ints, port_D: Ints, nic_F: Ints, other_F: Ints) -> _Pairs:
    """Flows by port: as switches tell, and at NICs as addresses do."""
    g = np.flatnonzero(direction_G >= 0)
    f = np.flatnonzero(nic_F >= 0)
    port = np.concatenate((port_D[direction_G[g]], nic_F[f]))
    flow = np.concatenate((samples.flow_G[g], f))
    # What a NIC sends or takes is about the most that any switch saw of the flow.
    packets_G = samples.samples_G * samples.rate_G.astype(np.float64)
    most_F = np.zeros(len(nic_F))
    np.maximum.at(most_F, samples.flow_G, packets_G)
    packets = np.concatenate((packets_G[g], most_F[f]))
    key, place = np.unique(port * len(nic_F) + flow, return_inverse=True)
    flow_Q = key % len(nic_F)
    total: Floats = np.bincount(place, packets, len(key)).astype(np.float64)
    return _Pairs(key // len(nic_F), flow_Q, total, other_F[flow_Q] >= 0)


def _per_packet(samples: Samples, at: Placed, topology: Topology) -> Floats:
    """Chance that a packet that passes a port is told of there: the switch's sampling; 1 at a NIC (by its address)."""
    nodes = len(topology.nodes) + len(at.unknown)
    count = np.bincount(at.node_G, samples.samples_G, nodes)
    stood_for = np.bincount(at.node_G, samples.samples_G * samples.rate_G.astype(float), nodes)
    per_packet_V = np.where(count > 0, count / np.maximum(stood_for, 1.0), 0.0)[: len(topology.nodes)]
    per_packet_V = np.where(topology.switch_V, per_packet_V, 1.0)
    found: Floats = per_packet_V[topology.node_P]
    return found


def _suspicious(
    here: _Pairs, there: _Pairs, peer_P: Ints, per_packet_P: Floats, topology: Topology, flows: int
) -> Bools:
    """Ports most of whose flows do not show at the other end of the link, where they should, (P,)."""
    peer_Q = peer_P[here.port_Q]
    nic_Q = ~topology.switch_V[topology.node_P[peer_Q]]
    expected_Q = here.packets_Q * per_packet_P[peer_Q]
    q = np.flatnonzero((peer_Q >= 0) & (expected_Q >= EXPECTED_MIN) & (here.aimed_Q | ~nic_Q))
    seen = np.isin(peer_Q[q] * flows + here.flow_Q[q], there.port_Q * flows + there.flow_Q)
    of = np.bincount(here.port_Q[q], minlength=len(peer_P))
    matching = np.bincount(here.port_Q[q[seen]], minlength=len(peer_P))
    missing = np.bincount(here.port_Q[q[~seen]], expected_Q[q[~seen]], len(peer_P))
    found: Bools = (missing >= MISSING_MIN) & (matching < MATCH_MIN * of)
    return found


def _peers(of_P: Bools, peer_P: Ints) -> Bools:
    out = np.zeros_like(of_P)
    mine = np.flatnonzero(of_P)
    out[peer_P[mine][peer_P[mine] >= 0]] = True
    return out


def _wires(
    out: _Pairs, into: _Pairs, suspects: Bools, per_packet_P: Floats, peer_P: Ints, topology: Topology
) -> list[tuple[int, int]]:
    """Pairs of suspicious ports that have the same flows: what leaves by one comes in at the other.

    Of pairs that have as much in common those come first that a switch with wrong names explains.
    """
    q = np.flatnonzero(suspects[out.port_Q])
    r = np.flatnonzero(suspects[into.port_Q])
    r = r[np.argsort(into.flow_Q[r], kind="stable")]
    first = np.searchsorted(into.flow_Q[r], out.flow_Q[q], "left")
    count = np.searchsorted(into.flow_Q[r], out.flow_Q[q], "right") - first
    if not count.any() or count.sum() > PAIRS_MAX:
        return []
    left = np.repeat(q, count)
    right = r[np.repeat(first - np.concatenate(([0], np.cumsum(count)[:-1])), count) + np.arange(count.sum())]
    ends = len(suspects)
    a, b = out.port_Q[left], into.port_Q[right]
    told = np.minimum(out.packets_Q[left] * per_packet_P[a], into.packets_Q[right] * per_packet_P[b])
    key, place = np.unique(np.minimum(a, b) * ends + np.maximum(a, b), return_inverse=True)
    common = np.bincount(place, minlength=len(key))
    strength = np.bincount(place, told, len(key))
    a, b = np.divmod(key, ends)
    # Both directions of a wire together: flows that leave by a and come in at b, and those that go back.
    of_P = np.bincount(out.port_Q, minlength=ends) + np.bincount(into.port_Q, minlength=ends)
    like = 2.0 * common / np.maximum(of_P[a] + of_P[b], 1)
    node_P = np.append(topology.node_P, -1)
    named = (node_P[peer_P[a]] == node_P[b]) | (node_P[peer_P[b]] == node_P[a])
    good = np.flatnonzero((node_P[a] != node_P[b]) & (strength >= COMMON_MIN) & (like >= LIKE_MIN))
    good = good[np.lexsort((key[good], -like[good], -common[good], ~named[good]))]
    taken: set[int] = set()
    found = []
    for x in good.tolist():
        pair = int(a[x]), int(b[x])
        if not taken & set(pair):
            taken |= set(pair)
            found.append(pair)
    return sorted(found)


def _decided(wires: list[tuple[int, int]], suspects: Bools, peer_P: Ints, topology: Topology, from_ns: int) -> Wiring:
    """Whose names are wrong, and which cables run elsewhere."""
    doubt_V = np.bincount(topology.node_P[suspects], minlength=len(topology.nodes))
    wrong = [pair for pair in wires if peer_P[pair[0]] != pair[1]]
    renamed = dict(filter(None, (_misnamed(pair, doubt_V, peer_P, topology) for pair in wrong)))
    left = [pair for pair in wrong if not renamed.keys() & set(pair)]
    elsewhere = []
    for pair in left:
        both = _both_misnamed(pair, renamed, peer_P, topology)
        renamed |= both
        if not both:
            elsewhere.append(pair)
    found = {port for pair in wires for port in pair}
    doubted = frozenset(np.flatnonzero(suspects & topology.switch_V[topology.node_P]).tolist()) - found
    marks = [_moved_cable(a, b, peer_P, topology, from_ns) for a, b in elsewhere]
    marks += _wrong_names(renamed, doubted, topology, from_ns)
    names = topology.ports
    return Wiring(
        {names[port]: names[true] for port, true in renamed.items()},
        frozenset(names[port] for port in doubted),
        tuple((names[a], names[b]) for a, b in elsewhere),
        tuple(marks),
    )


def _misnamed(pair: tuple[int, int], doubt_V: Ints, peer_P: Ints, topology: Topology) -> tuple[int, int] | None:
    """The port of a wire that its switch misnames, and which it is: the one that the other port is linked to.

    If it could be either, it is the one of the switch with more ports in doubt.
    """
    options = []
    for port, other in (pair, pair[::-1]):
        true, node = int(peer_P[other]), topology.node_P[port]
        if true >= 0 and topology.node_P[true] == node and topology.switch_V[node]:
            options.append((-int(doubt_V[node]), port, true))
    return min(options)[1:] if options else None


def _both_misnamed(pair: tuple[int, int], renamed: dict[int, int], peer_P: Ints, topology: Topology) -> dict[int, int]:
    """Both ports of a wire between two switches that are told to be linked by another pair of ports, and only one.

    That both switches misname their ports is likelier than a second cable between the two.
    """
    here, there = topology.node_P[pair[0]], topology.node_P[pair[1]]
    if not (topology.switch_V[here] and topology.switch_V[there]):
        return {}
    mine = np.flatnonzero(topology.node_P == here)
    between = mine[(peer_P[mine] >= 0) & (topology.node_P[peer_P[mine]] == there)].tolist()
    free = [port for port in between if not {port, int(peer_P[port])} & set(renamed.values())]
    return {pair[0]: free[0], pair[1]: int(peer_P[free[0]])} if len(free) == 1 else {}


def _moved_cable(a: int, b: int, peer_P: Ints, topology: Topology, from_ns: int) -> Conflict:
    seen = link_id(topology.ports[a], topology.ports[b])
    told = sorted({link_id(topology.ports[end], topology.ports[peer_P[end]]) for end in (a, b) if peer_P[end] >= 0})
    text = (
        f"flows that leave by {topology.ports[a]} come in at {topology.ports[b]}, but {', '.join(told)} is reported: "
        f"check the cable, or correct the inventory"
    )
    return Conflict(topology.ports[a], "two-links", from_ns, None, (seen, *told), ("samples",), seen, 1, text)


def _wrong_names(renamed: dict[int, int], doubted: frozenset[int], topology: Topology, from_ns: int) -> list[Conflict]:
    """One row for each switch whose samples name ports wrongly."""
    of_node: dict[int, list[int]] = {}
    for port in sorted({*renamed, *doubted}):
        of_node.setdefault(int(topology.node_P[port]), []).append(port)
    out = []
    for node, ports in of_node.items():
        named = [port for port in ports if port in renamed]
        if not named:
            continue
        shown = ", ".join(
            f"{topology.ports[port].partition('/')[2]} is {topology.ports[renamed[port]].partition('/')[2]}"
            for port in named[:8]
        )
        text = (
            f"samples of {topology.nodes[node]} name ports that contradict its neighbours' ({shown}): look at "
            f"the port numbers of its sFlow agent; or the cables of these ports are exchanged"
        )
        claims = tuple(topology.ports[port] for port in ports)
        out.append(
            Conflict(topology.nodes[node], "wrong-port", from_ns, None, claims, ("sflow",), None, len(ports), text)
        )
    return out


def rewired(links: Sequence[ClaimedLink], found: Wiring) -> list[ClaimedLink]:
    """The links with the cables that run elsewhere as they run."""
    ends = {end for pair in found.relinked for end in pair}
    kept = [link for link in links if link.a not in ends and link.b not in ends]
    added = (sorted(pair) for pair in found.relinked)
    return [*kept, *(ClaimedLink(link_id(a, b), a, b, 0, FOREVER_NS, ("samples",), 0.5) for a, b in added)]


def corrected(at: Placed, found: Wiring, topology: Topology) -> Placed:
    """The groups with ports as they are: by the names that fit, without those that are in doubt."""
    if not found.renamed and not found.doubted:
        return at
    places = topology.port_places
    true_P = np.arange(len(topology.ports))
    for port in found.doubted & places.keys():
        true_P[places[port]] = -1
    for port, true in found.renamed.items():
        if port in places:
            true_P[places[port]] = places.get(true, -1)
    in_G = _again(at.in_G, topology.head_D, true_P, topology.into_P)
    out_G = _again(at.out_G, topology.tail_D, true_P, topology.out_P)
    return replace(at, in_G=in_G, out_G=out_G)


def _again(direction_G: Ints, port_D: Ints, true_P: Ints, direction_P: Ints) -> Ints:
    port_G = np.where(direction_G >= 0, true_P[port_D[direction_G]], -1)
    found: Ints = np.where(port_G >= 0, direction_P[port_G], -1)
    return found
