"""Kernels of the inference: forward and backward over the shortest paths of each flow, in logarithms.

    flow --prepared--> its edges, its samples at them --forward--> all paths, the likeliest, chance alone
                                                      --backward--> probability of each link --search--> alternatives

Numbering of the edges of one flow: mid edges of the graph 0 .. M - 1, then start edges (the sender's NICs), then end
edges (the receiver's). A transition is (edge into a node, edge out of it); its score is the evidence of the samples
that were taken at the node. Axes: K = node of the graph, M = mid edge, e = edge, D = direction of a link, G = group of
samples. Method: docs/analyses/path.md.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.path.route_kernels import FAR, Shorts, shortest

HOPS_MAX = 16  # links of a path
ALTERNATIVES_MAX = 8  # paths told of one flow
TIE = 0.01  # paths within 1 % are as likely
SLACK = 4.6  # and those within a factor of 100 are told
STEPS_MAX = 4096  # of the search for alternatives of one flow
LEAST = 0.005  # smaller marginals are left out
ENDS_MAX = 64  # NICs of one flow, both ends together
SAME = 1e-9  # logarithms that differ by less are equal: the order of sums must not choose a path

OK, UNREACHABLE, TOO_LONG = 0, 1, 2
SINGLE, SPRAY = 0, 1  # what a flow is taken to do: all packets on one path, or each on its own


class Routes(NamedTuple):
    """The fabric, and where flows begin and end; see `infer.Fabric` and `infer.Ends`."""

    first_V: Ints
    onward: Ints
    to_D: Ints
    from_D: Ints
    dist_TV: Shorts
    target_F: Ints
    graph_F: Ints  # flows of one number have the same leaves at both ends
    start_F: Ints
    start: Ints
    end_F: Ints
    end: Ints


class Groups(NamedTuple):
    """Samples by flow and node; see `infer.Evidence`."""

    group_F: Ints
    node_G: Ints
    in_G: Ints
    out_G: Ints
    n_G: Ints


class Model(NamedTuple):
    """What samples mean."""

    per_packet_V: Floats  # samples per packet of a switch that tells, 0 of one that does not
    gain: float  # log of how much likelier a sample is that fits, than an error
    silent: float  # log of the chance that a switch that tells misses a flow altogether
    mode: int
    sure: float  # alternatives are looked for below this probability


# What is known of an edge of the flow that is judged.
_EDGE = np.dtype(
    [
        ("direction", "i8"),
        ("seen", "f8"),  # samples that name it
        ("alpha", "f8"),  # log of all paths up to and with it
        ("best", "f8"),  # and of the likeliest of them
        ("back", "i8"),  # the edge before on that
        ("ties", "i8"),  # paths that are as likely
        ("share", "f8"),  # its probability by chance alone
        ("routes", "f8"),  # paths up to it
        ("beta", "f8"),  # log of all paths behind it
        ("ahead", "f8"),  # and of the likeliest of them
    ]
)
_SPOT = np.dtype([("first", "i8"), ("last", "i8")])  # groups of samples at a node
_OPEN = np.dtype([("edge", "i8"), ("hop", "i8"), ("score", "f8")])  # an edge that the search has yet to follow


class _Work(NamedTuple):
    """Arrays that flows use one after the other."""

    local_V: Ints  # place of a node in the graph, -1
    node_K: Ints
    out_K: Ints
    in_K: Ints
    edge_M: Ints
    tail_M: Ints
    head_M: Ints
    in_M: Ints
    number_M: Ints
    place_D: Ints  # edge of a direction, -1
    edge: Any  # records `_EDGE`
    spot: Any  # records `_SPOT`, by node
    stack: Any  # records `_OPEN`
    ins: Ints
    outs: Ints
    chain: Ints


class _Flow(NamedTuple):
    """One flow on its graph."""

    nodes: int
    mid: int
    starts: Ints
    ends: Ints
    head_S: Ints  # node behind each start edge, -1: it leads nowhere
    tail_E: Ints
    longest: int  # switches after the first on the longest of its paths
    total: float  # samples
    intensity: float  # samples per packet of the switches that have any, together


@compiled()
def _logsum(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@compiled()
def _silence(empty: bool, per_packet: float, total: float, intensity: float, silent: float) -> float:
    """Log of the chance that a switch that a flow crosses has no sample of it.

    Where `total` samples were taken at other switches that together sample `intensity` of each packet, the number of
    packets is uncertain (gamma), so that none here has the chance (1 + per_packet / intensity) ** -total.
    """
    if not empty or per_packet <= 0.0 or total <= 0.0:
        return 0.0
    return silent if intensity <= 0.0 else max(silent, -total * math.log1p(per_packet / intensity))


@compiled()
def _quiet(work: _Work, flow: _Flow, model: Model, k: int) -> float:
    """The same for node k; 0 for sprayed packets, of which no switch needs to have any."""
    empty = work.spot[k].last == 0 and model.mode == SINGLE
    return _silence(empty, model.per_packet_V[work.node_K[k]], flow.total, flow.intensity, model.silent)


@compiled()
def _ways(k: int, first_K: Ints, list_M: Ints, extra_X: Ints, offset: int, out: Ints) -> int:
    """Edges at node k: those of the graph, then the flow's own among `extra_X`; returns how many."""
    count = 0
    for j in range(first_K[k], first_K[k + 1]):
        out[count] = list_M[j]
        count += 1
    for x in range(len(extra_X)):
        if extra_X[x] == k:
            out[count] = offset + x
            count += 1
    return count


