"""Kernels of the inference: forward and backward over the shortest paths of each flow, in logarithms.

Numbering of the edges of one flow: mid edges of the graph 0 .. M - 1, then start edges (the sender's NICs), then end
edges (the receiver's). A transition is (edge into a node, edge out of it); its score is the evidence of the samples
that were taken at the node. Method: docs/analyses/path.md.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit
from numpy.typing import NDArray

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.path.route_kernels import FAR, Shorts, shortest

HOPS_MAX = 16  # links of a path
ALTERNATIVES_MAX = 8  # paths told of one flow
TIE = 0.01  # paths within 1 % are as likely
SLACK = 4.6  # and those within a factor of 100 are told
STEPS_MAX = 4096  # of the search for alternatives of one flow
LEAST = 0.005  # smaller marginals are left out

OK, UNREACHABLE, TOO_LONG = 0, 1, 2
SINGLE, SPRAY = 0, 1  # what a flow is taken to do: all packets on one path, or each on its own


@njit(cache=True)
def _logsum(a: float, b: float) -> float:
    if a < b:
        a, b = b, a
    return a if b == -np.inf else a + math.log1p(math.exp(b - a))


@njit(cache=True)
def _score(e: int, o: int, first: int, last: int, in_G: Ints, out_G: Ints, n_G: Ints, gain: float) -> float:
    """Evidence for entering by direction `e` and leaving by `o` of the groups at one node."""
    total = 0.0
    for g in range(first, last):
        if (in_G[g] < 0 or in_G[g] == e) and (out_G[g] < 0 or out_G[g] == o):
            total += n_G[g] * gain
    return total


@njit(cache=True)
def _silence(empty: bool, per_packet: float, total: float, intensity: float, silent: float) -> float:
    """Log of the chance that a switch that a flow crosses has no sample of it.

    Where `total` samples were taken at other switches that together sample `intensity` of each packet, the number of
    packets is uncertain (gamma), so that none here has the chance (1 + per_packet / intensity) ** -total.
    """
    if not empty or per_packet <= 0.0 or total <= 0.0:
        return 0.0
    return silent if intensity <= 0.0 else max(silent, -total * math.log1p(per_packet / intensity))


@njit(cache=True)
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


@njit(cache=True)
def infer(
    first_V: Ints,
    onward: Ints,
    to_D: Ints,
    from_D: Ints,
    dist_TV: Shorts,
    flow_X: Ints,
    target_F: Ints,
    graph_F: Ints,
    start_F: Ints,
    start: Ints,
    end_F: Ints,
    end: Ints,
    group_F: Ints,
    node_G: Ints,
    in_G: Ints,
    out_G: Ints,
    n_G: Ints,
    per_packet_V: Floats,
    gain: float,
    silent: float,
    mode: int,
    sure: float,
) -> tuple[
    Ints,
    NDArray[np.int32],
    Floats,
    Floats,
    Floats,
    Floats,
    Ints,
    Floats,
    Ints,
    NDArray[np.int32],
    Floats,
    Ints,
    Ints,
    Floats,
]:
    """Likeliest path of each flow of `flow_X`, and how likely; where it is less than `sure`, what else it may be.

    Inputs: fabric and distances (`route_kernels`); flows in an order in which those of one graph (`graph_F`: same leaf
    of the sender, same target) follow each other; their first and last links; their groups by node, with `n_G` samples.
    `per_packet_V`: samples per packet of a switch that tells, 0 of one that does not; `gain`: of a sample that fits,
    over one that is an error; `silent`: log of the chance that a switch that tells misses a flow altogether.
    Returns, per flow of `flow_X`: status, path (directions, -1 behind the last), log of its probability, log likelihood
    of the data with one path, and with sprayed packets, the flow's number of shortest paths, paths as likely, samples
    that fit one of the shortest paths each; then the alternatives (place in `flow_X`, path, log probability) and the
    marginals (place in `flow_X`, direction, probability) of the flows that are not sure.
    """
    nodes_max, edges_max = len(first_V) - 1, len(onward)
    local_V = np.full(nodes_max, -1, np.int64)
    node_K, out_K, in_K = (
        np.empty(nodes_max, np.int64),
        np.empty(nodes_max + 1, np.int64),
        np.empty(nodes_max + 1, np.int64),
    )
    edge_M, tail_M, head_M = np.empty(edges_max, np.int64), np.empty(edges_max, np.int64), np.empty(edges_max, np.int64)
    in_M, number_M = np.empty(edges_max, np.int64), np.arange(edges_max)
    some = edges_max + 64
    alpha, beta, best, ahead = np.empty(some), np.empty(some), np.empty(some), np.empty(some)
    back, ties, dir_e = np.empty(some, np.int64), np.empty(some, np.int64), np.empty(some, np.int64)
    seen_e, share_e, routes_e = np.empty(some), np.empty(some), np.empty(some)
    ins, outs = np.empty(some, np.int64), np.empty(some, np.int64)
    place_D = np.full(len(to_D), -1, np.int64)
    first_K, last_K = np.empty(nodes_max, np.int64), np.empty(nodes_max, np.int64)
    layer_n, layer_cells, layer_log = np.zeros(HOPS_MAX + 2), np.zeros(HOPS_MAX + 2), np.zeros(HOPS_MAX + 2)
    stack_e, stack_d, stack_s = np.empty(some * 2, np.int64), np.empty(some * 2, np.int64), np.empty(some * 2)
    chain = np.empty(HOPS_MAX + 2, np.int64)

    count = len(flow_X)
    status = np.zeros(count, np.int64)
    path = np.full((count, HOPS_MAX), -1, np.int32)
    logp, single, sprayed, routes = np.zeros(count), np.zeros(count), np.zeros(count), np.zeros(count)
    alike, on_graph = np.zeros(count, np.int64), np.zeros(count)
    a_flow, a_path, a_log = np.empty(64, np.int64), np.full((64, HOPS_MAX), -1, np.int32), np.empty(64)
    m_flow, m_dir, m_p = np.empty(64, np.int64), np.empty(64, np.int64), np.empty(64)
    a_count = m_count = 0
    graph, K, M = -1, 0, 0
    for x in range(count):
        f = flow_X[x]
        starts, ends = start[start_F[f] : start_F[f + 1]], end[end_F[f] : end_F[f + 1]]
        S, E = len(starts), len(ends)
        dist_V = dist_TV[target_F[f]]
        if graph_F[f] != graph:
            for k in range(K):
                local_V[node_K[k]] = -1
            graph = graph_F[f]
            reach = 0
            sources = np.empty(S, np.int64)
            for s in range(S):
                if dist_V[to_D[starts[s]]] < FAR:
                    sources[reach] = to_D[starts[s]]
                    reach += 1
            K, M = shortest(
                first_V,
                onward,
                to_D,
                dist_V,
                sources[:reach],
                local_V,
                node_K,
                out_K,
                edge_M,
                tail_M,
                head_M,
                in_K,
                in_M,
            )
        longest = 0
        start_head, end_tail = np.empty(S, np.int64), np.empty(E, np.int64)
        for s in range(S):
            start_head[s] = local_V[to_D[starts[s]]] if dist_V[to_D[starts[s]]] < FAR else -1
            if start_head[s] >= 0:
                longest = max(longest, dist_V[to_D[starts[s]]])
        reached = False
        for t in range(E):
            end_tail[t] = local_V[from_D[ends[t]]]
            reached |= end_tail[t] >= 0
        if K == 0 or not reached:
            status[x] = UNREACHABLE
            continue
        if longest + 2 > HOPS_MAX:
            status[x] = TOO_LONG
            continue
        # -- edges of this flow, and where its samples are --------------------------------------------------------
        edges = M + S + E
        for m in range(M):
            dir_e[m] = edge_M[m]
        for s in range(S):
            dir_e[M + s] = starts[s]
        for t in range(E):
            dir_e[M + S + t] = ends[t]
        for e in range(edges):
            place_D[dir_e[e]] = e
            seen_e[e] = 0.0
        for k in range(K):
            first_K[k] = last_K[k] = 0
        total, intensity, known_node = 0.0, 0.0, -1
        for g in range(group_F[f], group_F[f + 1]):
            total += n_G[g]
            if n_G[g] and node_G[g] != known_node:
                known_node = node_G[g]
                intensity += per_packet_V[known_node] if known_node >= 0 else 0.0
            k = local_V[node_G[g]] if node_G[g] >= 0 else -1
            if k < 0:
                continue
            if last_K[k] == 0:
                first_K[k] = g
            last_K[k] = g + 1
            if in_G[g] >= 0 and place_D[in_G[g]] >= 0:
                seen_e[place_D[in_G[g]]] += n_G[g]
            if out_G[g] >= 0 and place_D[out_G[g]] >= 0:
                seen_e[place_D[out_G[g]]] += n_G[g]
        # -- forward: all paths (alpha), the likeliest (best), chance alone (share) -------------------------------
        for e in range(edges):
            alpha[e] = best[e] = -np.inf
            share_e[e] = routes_e[e] = 0.0
            ties[e], back[e] = 0, -1
        able = 0
        for s in range(S):
            able += start_head[s] >= 0
        for s in range(S):
            if start_head[s] >= 0:
                prior = 1.0 / able
                if mode == SPRAY:
                    seen = 0.0
                    for other in range(S):
                        seen += seen_e[M + other]
                    prior = (seen_e[M + s] + 1.0 / able) / (seen + 1.0)
                alpha[M + s] = best[M + s] = math.log(prior)
                share_e[M + s], routes_e[M + s], ties[M + s] = 1.0 / able, 1.0, 1
        for h in range(longest + 2):
            layer_n[h] = layer_cells[h] = layer_log[h] = 0.0
        chance = 0.0
        for k in range(K):
            a = _ways(k, in_K, in_M, start_head, M, ins)
            b = _ways(k, out_K, number_M, end_tail, M + S, outs)
            if a == 0 or b == 0:
                continue
            u = node_K[k]
            layer = dist_V[u]
            layer_cells[layer] += a * b
            quiet = _silence(last_K[k] == 0 and mode == SINGLE, per_packet_V[u], total, intensity, silent)
            seen = 0.0
            for j in range(b):
                seen += seen_e[outs[j]]
            through, ways_in = 0.0, 0.0
            for i in range(a):
                through += share_e[ins[i]]
                ways_in += routes_e[ins[i]]
            for j in range(b):
                o = outs[j]
                share_e[o] += through / b
                routes_e[o] += ways_in
                prior = math.log(1.0 / b) if mode == SINGLE else math.log((seen_e[o] + 1.0 / b) / (seen + 1.0))
                for i in range(a):
                    e = ins[i]
                    if alpha[e] == -np.inf:
                        continue
                    step = prior + quiet
                    if mode == SINGLE:
                        step += _score(dir_e[e], dir_e[o], first_K[k], last_K[k], in_G, out_G, n_G, gain)
                    alpha[o] = _logsum(alpha[o], alpha[e] + step)
                    if best[e] + step > best[o] + 1e-9:
                        if best[e] + step > best[o] + TIE:
                            ties[o] = 0
                        best[o], back[o] = best[e] + step, e
                        ties[o] += ties[e]
                    elif best[e] + step >= best[o] - TIE:
                        ties[o] += ties[e]
            for g in range(first_K[k], last_K[k]):
                if n_G[g] == 0:
                    continue
                e = place_D[in_G[g]] if in_G[g] >= 0 else -1
                o = place_D[out_G[g]] if out_G[g] >= 0 else -1
                enters = through if in_G[g] < 0 else 0.0
                leaves = 1.0 if out_G[g] < 0 else 0.0
                for i in range(a):
                    if ins[i] == e:
                        enters = share_e[e]
                for j in range(b):
                    if outs[j] == o:
                        leaves = 1.0 / b
                if enters * leaves > 0.0:
                    chance += n_G[g] * math.log(enters * leaves)
                    on_graph[x] += n_G[g]
                    layer_n[layer] += n_G[g]
                    layer_log[layer] += math.lgamma(n_G[g] + 1.0)
        z, top, last = -np.inf, -np.inf, -1
        for t in range(E):
            e = M + S + t
            z = _logsum(z, alpha[e])
            routes[x] += routes_e[e]
            if best[e] > top + 1e-9:
                if best[e] > top + TIE:
                    alike[x] = 0
                top, last = best[e], e
                alike[x] += ties[e]
            elif best[e] >= top - TIE and ties[e]:
                alike[x] += ties[e]
        uneven = 0.0
        for h in range(longest + 1):
            cells = max(layer_cells[h], 1.0)
            uneven += math.lgamma(cells) - math.lgamma(layer_n[h] + cells) + layer_log[h]
        error = -gain
        single[x] = z + total * error
        sprayed[x] = _logsum(chance, uneven) - math.log(2.0) + (total - on_graph[x]) * error
        logp[x] = top - z
        hops, e = 0, last
        while e >= 0:
            chain[hops] = dir_e[e]
            hops += 1
            e = back[e]
        for h in range(hops):
            path[x, h] = chain[hops - 1 - h]
        for h in range(hops - 1):
            # Silent switches are as silent about sprayed packets.
            k = local_V[to_D[path[x, h]]]
            sprayed[x] += _silence(last_K[k] == 0 and mode == SINGLE, per_packet_V[node_K[k]], total, intensity, silent)
        if logp[x] < math.log(sure) or mode == SPRAY:
            # -- backward: marginals, and bounds for the search of alternatives -----------------------------------
            for e in range(edges):
                beta[e] = ahead[e] = -np.inf
            for t in range(E):
                beta[M + S + t] = ahead[M + S + t] = 0.0
            for k in range(K - 1, -1, -1):
                a = _ways(k, in_K, in_M, start_head, M, ins)
                b = _ways(k, out_K, number_M, end_tail, M + S, outs)
                u = node_K[k]
                quiet = _silence(last_K[k] == 0 and mode == SINGLE, per_packet_V[u], total, intensity, silent)
                seen = 0.0
                for j in range(b):
                    seen += seen_e[outs[j]]
                for j in range(b):
                    o = outs[j]
                    prior = math.log(1.0 / b) if mode == SINGLE else math.log((seen_e[o] + 1.0 / b) / (seen + 1.0))
                    for i in range(a):
                        e = ins[i]
                        step = prior + quiet
                        if mode == SINGLE:
                            step += _score(dir_e[e], dir_e[o], first_K[k], last_K[k], in_G, out_G, n_G, gain)
                        beta[e] = _logsum(beta[e], beta[o] + step)
                        ahead[e] = max(ahead[e], ahead[o] + step)
            for e in range(edges):
                p = math.exp(alpha[e] + beta[e] - z) if alpha[e] > -np.inf else 0.0
                if p >= LEAST:
                    if m_count == len(m_flow):
                        m_flow = np.concatenate((m_flow, np.empty_like(m_flow)))
                        m_dir = np.concatenate((m_dir, np.empty_like(m_dir)))
                        m_p = np.concatenate((m_p, np.empty_like(m_p)))
                    m_flow[m_count], m_dir[m_count], m_p[m_count] = x, dir_e[e], min(p, 1.0)
                    m_count += 1
            # -- the paths that are as likely, then those within a factor of 100, at most ALTERNATIVES_MAX ---------
            before = a_count
            for wide in range(2):
                low, high = (top - TIE, np.inf) if wide == 0 else (top - SLACK, top - TIE)
                depth, steps = 0, 0
                for s in range(S - 1, -1, -1):
                    if alpha[M + s] > -np.inf:
                        stack_e[depth], stack_d[depth], stack_s[depth] = M + s, 0, alpha[M + s]
                        depth += 1
                while depth > 0 and steps < STEPS_MAX and a_count - before < ALTERNATIVES_MAX:
                    steps += 1
                    depth -= 1
                    e, d, s_here = stack_e[depth], stack_d[depth], stack_s[depth]
                    chain[d] = dir_e[e]
                    if s_here + ahead[e] < low - 1e-9:
                        continue
                    if e >= M + S:
                        if s_here >= high - 1e-9:
                            continue
                        if a_count == len(a_flow):
                            a_flow = np.concatenate((a_flow, np.empty_like(a_flow)))
                            a_log = np.concatenate((a_log, np.empty_like(a_log)))
                            a_path = np.concatenate((a_path, np.full_like(a_path, -1)))
                        a_flow[a_count], a_log[a_count] = x, s_here - z
                        a_path[a_count, : d + 1] = chain[: d + 1]
                        a_count += 1
                        continue
                    k = start_head[e - M] if e >= M else head_M[e]
                    u = node_K[k]
                    b = _ways(k, out_K, number_M, end_tail, M + S, outs)
                    quiet = _silence(last_K[k] == 0 and mode == SINGLE, per_packet_V[u], total, intensity, silent)
                    seen = 0.0
                    for j in range(b):
                        seen += seen_e[outs[j]]
                    for j in range(b - 1, -1, -1):
                        o = outs[j]
                        step = quiet + (
                            math.log(1.0 / b) if mode == SINGLE else math.log((seen_e[o] + 1.0 / b) / (seen + 1.0))
                        )
                        if mode == SINGLE:
                            step += _score(dir_e[e], dir_e[o], first_K[k], last_K[k], in_G, out_G, n_G, gain)
                        stack_e[depth], stack_d[depth], stack_s[depth] = o, d + 1, s_here + step
                        depth += 1
        for e in range(edges):
            place_D[dir_e[e]] = -1
    return (
        status, path, logp, single, sprayed, routes, alike, on_graph,
        a_flow[:a_count].copy(), a_path[:a_count].copy(), a_log[:a_count].copy(),
        m_flow[:m_count].copy(), m_dir[:m_count].copy(), m_p[:m_count].copy(),
    )  # fmt: skip


@njit(cache=True)
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
