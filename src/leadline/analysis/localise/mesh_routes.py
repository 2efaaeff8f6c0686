"""Which links probes cross: by traces of routers, and where there is none by what is known of the ends.

    probe_hop:  address ── in ──> switch port ── linked ──> the link that was crossed, towards that switch
    the last switch ── linked ──> the port of the receiver there, if it has one only

Without a trace: the only port of a host, and its link; what lies between switches stays unknown, so that such a path
speaks neither for what is there nor against it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import ints
from leadline.model.ids import EntityId, kind_of, link_id, name_of

Way = tuple[str, str, int, int]
"""Sender, receiver, source port, traffic class."""
Route = tuple[tuple[str, str], ...]
"""Links in order, each with the node that it was crossed to."""

HOPS_MAX = 32


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


def traces_of(probe_hop: pa.Table) -> dict[Way, list[tuple[int, tuple[str, ...]]]]:
    """Addresses of each trace, by way, in order of time; empty where nobody answered."""
    hops: dict[tuple[Way, int], dict[int, str]] = defaultdict(dict)
    src, dst, address = (probe_hop[name].cast(pa.string()).to_pylist() for name in ("src", "dst", "address"))
    numbers = (ints(probe_hop, name).tolist() for name in ("src_port", "class", "time_ns", "hop"))
    for one, other, answer, port, dscp, time_ns, hop in zip(src, dst, address, *numbers, strict=True):
        if one and other and 0 <= hop < HOPS_MAX:
            at = hops[(one, other, port, dscp), time_ns]
            at[hop] = max(at.get(hop, ""), answer or "")
    found: dict[Way, list[tuple[int, tuple[str, ...]]]] = defaultdict(list)
    for (way, time_ns), answers in sorted(hops.items()):
        path = tuple(answers.get(hop, "") for hop in range(max(answers) + 1))
        if not found[way] or found[way][-1][1] != path:
            found[way].append((time_ns, path))
    return dict(found)


def route(way: Way, answers: tuple[str, ...] | None, wiring: Wiring) -> Route:
    """The links of a way that are known; empty if none is."""
    src, dst = way[:2]
    links: list[tuple[str, str]] = []
    if answers is None:
        mine, theirs = (wiring.ports_of.get(host, ()) for host in (src, dst))
        if len(mine) == 1:
            links.append(wiring.towards(wiring.far[mine[0]]))
        if len(theirs) == 1:
            links.append(wiring.towards(theirs[0]))
        return tuple(dict.fromkeys(links))
    last = ""
    for answer in answers:
        end = wiring.end_of.get(answer, "")
        if end in wiring.far:
            links.append(wiring.towards(end))
        last = _node(end) if end else ""
    arrives = [port for port in wiring.ports_of.get(dst, ()) if _node(wiring.far[port]) == last]
    if len(arrives) == 1:
        links.append(wiring.towards(arrives[0]))
    return tuple(dict.fromkeys(links))


def directed(routes: list[Route]) -> tuple[np.ndarray[tuple[int, int], np.dtype[np.int64]], list[str]]:
    """Routes as numbers of directed links (`mesh_paths.classes`), -1 behind the last, and the links' names."""
    links = sorted({link for each in routes for link, _ in each})
    place = {link: number for number, link in enumerate(links)}
    out = np.full((len(routes), max([1, *map(len, routes)])), -1, np.int64)
    for row, each in enumerate(routes):
        for hop, (link, node) in enumerate(each):
            to_second = EntityId.of(link).ends[1].partition("/")[0] == node
            out[row, hop] = place[link] + (0 if to_second else len(links))
    return out, links


def _is_end(name: str) -> bool:
    """Whether it names a port of something, as the name of a link can hold it."""
    node, _, port = name_of(name).partition("/")
    return kind_of(name) in ("port", "swport") and bool(node and port) and "~" not in name


def _node(end: str) -> str:
    return name_of(end).partition("/")[0]


def _pairs(rows: pa.Table) -> list[tuple[str, str]]:
    both = (rows[name].cast(pa.string()).to_pylist() for name in ("child", "parent"))
    return [(child, parent) for child, parent in zip(*both, strict=True) if child and parent]