@compiled()
def _into(work: _Work, flow: _Flow, k: int) -> int:
    """Edges into node k, in `work.ins`."""
    return _ways(k, work.in_K, work.in_M, flow.head_S, flow.mid, work.ins)


@compiled()
def _outof(work: _Work, flow: _Flow, k: int) -> int:
    """Edges out of node k, in `work.outs`."""
    return _ways(k, work.out_K, work.number_M, flow.tail_E, flow.mid + len(flow.starts), work.outs)


@compiled()
def _priors(work: _Work, model: Model, count: int, prior: Floats) -> None:
    """Log probability of each of `work.outs`: equal, or by the samples if packets are sprayed."""
    seen = 0.0
    for j in range(count):
        seen += work.edge[work.outs[j]].seen
    for j in range(count):
        if model.mode == SINGLE:
            prior[j] = -math.log(count)
        else:
            prior[j] = math.log((work.edge[work.outs[j]].seen + 1.0 / count) / (seen + 1.0))


@compiled()
def _evidence(work: _Work, groups: Groups, model: Model, k: int, e: int, o: int) -> float:
    """What the samples at node k say for entering it by edge `e` and leaving it by edge `o`."""
    if model.mode == SPRAY:
        return 0.0
    total = 0.0
    for g in range(work.spot[k].first, work.spot[k].last):
        enters, leaves = groups.in_G[g], groups.out_G[g]
        if (enters < 0 or enters == work.edge[e].direction) and (leaves < 0 or leaves == work.edge[o].direction):
            total += groups.n_G[g] * model.gain
    return total


@compiled()
def _prepared(work: _Work, routes: Routes, groups: Groups, model: Model, f: int, nodes: int, mid: int) -> _Flow:
    """Number the edges of a flow on its graph, and find its samples there."""
    starts = routes.start[routes.start_F[f] : routes.start_F[f + 1]]
    ends = routes.end[routes.end_F[f] : routes.end_F[f + 1]]
    dist_V = routes.dist_TV[routes.target_F[f]]
    head_S, tail_E = np.empty(len(starts), np.int64), np.empty(len(ends), np.int64)
    longest = 0
    for s in range(len(starts)):
        leaf = routes.to_D[starts[s]]
        head_S[s] = work.local_V[leaf] if dist_V[leaf] < FAR else -1
        if head_S[s] >= 0:
            longest = max(longest, dist_V[leaf])
    for t in range(len(ends)):
        tail_E[t] = work.local_V[routes.from_D[ends[t]]]
    for e in range(mid + len(starts) + len(ends)):
        if e < mid:
            direction = work.edge_M[e]
        else:
            direction = starts[e - mid] if e < mid + len(starts) else ends[e - mid - len(starts)]
        work.edge[e].direction = direction
        work.edge[e].seen = 0.0
        work.place_D[direction] = e
    for k in range(nodes):
        work.spot[k].first = work.spot[k].last = 0
    total, intensity, known = 0.0, 0.0, -1
    for g in range(groups.group_F[f], groups.group_F[f + 1]):
        node = groups.node_G[g]
        total += groups.n_G[g]
        if groups.n_G[g] and node >= 0 and node != known:
            known = node
            intensity += model.per_packet_V[node]
        k = work.local_V[node] if node >= 0 else -1
        if k >= 0:
            if work.spot[k].last == 0:
                work.spot[k].first = g
            work.spot[k].last = g + 1
            for direction in (groups.in_G[g], groups.out_G[g]):
                if direction >= 0 and work.place_D[direction] >= 0:
                    work.edge[work.place_D[direction]].seen += groups.n_G[g]
    return _Flow(nodes, mid, starts, ends, head_S, tail_E, longest, total, intensity)


