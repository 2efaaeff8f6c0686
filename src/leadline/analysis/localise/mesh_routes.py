"""Which links probes cross: by traces of routers, and where there is none by what is known of the ends.

    probe_hop:  address ── in ──> switch port ── linked ──> the link that was crossed, towards that switch
    the last switch ── linked ──> the port of the receiver there, if it has one only

Without a trace: the only port of a host, and its link; what lies between switches stays unknown, so that such a path
speaks neither for what is there nor against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Ints, codes, ints, number_of
from leadline.model.ids import EntityId, kind_of, link_id, name_of

Way = tuple[str, str, int, int]
"""Sender, receiver, source port, traffic class."""

HOPS_MAX = 32
NOBODY = 0  # in place of an address: nobody answered


@dataclass(frozen=True, slots=True)
class Wiring:
    """What hangs on what."""

    far: Mapping[str, str]  # other end of each end's link
    end_of: Mapping[str, str]  # switch port of an address
    ports_of: Mapping[str, tuple[str, ...]]  # linked ports of each host
    switches: frozenset[str]

    def towards(self, end: str) -> tuple[str, str]:
        """The link of an end, as it is crossed to get there."""
        return link_id(end, self.far[end]), _node(end)


@dataclass(frozen=True, slots=True)
class Traced:
    """How W ways ran: V versions in order of way and time, each from its first trace to its last before one differs."""

    way_V: Ints
    since_V: Ints
    until_V: Ints
    answer_VX: Ints  # number of each hop's address, `NOBODY`: no answer
    hops_V: Ints  # of the path, whoever answered
    addresses: Sequence[str]  # by number


@dataclass(frozen=True, slots=True)
class Routes:
    """P paths, one for each version of each way, in order of way and time."""

    way_P: Ints
    since_P: Ints  # the first of a way counts for all that was before, too
    link_PX: Ints  # directed links (`mesh_paths.classes`), -1: none
    links: Sequence[str]

    def at(self, way_N: Ints, time_N: Ints) -> Ints:
        """Which path ways took at some times, (N,)."""
        first_W = np.searchsorted(self.way_P, np.arange(int(self.way_P.max(initial=-1)) + 2))
        begin_ns = int(self.since_P.min()) if len(self.since_P) else 0
        # Ways and times as one number: since the first trace in 2**40 ns, as none is read that is older than minutes.
        key_P, key_N = (
            way * 2**40 + np.clip(time - begin_ns, 0, 2**40 - 1)
            for way, time in ((self.way_P, self.since_P), (way_N, time_N))
        )
        found: Ints = np.maximum(np.searchsorted(key_P, key_N, side="right") - 1, first_W[way_N])
        return found


def wiring_of(relation: pa.Table) -> Wiring:
    """Links and addresses. Where a port is told to be linked to several, the first by name counts."""
    kind = relation["kind"].cast(pa.string())
    far: dict[str, str] = {}
    for one, other in _pairs(relation.filter(pc.equal(kind, "linked"))):
        if _is_end(one) and _is_end(other) and one != other:
            far[one] = min(far.get(one, other), other)
            far[other] = min(far.get(other, one), one)
    whole = {end: other for end, other in far.items() if far.get(other) == end}
    inside = relation.filter(pc.equal(kind, "in"))
    inside = inside.filter(pc.starts_with(inside["child"].cast(pa.string()), "address:"))
    end_of: dict[str, str] = {}
    for address, end in _pairs(inside):
        if _is_end(end) and kind_of(end) == "swport":
            end_of[name_of(address)] = min(end_of.get(name_of(address), end), end)
    ports_of: dict[str, list[str]] = defaultdict(list)
    for end in sorted(whole):
        if kind_of(end) == "port":
            ports_of[_node(end)].append(end)
    switches = frozenset(_node(end) for end in whole if kind_of(end) == "swport")
    return Wiring(whole, end_of, {host: tuple(ports) for host, ports in ports_of.items()}, switches)


def traces_of(probe_hop: pa.Table, ways: Mapping[Way, int]) -> Traced:
    """How ways ran. A trace that nobody answered tells nothing, nor does a hop that is silent in it."""
    src, dst, address = (codes(probe_hop, name) for name in ("src", "dst", "address"))
    port_N, class_N, time_N, hop_N = (ints(probe_hop, name) for name in ("src_port", "class", "time_ns", "hop"))
    way_N = np.full(probe_hop.num_rows, -1, np.int64)
    if probe_hop.num_rows:
        key_N = number_of(src.code_N, dst.code_N, port_N, class_N)
        _, first = np.unique(key_N, return_index=True)
        names = ((*src.names, ""), (*dst.names, ""))  # the last is that of null
        told = zip(*(each[first].tolist() for each in (src.code_N, dst.code_N, port_N, class_N)), strict=True)
        way_N = np.array(
            [ways.get((names[0][one], names[1][other], port, dscp), -1) for one, other, port, dscp in told], np.int64
        )[key_N]
    addresses = ("", *(name for name in address.names if name))
    number = {name: place for place, name in enumerate(addresses)}
    answer_N = np.array([*(number[name] for name in address.names), NOBODY], np.int64)[address.code_N]
    rows = np.flatnonzero((way_N >= 0) & (hop_N >= 0) & (hop_N < HOPS_MAX))
    way_N, time_N, hop_N, answer_N = (each[rows] for each in (way_N, time_N, hop_N, answer_N))
    if not len(rows):
        none = np.zeros(0, np.int64)
        return Traced(none, none, none, np.zeros((0, 1), np.int64), none, addresses)
    trace_N = number_of(way_N, time_N)
    _, first = np.unique(trace_N, return_index=True)
    answer_TX = np.zeros((len(first), int(hop_N.max()) + 1), np.int64)
    np.maximum.at(answer_TX, (trace_N, hop_N), answer_N)
    hops_T = np.zeros(len(first), np.int64)
    np.maximum.at(hops_T, trace_N, hop_N + 1)
    kept = np.flatnonzero((answer_TX != NOBODY).any(axis=1))
    return _versions(way_N[first][kept], time_N[first][kept], answer_TX[kept], hops_T[kept], addresses)


def _versions(way_T: Ints, time_T: Ints, answer_TX: Ints, hops_T: Ints, addresses: Sequence[str]) -> Traced:
    """Traces (in order of way and time) that agree with those before them, as one."""
    same_T = np.zeros(len(way_T), bool)  # way and length as the one before
    same_T[1:] = (way_T[1:] == way_T[:-1]) & (hops_T[1:] == hops_T[:-1])
    known_TX = _filled(answer_TX, ~same_T)
    before_TX, later_TX = known_TX[:-1], known_TX[1:]
    agrees = (before_TX == later_TX) | (before_TX == NOBODY) | (later_TX == NOBODY)
    begins_T = np.ones(len(way_T), bool)
    begins_T[1:] = ~(same_T[1:] & agrees.all(axis=1))
    first = np.flatnonzero(begins_T)
    last = np.append(first[1:], len(way_T)) - 1
    filled_TX = _filled(answer_TX, begins_T)
    return Traced(way_T[first], time_T[first], time_T[last], filled_TX[last], hops_T[first], addresses)


def _filled(answer_TX: Ints, begins_T: Bools) -> Ints:
    """Where nobody answered what the same hop said last, since the last begin."""
    place_T = np.arange(len(answer_TX))
    begin_T = np.maximum.accumulate(np.where(begins_T, place_T, 0))
    last_TX = np.maximum.accumulate(np.where(answer_TX != NOBODY, place_T[:, None], -1), axis=0)
    known_TX = np.take_along_axis(answer_TX, np.maximum(last_TX, 0), axis=0)
    found: Ints = np.where(last_TX >= begin_T[:, None], known_TX, NOBODY)
    return found


def routes_of(ways: Sequence[Way], traced: Traced, wiring: Wiring) -> Routes:
    """The links of all ways that are known; each way has one path at least."""
    directed = _Directed()
    ends = [wiring.end_of.get(name, "") for name in traced.addresses]
    nodes = {node: place for place, node in enumerate(sorted({_node(end) for end in ends if end}))}
    link_A = np.array([directed.of(*wiring.towards(end)) if end in wiring.far else -1 for end in ends], np.int64)
    node_A = np.array([nodes[_node(end)] if end else -1 for end in ends], np.int64)
    dst_W = np.array([way[1] for way in ways], object)
    rows = np.arange(len(traced.way_V))
    last_V = node_A[traced.answer_VX[rows, traced.hops_V - 1]] if len(rows) else rows
    hosts = np.unique(dst_W[traced.way_V]) if len(rows) else dst_W[:0]
    arrives_HM = np.full((len(hosts), len(nodes) + 1), -1, np.int64)  # the last column: nobody knows the last switch
    for host, name in enumerate(hosts.tolist()):
        by_node: dict[str, list[str]] = defaultdict(list)
        for port in wiring.ports_of.get(name, ()):
            by_node[_node(wiring.far[port])].append(port)
        for node, ports in by_node.items():
            if node in nodes and len(ports) == 1:
                arrives_HM[host, nodes[node]] = directed.of(*wiring.towards(ports[0]))
    host_V = np.searchsorted(hosts.astype(str), dst_W[traced.way_V].astype(str)) if len(rows) else rows
    link_VX = np.column_stack([link_A[traced.answer_VX], arrives_HM[host_V, last_V]])
    untraced = np.setdiff1d(np.arange(len(ways)), traced.way_V)
    link_UX = np.full((len(untraced), link_VX.shape[1]), -1, np.int64)
    for row, way in enumerate(untraced.tolist()):
        for place, link in enumerate(_of_ends(ways[way], wiring)):
            link_UX[row, place] = directed.of(*link)
    way_P = np.concatenate([traced.way_V, untraced])
    # Their only path holds at any time; a begin of 0 would make all other times alike (`Routes.at`).
    first_ns = int(traced.since_V.min()) if len(rows) else 0
    since_P = np.concatenate([traced.since_V, np.full(len(untraced), first_ns, np.int64)])
    order = np.lexsort((since_P, way_P))
    link_PX, links = directed.sorted(_once(np.concatenate([link_VX, link_UX])[order]))
    return Routes(way_P[order], since_P[order], link_PX, links)


class _Directed:
    """Numbers of links by the node that they are crossed to."""

    def __init__(self) -> None:
        self._number: dict[tuple[str, str], int] = {}

    def of(self, link: str, node: str) -> int:
        return self._number.setdefault((link, node), len(self._number))

    def sorted(self, link_PX: Ints) -> tuple[Ints, list[str]]:
        """Numbers as `mesh_paths.classes` has them, and the links that occur, by name."""
        crossed = {number for number in np.unique(link_PX).tolist() if number >= 0}
        named = {number: each for each, number in self._number.items() if number in crossed}
        links = sorted({link for link, _ in named.values()})
        place = {link: number for number, link in enumerate(links)}
        final = np.full(len(self._number) + 1, -1, np.int64)
        for number, (link, node) in named.items():
            to_second = EntityId.of(link).ends[1].partition("/")[0] == node
            final[number] = place[link] + (0 if to_second else len(links))
        found: Ints = final[link_PX]
        return found, links


def _of_ends(way: Way, wiring: Wiring) -> list[tuple[str, str]]:
    """The first and the last link of a way that was not traced, where a host has one only."""
    mine, theirs = (wiring.ports_of.get(host, ()) for host in way[:2])
    found = [wiring.towards(wiring.far[mine[0]])] if len(mine) == 1 else []
    return found + ([wiring.towards(theirs[0])] if len(theirs) == 1 else [])


def _once(link_PX: Ints) -> Ints:
    """Each link of a path where it is crossed first."""
    out = link_PX.copy()
    for hop in range(1, out.shape[1]):
        out[(out[:, :hop] == out[:, hop, None]).any(axis=1), hop] = -1
    return out


def _is_end(name: str) -> bool:
    """Whether it names a port of something, as the name of a link can hold it."""
    node, _, port = name_of(name).partition("/")
    return kind_of(name) in ("port", "swport") and bool(node and port) and "~" not in name


def _node(end: str) -> str:
    return name_of(end).partition("/")[0]


def _pairs(rows: pa.Table) -> list[tuple[str, str]]:
    both = (rows[name].cast(pa.string()).to_pylist() for name in ("child", "parent"))
    return [(child, parent) for child, parent in zip(*both, strict=True) if child and parent]
