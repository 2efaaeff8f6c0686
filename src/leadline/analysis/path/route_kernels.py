"""Kernels over the fabric: distances to destinations, and the shortest paths between two ends as a small graph.

A graph (`Dag`) numbers its nodes from the source on (no edge leads back) and keeps its edges by the node that sends:

    start edges (NICs of the sender) -> nodes by falling distance, mid edges between them -> end edges (NICs behind)
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Ints
from leadline.analysis.compiled import compiled

Shorts = NDArray[np.int16]
FAR = np.int16(32_000)  # not connected


@compiled()
def distances(first_V: Ints, onward: Ints, to_D: Ints, first_T: Ints, leaf_X: Ints) -> Shorts:
    """Switch-to-switch hops of every node to each target, a set of leaves: (T, V), `FAR` where none leads there.

    Inputs: directions between switches by sender (`Topology.onward`); leaves of target t are
    `leaf_X[first_T[t]:first_T[t + 1]]`. Links go both ways, so hops from a leaf are hops to it.
    """
    targets, nodes = len(first_T) - 1, len(first_V) - 1
    dist_TV = np.full((targets, nodes), FAR, np.int16)
    queue = np.empty(nodes, np.int64)
    for t in range(targets):
        head = tail = 0
        for x in range(first_T[t], first_T[t + 1]):
            if dist_TV[t, leaf_X[x]] == FAR:
                dist_TV[t, leaf_X[x]] = 0
                queue[tail] = leaf_X[x]
                tail += 1
        while head < tail:
            u = queue[head]
            head += 1
            for at in range(first_V[u], first_V[u + 1]):
                v = to_D[onward[at]]
                if dist_TV[t, v] == FAR:
                    dist_TV[t, v] = dist_TV[t, u] + 1
                    queue[tail] = v
                    tail += 1
    return dist_TV


@compiled()
def choices(first_V: Ints, onward: Ints, to_D: Ints, dist_TV: Shorts, node_X: Ints, target_X: Ints) -> Ints:
    """A number for the set of next hops of each node towards each target, (X,); 0 where there is at most one.

    The same set of one node has the same number; two sets have different ones but for a chance of 2 ** -63.
    """
    out = np.zeros(len(node_X), np.int64)
    for x in range(len(node_X)):
        dist_V = dist_TV[target_X[x]]
        hops, mixed = 0, np.uint64(node_X[x] + 1)
        for j in range(first_V[node_X[x]], first_V[node_X[x] + 1]):
            if dist_V[to_D[onward[j]]] + 1 == dist_V[node_X[x]]:
                hops += 1
                mixed = (mixed ^ np.uint64(onward[j] + 1)) * np.uint64(0x9E3779B97F4A7C15)
                mixed ^= mixed >> np.uint64(29)
        out[x] = np.int64(mixed >> np.uint64(1)) if hops > 1 else 0
    return out


@compiled()
def shortest(
    first_V: Ints,
    onward: Ints,
    to_D: Ints,
    dist_V: Shorts,
    source_X: Ints,
    local_V: Ints,
    node_K: Ints,
    out_K: Ints,
    edge_M: Ints,
    tail_M: Ints,
    head_M: Ints,
    in_K: Ints,
    in_M: Ints,
) -> tuple[int, int]:
    """Fill a graph of all shortest paths from the sources; returns the numbers of nodes and of edges.

    Filled: `node_K` (nodes by falling distance), `local_V` (their place, to be reset by the caller), mid edges with
    their ends, `out_K` (first edge of each node), `in_K` and `in_M` (edges into each node).
    """
    nodes = 0
    for x in range(len(source_X)):
        if local_V[source_X[x]] < 0:
            local_V[source_X[x]] = 0
            node_K[nodes] = source_X[x]
            nodes += 1
    at = 0
    while at < nodes:
        u = node_K[at]
        at += 1
        for j in range(first_V[u], first_V[u + 1]):
            v = to_D[onward[j]]
            if dist_V[v] + 1 == dist_V[u] and local_V[v] < 0:
                local_V[v] = 0
                node_K[nodes] = v
                nodes += 1
    by_distance = np.argsort(-dist_V[node_K[:nodes]].astype(np.int64) * 2**40 + node_K[:nodes])
    node_K[:nodes] = node_K[:nodes][by_distance]
    for k in range(nodes):
        local_V[node_K[k]] = k
    edges = 0
    in_K[: nodes + 1] = 0
    for k in range(nodes):
        out_K[k] = edges
        u = node_K[k]
        for j in range(first_V[u], first_V[u + 1]):
            v = to_D[onward[j]]
            if dist_V[v] + 1 == dist_V[u]:
                edge_M[edges] = onward[j]
                tail_M[edges] = k
                head_M[edges] = local_V[v]
                in_K[local_V[v] + 1] += 1
                edges += 1
    out_K[nodes] = edges
    for k in range(nodes):
        in_K[k + 1] += in_K[k]
    filled = in_K[:nodes].copy()
    for m in range(edges):
        in_M[filled[head_M[m]]] = m
        filled[head_M[m]] += 1
    return nodes, edges