@compiled()
def _begin(work: _Work, flow: _Flow, model: Model) -> None:
    """Start edges: the sender may use any of its NICs that leads there."""
    edges = flow.mid + len(flow.starts) + len(flow.ends)
    for e in range(edges):
        work.edge[e].alpha = work.edge[e].best = -np.inf
        work.edge[e].share = work.edge[e].routes = 0.0
        work.edge[e].ties, work.edge[e].back = 0, -1
    able, seen = 0, 0.0
    for s in range(len(flow.starts)):
        able += flow.head_S[s] >= 0
        seen += work.edge[flow.mid + s].seen
    for s in range(len(flow.starts)):
        e = flow.mid + s
        if flow.head_S[s] >= 0:
            prior = 1.0 / able if model.mode == SINGLE else (work.edge[e].seen + 1.0 / able) / (seen + 1.0)
            work.edge[e].alpha = work.edge[e].best = math.log(prior)
            work.edge[e].share, work.edge[e].routes, work.edge[e].ties = 1.0 / able, 1.0, 1


@compiled()
def _forward(
    work: _Work, groups: Groups, model: Model, flow: _Flow, dist_V: Shorts, prior: Floats
) -> tuple[float, float, float]:
    """Fill alpha, best, share and routes of all edges.

    Returns: log likelihood of the samples on the graph if packets are sprayed evenly; how many these are, and how many
    of them could have been on another path.
    """
    _begin(work, flow, model)
    chance, on_graph, apart = 0.0, 0.0, 0.0
    for k in range(flow.nodes):
        a, b = _into(work, flow, k), _outof(work, flow, k)
        if a and b:
            _step(work, groups, model, flow, k, a, b, prior)
            even, n, choosing = _by_chance(work, groups, k, a, b)
            chance += even
            on_graph += n
            apart += choosing
    return chance, on_graph, apart


@compiled()
def _step(work: _Work, groups: Groups, model: Model, flow: _Flow, k: int, a: int, b: int, prior: Floats) -> None:
    """From the edges into node k to those out of it."""
    quiet = _quiet(work, flow, model, k)
    _priors(work, model, b, prior)
    through, ways = 0.0, 0.0
    for i in range(a):
        through += work.edge[work.ins[i]].share
        ways += work.edge[work.ins[i]].routes
    for j in range(b):
        o = work.outs[j]
        work.edge[o].share += through / b
        work.edge[o].routes += ways
        for i in range(a):
            e = work.ins[i]
            if work.edge[e].alpha == -np.inf:
                continue
            step = prior[j] + quiet + _evidence(work, groups, model, k, e, o)
            work.edge[o].alpha = _logsum(work.edge[o].alpha, work.edge[e].alpha + step)
            reached = work.edge[e].best + step
            if reached > work.edge[o].best + SAME:
                if reached > work.edge[o].best + TIE:
                    work.edge[o].ties = 0
                work.edge[o].best, work.edge[o].back = reached, e
                work.edge[o].ties += work.edge[e].ties
            elif reached >= work.edge[o].best - TIE:
                work.edge[o].ties += work.edge[e].ties


