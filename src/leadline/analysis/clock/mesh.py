"""Offsets of all hosts from those of edges: robust weighted least squares over the graph.

    edges (src, dst, offset, weight) ──> islands ──> squares ──> weights of residuals ──┐
                                                       ^────────────────────────────────┘ until they hold still

Around every loop true offsets sum to nothing; what is left is noise and asymmetry. Edges with asymmetric paths stand
out by their residuals and lose their weight (Geman and McClure 1987, scale from the median): with ten edges a host, a
tenth of them wrong costs nothing; with three it costs the result. What looks the same from all of a host's edges (all
ways to it longer than those from it) is no loop's residual: nothing tells it from an offset.

Sources: least squares on graphs of clocks (sensor networks, 2000s); conjugate gradients (Hestenes and Stiefel 1952).
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.clock import mesh_kernels as kernels
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.robust import MAD_TO_SIGMA

# Relative size of the residual at which squares are solved, as edges themselves are known to a part in a hundred.
# Source: judgement.
TOLERANCE = 1e-6
# Steps of conjugate gradients at most: random graphs need some ten. A chain of hosts needs as many as it is long.
# Source: bound.
STEPS_MAX = 2_000
# Times that weights are taken anew at most; the published design takes 12, mostly fewer change anything.
# Source: judgement.
REWEIGHTED_MAX = 12
# Scale of Geman-McClure weights, in standard deviations of residuals: an edge that is 2 off keeps 64 % of its weight.
# Source: measured (simulated meshes with none and a tenth of their edges biased, docs/log.md).
SCALE_SIGMAS = 4.0
# Scale of Huber's weights in standard deviations, below which all edges count alike. Source: textbook (Huber 1964:
# 1.345 for 95 % efficiency); less, as it is only where the other begins.
HUBER_SIGMAS = 1.0
HUBER_MAX = 8  # number of rounds at most of Huber's weights, as more move little. Source: measured (docs/log.md).
# Residual in standard deviations beyond which an edge is told as asymmetric, as one in 10^8 is by chance. It must also
# be larger than `FLAG_NS`. Source: judgement.
FLAG_SIGMAS = 6.0
# ns of residual below which no edge is told as asymmetric: cables and ports differ by as much. Source: judgement.
FLAG_NS = 100.0
# ns of spread below which no edge counts as better than others: stamps are not finer. Source: judgement.
SPREAD_MIN_NS = 3.0
# Part of the scale by which weights must still move for another round, because less does not show in offsets.
# Source: judgement.
STILL_RATIO = 0.02


@dataclass(frozen=True, slots=True)
class Solved:
    """Offsets of H hosts, from E edges."""

    x_H: Floats  # of each island up to a constant, which is that of the start
    island_H: Ints  # the smallest host of each island; hosts without an edge are islands of their own
    residual_E: Floats
    weight_E: Floats
    flagged_E: Bools  # asymmetric: it disagrees with the loops that it is in
    sigma_H: Floats  # standard deviation of each offset, from residuals; inf without an edge
    sigma: float  # of the residuals, in units of each edge's own spread
    freedom: int  # E - N + islands: residuals that are not offsets


def solved(
    src_E: Ints, dst_E: Ints, value_E: Floats, spread_E: Floats, hosts: int, *, start_H: Floats | None = None,
    robust: bool = True, flag_min: float = FLAG_NS,
) -> Solved:  # fmt: skip
    """Values of hosts whose differences (dst less src) are those of edges.

    Inputs: hosts of edges by number, int64 (E,); values and their spreads (standard deviations, any unit), (E,);
    `start_H`, what was known before: it saves steps, and its constants are kept. No NaN. Of E = 0 all are islands.
    Returns: see `Solved`. The order of edges changes rounding only.
    Accuracy: a relative `TOLERANCE` of the largest value, so give what is left after a prediction, not times of day.
    """
    src_E, dst_E = np.ascontiguousarray(src_E, np.int64), np.ascontiguousarray(dst_E, np.int64)
    value_E = np.ascontiguousarray(value_E, np.float64)
    x_H = np.zeros(hosts) if start_H is None else start_H.astype(np.float64).copy()
    island_H = kernels.islands(hosts, src_E, dst_E)
    freedom = len(src_E) - hosts + len(np.unique(island_H))
    spread_E = np.maximum(spread_E, SPREAD_MIN_NS)
    prior_E = 1.0 / spread_E**2
    if not len(src_E):
        empty = np.zeros(0)
        return Solved(x_H, island_H, empty, empty, empty > 0, np.full(hosts, np.inf), np.nan, 0)
    weight_E = prior_E.copy()
    kernels.solve(src_E, dst_E, value_E, weight_E, x_H, TOLERANCE, STEPS_MAX)
    share = freedom / len(src_E)  # of residuals that offsets leave
    sigma = _sigma(kernels.residuals(src_E, dst_E, value_E, x_H) / spread_E, share)
    if robust and freedom > 0:
        for weigh, scale, rounds in _ROUNDS:
            for _ in range(rounds):
                before_H, before = x_H.copy(), sigma
                weigh(src_E, dst_E, value_E, prior_E, x_H, scale * sigma, weight_E)
                kernels.solve(src_E, dst_E, value_E, weight_E, x_H, _LOOSE, STEPS_MAX)
                sigma = _sigma(kernels.residuals(src_E, dst_E, value_E, x_H) / spread_E, share)
                moved = np.abs(x_H - before_H).max()
                if abs(sigma - before) <= STILL_RATIO * before and moved <= STILL_RATIO * sigma * SPREAD_MIN_NS:
                    break
    residual_E = kernels.residuals(src_E, dst_E, value_E, x_H)
    flagged_E = (np.abs(residual_E) > FLAG_SIGMAS * sigma * spread_E) & (np.abs(residual_E) > flag_min)
    return Solved(x_H, island_H, residual_E, weight_E, flagged_E, _sigma_H(src_E, dst_E, weight_E, sigma, hosts),
                  sigma, freedom)  # fmt: skip


# Ratio of the residual between two rounds of weights, because the next round goes on from there. Source: judgement.
_LOOSE = 1e-4

# Weights, their scales in standard deviations, and rounds at most: first Huber's, which has one minimum, so that the
# second, which has many, begins near the right one. Source: textbook (Huber 1964; Geman and McClure 1987).
_ROUNDS = ((kernels.huberised, HUBER_SIGMAS, HUBER_MAX), (kernels.reweighted, SCALE_SIGMAS, REWEIGHTED_MAX))


def _sigma(scaled_E: Floats, share: float) -> float:
    """Standard deviation of scaled residuals from their median, with what solving took from them given back."""
    sample_E = np.abs(scaled_E[:: max(1, len(scaled_E) // 65_536)])
    # np.median takes four times as long for a few thousand, and this is called for each round of weights.
    low, high = (len(sample_E) - 1) // 2, len(sample_E) // 2
    ordered_E = np.partition(sample_E, (low, high))
    median = float(ordered_E[low] + ordered_E[high]) / 2
    return float(max(MAD_TO_SIGMA * median / np.sqrt(max(share, 0.05)), 1e-3))


def _sigma_H(src_E: Ints, dst_E: Ints, weight_E: Floats, sigma: float, hosts: int) -> Floats:
    """Spread of each host's offset: of its weighted edges, which is nearly that of the inverse Laplacian's diagonal.

    In a graph with loops everywhere a host's neighbours are known nearly as well as their mean: Firefly (2025) and
    section 4.2 of Huygens (2018) rely on it. A host on one edge inherits its neighbour's spread on top; `live` adds it.
    """
    weight_H = np.bincount(src_E, weight_E, hosts) + np.bincount(dst_E, weight_E, hosts)
    with np.errstate(divide="ignore"):
        sigma_H: Floats = sigma / np.sqrt(weight_H)
    return sigma_H


def certain_bounds(src_E: Ints, dst_E: Ints, width_E: Floats, residual_E: Floats, island_H: Ints) -> Floats:
    """How far each host's offset may be off from its island's best connected host for certain, ns, (H,).

    Inputs: edges with what their lines are off at most (`Lines.certain_E`) and the residuals that the solution left.
    Returns: along the surest way to that host the sum of both; inf without one. So the difference of two hosts of an
    island is right to within the sum of theirs, whatever queues did, if no stamp is wrong and clocks run straight.
    """
    from scipy.sparse import csr_array  # here: it takes half a second to load, which a server need not wait for
    from scipy.sparse.csgraph import dijkstra

    hosts = len(island_H)
    reach_E = np.where(np.isfinite(width_E), np.maximum(width_E, 0.0), np.inf) + np.abs(residual_E)
    good_E = np.isfinite(reach_E)
    ends = np.concatenate([src_E[good_E], dst_E[good_E]]), np.concatenate([dst_E[good_E], src_E[good_E]])
    reach = np.tile(reach_E[good_E] + 1e-9, 2)  # 0 would be no edge
    order = np.lexsort((reach, ends[1], ends[0]))  # of several edges between two hosts the surest
    pair = ends[0][order] * hosts + ends[1][order]
    order = order[np.concatenate([[True], pair[1:] != pair[:-1]])] if len(pair) else order
    graph = csr_array((reach[order], (ends[0][order], ends[1][order])), shape=(hosts, hosts))
    degree_H = np.bincount(ends[0], minlength=hosts)
    by_degree = np.lexsort((-degree_H, island_H))
    roots = by_degree[np.unique(island_H[by_degree], return_index=True)[1]]
    found: Floats = np.asarray(dijkstra(graph, indices=roots, min_only=True), np.float64)
    return found
