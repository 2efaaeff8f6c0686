"""Which paths the topology allows between two ranks: all shortest ones over the links that hold at a time.

Only links between switches, and those of the two hosts, are read: hosts do not forward.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from itertools import compress
from typing import Any

from leadline.analysis.graph.topology import topology_of
from leadline.model.ids import EntityId, kind_of, link_id, name_of
from leadline.model.tables.fabric import RELATION
from leadline.store import Store
from leadline.views.asked import Asked

LINKS_MAX = 1000  # told; `links_total` counts all of them
PAIRS_MAX = 64  # of ports
_HOLDS = "from_ns <= {at_ns:Int64} AND (isNull(to_ns) OR to_ns > {at_ns:Int64} - {span_ns:Int64})"

Net = Mapping[str, Mapping[str, list[str]]]
"""Node to node to the links between them."""
Pair = tuple[str, str]
"""The NIC port at the first rank and that at the second."""


def possible_paths(
    store: Store, asked: Asked, a: str, b: str, span_ns: int = 0, pairs: Sequence[Pair] = ()
) -> dict[str, Any]:
    """The equally short paths between ranks `a` and `b` (bare names), and what is missing to tell them.

    Links and ranks count that were there at the time asked for, or within `span_ns` before it. `pairs`: the NIC ports
    that their flows use; where none is known, ports of the same name are taken (rails), and that is said.
    """
    answer: dict[str, Any] = {"a": None, "b": None, "hops": None, "paths": 0, "links": [], "links_total": 0,
                              "ports": [], "missing": []}  # fmt: skip
    if not pairs:
        hosts = [_host(store, asked, rank, span_ns) for rank in (a, b)]
        answer |= {"a": hosts[0], "b": hosts[1]}
        if None in hosts:
            told = zip((a, b), hosts, strict=True)
            unknown = [rank for rank, host in told if host is None]
            return {**answer, "missing": [f"no data on the host of rank {rank} at that time" for rank in unknown]}
        if hosts[0] == hosts[1]:
            return {**answer, "hops": 0, "missing": [f"both ranks are on {hosts[0]}: no link lies between them"]}
        ends = _ends(store, asked, [f"port:{name_of(str(host))}/" for host in hosts], span_ns)
        pairs = same_names(ends, *map(str, hosts))
        answer["missing"] = ["no sampled flow shows which ports they use; ports of the same name are assumed"]
    else:
        ends = _ends(store, asked, [port for pair in pairs for port in pair], span_ns)
        answer |= {"a": node_of(pairs[0][0]), "b": node_of(pairs[0][1])}
    links, paths = between(ends, pairs[:PAIRS_MAX])
    if not paths:
        where = f"from {answer['a']} to {answer['b']}"
        return {**answer, "missing": [*answer["missing"], f"no path of links {where} at that time"]}
    hops = max(link["hop"] for link in links) + 1
    return {**answer, "hops": hops, "paths": paths, "links": links[:LINKS_MAX], "links_total": len(links),
            "ports": [list(pair) for pair in pairs[:PAIRS_MAX]]}  # fmt: skip


def same_names(ends: Iterable[tuple[str, str]], src: str, dst: str) -> list[Pair]:
    """The ports of two hosts that have a link, in pairs of one name; all with all where no name fits."""
    ports = {end for pair in ends for end in pair}
    ours, theirs = (sorted(port for port in ports if kind_of(port) == "port" and node_of(port) == host)
                    for host in (src, dst))  # fmt: skip
    by_name = {port.partition("/")[2]: port for port in theirs}
    fitting = [(port, by_name[port.partition("/")[2]]) for port in ours if port.partition("/")[2] in by_name]
    return fitting or [(one, other) for one in ours for other in theirs]


def between(ends: Sequence[tuple[str, str]], pairs: Iterable[Pair]) -> tuple[list[dict[str, Any]], int]:
    """Links on the shortest paths of all pairs of ports, each once, and the number of these paths."""
    found: dict[tuple[str, str], dict[str, Any]] = {}
    total = 0
    hosts = [any(kind_of(end) == "port" for end in each) for each in ends]
    switches = net_of(compress(ends, (not host for host in hosts)))
    at_hosts = list(compress(ends, hosts))
    for pair in pairs:
        own = net_of(each for each in at_hosts if all(kind_of(end) != "port" or end in pair for end in each))
        net = {**switches, **{node: {**switches.get(node, {}), **others} for node, others in own.items()}}
        links, paths = shortest(net, node_of(pair[0]), node_of(pair[1]))
        total += paths
        for link in links:
            found.setdefault((link["link"], link["from"]), link)
    return sorted(found.values(), key=lambda link: (link["hop"], link["link"])), total


def _host(store: Store, asked: Asked, rank: str, span_ns: int) -> str | None:
    where = ["child = {rank:String}", "kind = 'runs-on'", "startsWith(parent, 'host:')", _HOLDS, *asked.conditions()]
    sql = (
        "SELECT toString(child) AS child, toString(parent) AS parent, toString(kind) AS kind, from_ns, to_ns "
        f"FROM leadline.{RELATION.name} WHERE {' AND '.join(where)}"
    )
    rows = store.query(sql, {**asked.parameters(sql), "rank": f"rank:{rank}", "span_ns": span_ns})
    return topology_of(rows).host_of(f"rank:{rank}") or None


def _ends(store: Store, asked: Asked, ports: Sequence[str], span_ns: int) -> list[tuple[str, str]]:
    """The ends of links between switches, and of those at ports that begin with one of `ports`."""
    some = ports[: 2 * PAIRS_MAX]
    ours = " OR ".join(
        f"startsWith({end}, {{port{number}:String}})" for end in ("child", "parent") for number in range(len(some))
    )
    switches = "startsWith(child, 'swport:') AND startsWith(parent, 'swport:')"
    where = ["kind = 'linked'", f"(({switches}) OR {ours})", _HOLDS, *asked.conditions()]
    sql = (
        "SELECT DISTINCT toString(child) AS child, toString(parent) AS parent "
        f"FROM leadline.{RELATION.name} WHERE {' AND '.join(where)}"
    )
    named = {f"port{number}": port for number, port in enumerate(some)}
    rows = store.query(sql, {**asked.parameters(sql), **named, "span_ns": span_ns})
    return list(zip(rows.column("child").to_pylist(), rows.column("parent").to_pylist(), strict=True))


def net_of(ends: Iterable[tuple[str, str]]) -> Net:
    """Nodes and the links between them, from pairs of ports; a link told from both ends is one."""
    net: dict[str, dict[str, list[str]]] = {}
    for child, parent in {(min(pair), max(pair)) for pair in ends}:
        one, other = node_of(child), node_of(parent)
        if one != other:
            link = link_id(child, parent)
            net.setdefault(one, {}).setdefault(other, []).append(link)
            net.setdefault(other, {}).setdefault(one, []).append(link)
    return net


def node_of(port: str) -> str:
    """The host or switch of a port, by its name: `port:h3/eth0` is of `host:h3`."""
    one = EntityId.of(port)
    return f"{'switch' if one.kind == 'swport' else 'host'}:{one.first}"


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
        if node == src or (kind_of(node) == "host" and node != dst):
            continue
        for other in net.get(node, ()):
            if other not in left:
                left[other] = left[node] + 1
                waiting.append(other)
    return left
