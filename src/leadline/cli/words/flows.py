"""Flows and paths in words: `leaf1 > spine2 > leaf2`, `10.1.1.1 > 10.1.3.1 qp 17`, `2.0 GB (1.8-2.2)`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from leadline.cli.output import size
from leadline.model.ids import EntityId

PROTOCOLS = {6: "tcp", 17: "udp", 1: "icmp", 58: "icmp6"}
ROCE_PORT = 4791


def link_ends(link: str) -> tuple[str, str]:
    """Names of the two ports of `link:a/x~b/y`."""
    return EntityId.of(link).ends


def node_of(port: str) -> str:
    """Name of the host or switch of a port; `leaf1/Ethernet1/1` is of leaf1."""
    return port.partition("/")[0]


def nodes_along(links: Sequence[str]) -> list[str]:
    """Names of the nodes that a path of links visits, both ends included; [] for a chain that is broken."""
    ends = [tuple(node_of(port) for port in link_ends(link)) for link in links]
    if not ends:
        return []
    if len(ends) == 1:
        return list(ends[0])
    first = ends[0] if ends[0][1] in ends[1] else ends[0][::-1]
    nodes = [first[0], first[1]]
    for pair in ends[1:]:
        if nodes[-1] not in pair:
            return []
        nodes.append(pair[1] if pair[0] == nodes[-1] else pair[0])
    return nodes


def path_words(links: Sequence[str]) -> str:
    """A path by its switches; `-` if there is none, the links themselves if they are no chain."""
    nodes = nodes_along(links)
    if nodes:
        return " > ".join(nodes[1:-1]) or "direct"
    return ", ".join(link.removeprefix("link:") for link in links) or "-"


def tuple_words(flow: Mapping[str, Any]) -> str:
    """The five-tuple, or addresses and queue pair of RoCE."""
    protocol = PROTOCOLS.get(flow["protocol"], f"ip/{flow['protocol']}")
    src, dst = _end(flow["src_ip"], flow["src_port"]), _end(flow["dst_ip"], flow["dst_port"])
    if flow.get("dst_qp") is not None:
        return f"roce {src} > {flow['dst_ip']} qp {flow['dst_qp']}"
    return f"{protocol} {src} > {dst}"


def _end(address: str, port: int) -> str:
    return f"[{address}]:{port}" if ":" in address else f"{address}:{port}"


def bytes_words(row: Mapping[str, Any]) -> str:
    """An estimate with its 95 % interval: `2.0 GB (1.8 GB to 2.2 GB)`; `-` if none is known."""
    if row.get("bytes") is None:
        return "-"
    return f"{size(row['bytes'])} ({size(row['low'])} to {size(row['high'])})"


def percent(share: float | None) -> str:
    """A probability as a person reads it: `97 %`, `99.9 %`; never a rounded 100 %."""
    if share is None:
        return "-"
    if 0.995 <= share < 1:
        return f"{min(share, 0.999):.1%}".replace("%", " %")
    return f"{share:.0%}".replace("%", " %")


def rank_words(rank: str | None) -> str:
    """A rank without its kind."""
    return (rank or "?").removeprefix("rank:")


def flow_name(entity: str) -> str:
    """The first digits of a flow's id: enough to tell a few apart."""
    return entity.removeprefix("flow:")[:8]