@compiled()
def _by_chance(work: _Work, groups: Groups, k: int, a: int, b: int) -> tuple[float, float, float]:
    """Of the samples at node k that some path explains: log likelihood by chance, how many, how many by choice."""
    chance, count, choosing, through = 0.0, 0.0, 0.0, 0.0
    for i in range(a):
        through += work.edge[work.ins[i]].share
    for g in range(work.spot[k].first, work.spot[k].last):
        n, enters, leaves = groups.n_G[g], groups.in_G[g], groups.out_G[g]
        came = through if enters < 0 else 0.0
        left = 1.0 if leaves < 0 else 0.0
        for i in range(a):
            if work.edge[work.ins[i]].direction == enters:
                came = work.edge[work.ins[i]].share
        for j in range(b):
            if work.edge[work.outs[j]].direction == leaves:
                left = 1.0 / b
        if n and came * left > 0.0:
            chance += n * math.log(came * left)
            count += n
            if came * left < 1.0 - SAME:
                choosing += n
    return chance, count, choosing


@compiled()
def _likeliest(work: _Work, flow: _Flow, path: NDArray[np.int32]) -> tuple[float, float, int, float]:
    """Log of all paths together and of the likeliest, paths that are as likely, all paths; fills `path`."""
    z, top, last, alike, routes = -np.inf, -np.inf, -1, 0, 0.0
    for t in range(len(flow.ends)):
        e = flow.mid + len(flow.starts) + t
        z = _logsum(z, work.edge[e].alpha)
        routes += work.edge[e].routes
        if work.edge[e].best > top + SAME:
            if work.edge[e].best > top + TIE:
                alike = 0
            top, last = work.edge[e].best, e
            alike += work.edge[e].ties
        elif work.edge[e].best >= top - TIE:
            alike += work.edge[e].ties
    hops, e = 0, last
    while e >= 0:
        work.chain[hops] = work.edge[e].direction
        hops += 1
        e = work.edge[e].back
    for h in range(hops):
        path[h] = work.chain[hops - 1 - h]
    return z, top, alike, routes


@compiled()
def _backward(work: _Work, groups: Groups, model: Model, flow: _Flow, prior: Floats) -> None:
    """Fill beta and ahead of all edges."""
    edges = flow.mid + len(flow.starts) + len(flow.ends)
    for e in range(edges):
        last = e >= edges - len(flow.ends)
        work.edge[e].beta = work.edge[e].ahead = 0.0 if last else -np.inf
    for k in range(flow.nodes - 1, -1, -1):
        a, b = _into(work, flow, k), _outof(work, flow, k)
        quiet = _quiet(work, flow, model, k)
        _priors(work, model, b, prior)
        for j in range(b):
            o = work.outs[j]
            for i in range(a):
                e = work.ins[i]
                step = prior[j] + quiet + _evidence(work, groups, model, k, e, o)
                work.edge[e].beta = _logsum(work.edge[e].beta, work.edge[o].beta + step)
                work.edge[e].ahead = max(work.edge[e].ahead, work.edge[o].ahead + step)


@compiled()
def _search(
    work: _Work,
    groups: Groups,
    model: Model,
    flow: _Flow,
    low: float,
    high: float,
    found: NDArray[np.int32],
    log: Floats,
    count: int,
    prior: Floats,
) -> int:
    """Paths with a log likelihood of at least `low` and below `high`, to `found` from `count` on; returns how many.

    Depth first, in the order of directions, along edges whose likeliest continuation is good enough.
    """
    depth, steps = 0, 0
    for s in range(len(flow.starts) - 1, -1, -1):
        e = flow.mid + s
        if work.edge[e].alpha > -np.inf:
            _push(work.stack, depth, e, 0, work.edge[e].alpha)
            depth += 1
    while depth > 0 and steps < STEPS_MAX and count < len(found):
        steps += 1
        depth -= 1
        e, hop, so_far = work.stack[depth].edge, work.stack[depth].hop, work.stack[depth].score
        work.chain[hop] = work.edge[e].direction
        if so_far + work.edge[e].ahead < low - SAME:
            continue
        if e >= flow.mid + len(flow.starts):
            if so_far < high - SAME:
                found[count] = -1
                for h in range(hop + 1):
                    found[count, h] = work.chain[h]
                log[count] = so_far
                count += 1
            continue
        k = flow.head_S[e - flow.mid] if e >= flow.mid else work.head_M[e]
        b = _outof(work, flow, k)
        quiet = _quiet(work, flow, model, k)
        _priors(work, model, b, prior)
        for j in range(b - 1, -1, -1):
            o = work.outs[j]
            step = prior[j] + quiet + _evidence(work, groups, model, k, e, o)
            _push(work.stack, depth, o, hop + 1, so_far + step)
            depth += 1
    return count


