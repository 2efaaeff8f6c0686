"""What the graph answers about a thing at a time: nodes in layers, edges, what is shared, what lacks."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.graph.contradictions import contradictions
from leadline.analysis.graph.depends import KIND, KINDS, WAY_OF_RULE, Way, layer_of
from leadline.analysis.graph.fold import Drawn, Owners, drawn, edges, joined, owners
from leadline.analysis.graph.graph import Graph
from leadline.analysis.graph.missing import missing
from leadline.analysis.graph.neighbourhood import Change, Edge, Neighbourhood, Node, Shared
from leadline.analysis.graph.rows import OPEN, Rows, distinct
from leadline.analysis.graph.traced import Traced, traced
from leadline.analysis.graph.walk import Around, Paths, around, labels
from leadline.model.ids import EntityId, kind_of

_SHARED = np.isin(KINDS, ("gpu", "host", "storage", "switch"))
Labels = dict[int, tuple[str, ...]]


def neighbourhood(
    graph: Graph, entity: str, at_ns: int, paths: Paths | None = None, tenants: Iterable[str] | None = None
) -> Neighbourhood:
    """What an entity stands on at a time, and what stands on it unless it is a job.

    Inputs: `paths`, links that traced paths cross, each with the jobs whose flows do (None: nothing is traced);
    `tenants`, whose rows are looked at (None: everybody's).
    An entity that no edge has is answered with itself alone, and `missing` says so.
    """
    start = [number for number in ends_of(graph, entity) if number >= 0]
    if not start:
        kind = kind_of(entity)
        node = Node(entity, kind, layer_of(kind), (), False)
        return Neighbourhood(entity, at_ns, (node,), (), (), (), (f"no source reports {entity}",))
    crossed = {link: ends_of(graph, link) for link in paths or () if kind_of(link) == "link"}
    found = around(
        graph, start, (number for pair in crossed.values() for number in pair if number >= 0), at_ns, tenants
    )
    ends = {link: (found.local(one), found.local(other)) for link, (one, other) in crossed.items()}
    jobs, on = labels(found)
    owner = owners(found)
    is_job = kind_of(entity) == "job"
    seen = None
    if paths is not None:
        wanted = [entity] if is_job else jobs
        seen = traced(found, owner, wanted, {link: paths[link] for link in ends}, ends)
    return _answered(found, entity, owner, on, seen)


def changes(graph: Graph, entity: str, from_ns: int, to_ns: int) -> tuple[Change, ...]:
    """Edges of an entity that came (`from_ns` in the span) or went (`to_ns` in it), in order of time."""
    start = np.array([number for number in ends_of(graph, entity) if number >= 0], np.int64)
    rows = graph.take(graph.touching(start))
    out = []
    for what, at_N in (("came", rows.from_ns), ("went", rows.to_ns)):
        own = np.flatnonzero((at_N >= from_ns) & (at_N < to_ns) & (at_N != OPEN))
        told = _as_told(graph, rows.take(own))
        out += [Change(at, what, edge) for at, edge in zip(at_N[own].tolist(), told, strict=True)]
    return tuple(sorted(out, key=lambda each: (each.at_ns, each.what, *_text_key(each.edge))))


def _text_key(edge: Edge) -> tuple[str, ...]:
    return (edge.child, edge.parent, edge.kind, *edge.sources)


def ends_of(graph: Graph, entity: str) -> tuple[int, int]:
    """The number of an entity, twice; of a link those of its two ports, whose kinds its name does not tell.

    -1: no edge has it.
    """
    if kind_of(entity) != "link":
        return graph.number(entity), graph.number(entity)
    first, second = EntityId.of(entity).ends
    one, other = (max(graph.number(f"swport:{end}"), graph.number(f"port:{end}")) for end in (first, second))
    return one, other


def _as_told(graph: Graph, rows: Rows) -> list[Edge]:
    """Edges as they were told, one for each row."""
    words = graph.words.texts
    children, parents = (graph.names.take(ends.astype(np.int64)) for ends in (rows.child, rows.parent))
    columns = (rows.kind, rows.from_ns, rows.to_ns, rows.source, rows.confidence)
    return [
        Edge(child, parent, words[kind], begin, None if end == OPEN else end, (words[source],), sure)
        for child, parent, kind, begin, end, source, sure in zip(
            children, parents, *(each.tolist() for each in columns), strict=True
        )
    ]


def _answered(found: Around, entity: str, owner: Owners, on: Labels, seen: Traced | None) -> Neighbourhood:
    is_job = kind_of(entity) == "job"
    told = [drawn(found, _shown(found, is_job), owner), _plain(found)]
    if seen is not None:
        told.append(seen.drawn)
        for switch, jobs in seen.jobs_of_switch.items():
            on[switch] = tuple(sorted({*on.get(switch, ()), *jobs}))
    whole = joined(told)
    node_N = distinct(np.concatenate([whole.nodes(), _alone(found, owner, entity)]))
    ports = np.concatenate([whole.child_port_F, whole.parent_port_F])
    near = {found.texts[number] for number in (*node_N.tolist(), *ports[ports >= 0].tolist())}
    against = contradictions(found.rows, found.claims, found.words, found.texts, found.at_ns, found.at_ns + 1)
    rows = tuple(each.as_row() for each in against if each.entity in near)
    nodes, place_M = _nodes(found, node_N, on, seen, {each.entity for each in against})
    lines = edges(whole, found, place_M)
    shared = _shared(found, node_N, on, lines, seen)
    if is_job:
        shared = [each for each in shared if entity in each.jobs]
    lacks = missing(found, owner, entity, traced_any=seen is not None and len(seen.drawn.row_F) > 0,
                    unknown=seen.unknown if seen else ())  # fmt: skip
    return Neighbourhood(entity, found.at_ns, tuple(nodes), tuple(lines), tuple(shared), rows, lacks)


def _shown(found: Around, is_job: bool) -> Bools:
    """Arrows to draw: all that leave what is reached downwards; but for a job also those that lead up from there."""
    net = found.arrows
    shown = net.down_E & found.below[net.upper_E]
    if not is_job:
        shown |= net.up_E & found.over[net.lower_E] & found.over[net.upper_E]
    return shown


def _plain(found: Around) -> Drawn:
    """Relations of what was asked for that we do not understand, and its machine: as they were told."""
    rows = found.rows
    way_N = WAY_OF_RULE[found.rule_N]
    own = np.flatnonzero(((way_N == Way.UNKNOWN) | (way_N == Way.BESIDE))
                         & (found.start[rows.child] | found.start[rows.parent]))  # fmt: skip
    none = np.full(len(own), -1, np.int64)
    return Drawn(rows.child[own].astype(np.int64), rows.parent[own].astype(np.int64), none, none, own,
                 np.ones(len(own), bool))  # fmt: skip


def _alone(found: Around, owner: Owners, entity: str) -> Ints:
    """What was asked for is a node even where it has no edge; a link's ends are its switches and ports."""
    start = np.flatnonzero(found.start)
    return owner.of(start) if kind_of(entity) == "link" else start


def _nodes(
    found: Around, node_N: Ints, on: Labels, seen: Traced | None, contested: set[str]
) -> tuple[list[Node], Ints]:
    """Nodes by layer and name, and the place of each among them (-1: it is none)."""
    tiers = seen.tiers if seen is not None else {}
    layer_K = [layer_of(kind) for kind in KINDS]
    told = []
    for number, kind in zip(node_N.tolist(), found.kind_M[node_N].tolist(), strict=True):
        layer = layer_of("switch", tiers[number]) if number in tiers else layer_K[kind]
        told.append((layer, found.texts[number], number, KINDS[kind]))
    told.sort()
    place_M = np.full(len(found.texts), -1, np.int64)
    place_M[[number for _, _, number, _ in told]] = np.arange(len(told))
    nodes = [
        Node(text, kind or kind_of(text), layer, on.get(number, ()), text in contested)
        for layer, text, number, kind in told
    ]
    return nodes, place_M


def _shared(found: Around, node_N: Ints, on: Labels, lines: list[Edge], seen: Traced | None) -> list[Shared]:
    """What several jobs stand on: things, links, machines."""
    out, texts = {}, found.texts
    for number in node_N[_SHARED[found.kind_M[node_N]]].tolist():
        if len(on.get(number, ())) > 1:
            out[texts[number]] = Shared(texts[number], KINDS[found.kind_M[number]], on[number])
    number_of = {text: number for number, text in enumerate(texts)}
    for line in lines:
        if line.link is None or line.child_port is None or not line.used:
            continue
        port = number_of[line.child_port]
        jobs = on.get(port, ()) if found.kind_M[port] == KIND["port"] else ()
        if seen is not None and port in seen.jobs_of_port:
            jobs = tuple(sorted(seen.jobs_of_port[port]))
        if len(jobs) > 1:
            out[line.link] = Shared(line.link, "link", jobs)
    return [*_sorted(out), *_machines(found, on)]


def _sorted(out: dict[str, Shared]) -> list[Shared]:
    return sorted(out.values(), key=lambda each: (layer_of(each.kind), each.kind, each.entity))


def _machines(found: Around, on: Labels) -> list[Shared]:
    """Machines whose hosts have different jobs; a machine is named by the first of its hosts."""
    own = np.flatnonzero(WAY_OF_RULE[found.rule_N] == Way.BESIDE)
    pairs = list(zip(found.rows.child[own].tolist(), found.rows.parent[own].tolist(), strict=True))
    texts = found.texts
    first = {number: number for pair in pairs for number in pair}

    def root(number: int) -> int:
        while first[number] != number:
            first[number] = first[first[number]]
            number = first[number]
        return number

    for a, b in pairs:
        low, high = sorted((root(a), root(b)), key=texts.__getitem__)
        first[high] = low
    machines: dict[int, list[int]] = {}
    for number in first:
        machines.setdefault(root(number), []).append(number)
    out = {}
    for name, hosts in machines.items():
        jobs = [on[host] for host in hosts if host in on]
        if len(jobs) > 1 and len(set().union(*jobs)) > 1:
            out[texts[name]] = Shared(texts[name], "machine", tuple(sorted(set().union(*jobs))))
    return _sorted(out)
