"""Which paths the topology allows between two ranks: all shortest ones over the links that hold at a time.

Only links between switches, and those of the two hosts, are read: hosts do not forward.
"""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterable, Mapping
from typing import Any

from leadline.model.ids import link_id
from leadline.model.tables.fabric import RELATION
from leadline.server.flows_view import Asked
from leadline.store import Store

LINKS_MAX = 1000  # told; `links_total` counts all of them
_HOLDS = "from_ns <= {at_ns:Int64} AND (isNull(to_ns) OR to_ns > {at_ns:Int64} - {span_ns:Int64})"

Net = Mapping[str, Mapping[str, list[str]]]
"""Node to node to the links between them."""


def possible_paths(store: Store, asked: Asked, a: str, b: str, span_ns: int = 0) -> dict[str, Any]:
    """The equally short paths between ranks `a` and `b` (bare names), and what is missing to tell them.

    Links and ranks count that were there at the time asked for, or within `span_ns` before it.
    """
    hosts = {rank: _host(store, asked, rank, span_ns) for rank in (a, b)}
    missing = [f"no source tells the host of rank {rank} at that time" for rank in (a, b) if hosts[rank] is None]
    answer: dict[str, Any] = {"a": hosts[a], "b": hosts[b], "hops": None, "paths": 0, "links": [], "links_total": 0,
                              "missing": missing}  # fmt: skip
    src, dst = hosts[a], hosts[b]
    if src is None or dst is None:
        return answer
    if src == dst:
        return {**answer, "hops": 0, "missing": [f"both ranks are on {src}: nothing between them crosses the network"]}
    net = _net(store, asked, src, dst, span_ns)
    links, paths = shortest(net, src, dst)
    if not paths:
        return {**answer, "missing": [f"no chain of links leads from {src} to {dst} at that time"]}
    hops = max(link["hop"] for link in links) + 1
    return {**answer, "hops": hops, "paths": paths, "links": links[:LINKS_MAX], "links_total": len(links)}


def _host(store: Store, asked: Asked, rank: str, span_ns: int) -> str | None:
    where = ["child = {rank:String}", "kind = 'runs-on'", "startsWith(parent, 'host:')", _HOLDS, *asked.conditions()]
    sql = (
        f"SELECT toString(parent) AS host FROM leadline.{RELATION.name} WHERE {' AND '.join(where)} "
        "ORDER BY confidence DESC, from_ns DESC, parent LIMIT 1"
    )
    found = store.query(sql, {**asked.parameters(sql), "rank": f"rank:{rank}", "span_ns": span_ns}).to_pylist()
    return str(found[0]["host"]) if found else None


def _net(store: Store, asked: Asked, src: str, dst: str, span_ns: int) -> Net:
    ours = " OR ".join(
        f"startsWith({end}, {{{name}:String}})" for end in ("child", "parent") for name in ("src", "dst")
    )
    switches = "startsWith(child, 'swport:') AND startsWith(parent, 'swport:')"
    where = ["kind = 'linked'", f"(({switches}) OR {ours})", _HOLDS, *asked.conditions()]
    sql = (
        "SELECT DISTINCT toString(child) AS child, toString(parent) AS parent "
        f"FROM leadline.{RELATION.name} WHERE {' AND '.join(where)}"
    )
    ports = {"src": f"port:{src.removeprefix('host:')}/", "dst": f"port:{dst.removeprefix('host:')}/"}
    rows = store.query(sql, {**asked.parameters(sql), **ports, "span_ns": span_ns})
    return net_of(zip(rows.column("child").to_pylist(), rows.column("parent").to_pylist(), strict=True))


def net_of(ends: Iterable[tuple[str, str]]) -> Net:
    """Nodes and the links between them, from pairs of ports; a link told from both ends is one."""
    net: dict[str, dict[str, list[str]]] = defaultdict(lambda: defaultdict(list))
    for child, parent in ends:
        link, one, other = link_id(child, parent), node_of(child), node_of(parent)
        if one != other and link not in net[one][other]:
            net[one][other].append(link)
            net[other][one].append(link)
    return net


def node_of(port: str) -> str:
    """The host or switch of a port, by its name: `port:h3/eth0` is of `host:h3`."""
    kind, _, name = port.partition(":")
    return f"{'switch' if kind == 'swport' else 'host'}:{name.partition('/')[0]}"


def shortest(net: Net, src: str, dst: str) -> tuple[list[dict[str, Any]], int]:
    """Links on shortest paths with their ends and hop from 0, and the number of such paths; hosts between do not count.

    Parallel links are different paths. Returns: ([], 0) if there is none.
    """
    left = _hops_to(net, dst, src)
    if src not in left:
        return [], 0
    ways = {src: 1}
    links = []
    for node in _by_distance(left, src):
        for other, between in sorted(net[node].items()):
            if node in ways and left.get(other) == left[node] - 1:
                ways[other] = ways.get(other, 0) + ways[node] * len(between)
                hop = left[src] - left[node]
                links += [{"link": link, "from": node, "to": other, "hop": hop} for link in sorted(between)]
    links.sort(key=lambda each: (each["hop"], each["link"]))
    return links, ways.get(dst, 0)


def _by_distance(left: Mapping[str, int], src: str) -> list[str]:
    return sorted((node for node in left if left[node] <= left[src]), key=lambda node: (-left[node], node))


def _hops_to(net: Net, dst: str, src: str) -> dict[str, int]:
    """Hops from each node to `dst`, as far out as `src` lies."""
    left = {dst: 0}
    waiting = deque([dst])
    while waiting:
        node = waiting.popleft()
        if node == src or (node.startswith("host:") and node != dst):
            continue
        for other in net.get(node, ()):
            if other not in left:
                left[other] = left[node] + 1
                waiting.append(other)
    return left