@compiled()
def _push(stack: Any, depth: int, edge: int, hop: int, score: float) -> None:
    stack[depth].edge = edge
    stack[depth].hop = hop
    stack[depth].score = score


@compiled()
def _work(nodes: int, between: int, directions: int) -> _Work:
    edges = between + ENDS_MAX
    return _Work(
        np.full(nodes, -1, np.int64), np.empty(nodes, np.int64), np.empty(nodes + 1, np.int64),
        np.empty(nodes + 1, np.int64), np.empty(between, np.int64), np.empty(between, np.int64),
        np.empty(between, np.int64), np.empty(between, np.int64), np.arange(between),
        np.full(directions, -1, np.int64), np.zeros(edges, _EDGE), np.zeros(nodes, _SPOT),
        np.zeros(HOPS_MAX * edges, _OPEN), np.empty(edges, np.int64), np.empty(edges, np.int64),
        np.empty(HOPS_MAX + 2, np.int64),
    )  # fmt: skip


@compiled()
def _graph(work: _Work, routes: Routes, f: int, nodes: int) -> tuple[int, int]:
    """The graph of a flow in place of the one before, which had so many nodes; returns its nodes and mid edges."""
    for k in range(nodes):
        work.local_V[work.node_K[k]] = -1
    starts = routes.start[routes.start_F[f] : routes.start_F[f + 1]]
    dist_V = routes.dist_TV[routes.target_F[f]]
    sources, count = np.empty(len(starts), np.int64), 0
    for s in range(len(starts)):
        if dist_V[routes.to_D[starts[s]]] < FAR:
            sources[count] = routes.to_D[starts[s]]
            count += 1
    return shortest(
        routes.first_V, routes.onward, routes.to_D, dist_V, sources[:count], work.local_V, work.node_K, work.out_K,
        work.edge_M, work.tail_M, work.head_M, work.in_K, work.in_M,
    )  # fmt: skip


@compiled()
def _twice(values: Any) -> Any:
    """The same with as much room again."""
    more = np.empty(2 * len(values), values.dtype)
    more[: len(values)] = values
    return more


@compiled()
def infer(
    routes: Routes, groups: Groups, model: Model, flow_X: Ints
) -> tuple[
    tuple[Ints, NDArray[np.int32], Floats, Floats, Floats, Floats, Ints, Floats, Floats],
    tuple[Ints, NDArray[np.int32], Floats],
    tuple[Ints, Ints, Floats],
]:
    """Likeliest path of each flow of `flow_X`, and how likely; where it is less than sure, what else it may be.

    Inputs: flows in an order in which those of one graph follow each other; samples; what they mean.
    Returns, per flow of `flow_X`: status, path (directions, -1 behind the last), log of its probability, log likelihood
    of the data with one path, and with packets sprayed evenly, the flow's number of shortest paths, paths as likely,
    samples that fit one of the shortest paths each, and those of them that could have been on another; then the
    alternatives (place in `flow_X`, path, log probability) and the marginals (place in `flow_X`, direction,
    probability) of the flows that are not sure.
    """
    work = _work(len(routes.first_V) - 1, len(routes.onward), len(routes.to_D))
    count, prior = len(flow_X), np.empty(len(routes.onward) + ENDS_MAX)
    status, path = np.zeros(count, np.int64), np.full((count, HOPS_MAX), -1, np.int32)
    logp, single, sprayed = np.zeros(count), np.zeros(count), np.zeros(count)
    ways, alike, on_graph, apart = np.zeros(count), np.zeros(count, np.int64), np.zeros(count), np.zeros(count)
    a_flow, a_log, a_count = np.empty(64, np.int64), np.empty(64), 0
    a_path = np.full((64, HOPS_MAX), -1, np.int32)
    m_flow, m_dir, m_p, m_count = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64), 0
    graph, nodes, mid = -1, 0, 0
    for x in range(count):
        f = flow_X[x]
        if routes.graph_F[f] != graph:
            graph = routes.graph_F[f]
            nodes, mid = _graph(work, routes, f, nodes)
        flow = _prepared(work, routes, groups, model, f, nodes, mid)
        edges = mid + len(flow.starts) + len(flow.ends)
        if flow.longest + 2 > HOPS_MAX:
            status[x] = TOO_LONG
        elif nodes == 0 or flow.tail_E.max() < 0:
            status[x] = UNREACHABLE
        if status[x] == OK:
            dist_V = routes.dist_TV[routes.target_F[f]]
            chance, on_graph[x], apart[x] = _forward(work, groups, model, flow, dist_V, prior)
            z, top, alike[x], ways[x] = _likeliest(work, flow, path[x])
            single[x] = z - flow.total * model.gain
            sprayed[x] = chance - (flow.total - on_graph[x]) * model.gain
            for h in range(HOPS_MAX - 1):
                if path[x, h + 1] >= 0:  # switches are as silent about sprayed packets
                    sprayed[x] += _quiet(work, flow, model, work.local_V[routes.to_D[path[x, h]]])
            logp[x] = top - z
            if logp[x] < math.log(model.sure) or model.mode == SPRAY:
                _backward(work, groups, model, flow, prior)
                for e in range(edges):
                    p = math.exp(min(work.edge[e].alpha + work.edge[e].beta - z, 0.0))
                    if p >= LEAST:
                        if m_count == len(m_flow):
                            m_flow, m_dir, m_p = _twice(m_flow), _twice(m_dir), _twice(m_p)
                        m_flow[m_count], m_dir[m_count], m_p[m_count] = x, work.edge[e].direction, p
                        m_count += 1
                if a_count + ALTERNATIVES_MAX > len(a_flow):
                    a_flow, a_log = _twice(a_flow), _twice(a_log)
                    a_path = np.concatenate((a_path, np.full_like(a_path, -1)))
                room, log = a_path[a_count : a_count + ALTERNATIVES_MAX], a_log[a_count : a_count + ALTERNATIVES_MAX]
                told = _search(work, groups, model, flow, top - TIE, np.inf, room, log, 0, prior)
                told = _search(work, groups, model, flow, top - SLACK, top - TIE, room, log, told, prior)
                a_flow[a_count : a_count + told] = x
                a_log[a_count : a_count + told] -= z
                a_count += told
        for e in range(edges):
            work.place_D[work.edge[e].direction] = -1
    return (
        (status, path, logp, single, sprayed, ways, alike, on_graph, apart),
        (a_flow[:a_count].copy(), a_path[:a_count].copy(), a_log[:a_count].copy()),
        (m_flow[:m_count].copy(), m_dir[:m_count].copy(), m_p[:m_count].copy()),
    )


@compiled()
def fits(
    group_F: Ints, node_G: Ints, in_G: Ints, out_G: Ints, path_FH: NDArray[np.int32], to_D: Ints
) -> NDArray[np.bool_]:
    """Whether each group lies on the path of its flow: entered and left as the path does, where it says so."""
    found = np.zeros(len(node_G), np.bool_)
    for f in range(len(group_F) - 1):
        for g in range(group_F[f], group_F[f + 1]):
            for h in range(path_FH.shape[1] - 1):
                e, o = path_FH[f, h], path_FH[f, h + 1]
                if e < 0 or o < 0:
                    break
                if to_D[e] == node_G[g] and (in_G[g] < 0 or in_G[g] == e) and (out_G[g] < 0 or out_G[g] == o):
                    found[g] = True
                    break
    return found
