"""The likeliest path of each flow among the shortest ones that the fabric allows, and how likely it is.

    ends of each flow + fabric --distances--> graphs of shortest paths
    graphs + groups of samples --forward, backward--> posterior over paths

Method and sources: docs/analyses/path.md.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.path.infer_kernels import OK, SINGLE, Groups, Model, Routes, fits, infer
from leadline.analysis.path.route_kernels import Shorts, distances
from leadline.analysis.path.topology import Topology

ERROR = 1e-3  # chance that a sample tells something wrong: a port, a switch, a flow
SILENT = 0.02  # chance that a switch that samples misses a flow altogether for a while
SURE = 0.975  # from here on a link counts as crossed, see `volume`; below it alternatives are looked for
CANDIDATES_MAX = 16  # ports of one address
Paths = NDArray[np.int32]


@dataclass(frozen=True)
class Ends:
    """Where flows begin and end, as lists per flow: directions out of the sender's NICs, into the receiver's."""

    start_F: Ints  # first place of each flow in `start`, (F + 1,)
    start: Ints
    end_F: Ints
    end: Ints
    sources_F: Ints  # number of the set of leaves behind the sender's NICs, -1: its address has no port with a link
    target_F: Ints  # and of the receiver's, a place in `targets`
    targets: list[tuple[int, ...]]

    @property
    def known_F(self) -> Bools:
        """Flows with both ends at a switch."""
        known: Bools = (self.sources_F >= 0) & (self.target_F >= 0)
        return known


@dataclass(frozen=True)
class Fabric:
    """A topology with distances to the targets of some flows."""

    topology: Topology
    dist_TV: Shorts

    def next_hops(self, node: int, target: int) -> list[int]:
        """Directions by which a switch may send towards a target."""
        first, onward = self.topology.onward
        dist_V = self.dist_TV[target]
        out = onward[first[node] : first[node + 1]].tolist()
        return [each for each in out if dist_V[self.topology.to_D[each]] + 1 == dist_V[node]]


@dataclass(frozen=True)
class Evidence:
    """Groups of samples as the inference takes them: by flow, then node; directions instead of ports, -1 unknown."""

    group_F: Ints  # first group of each flow, (F + 1,)
    flow_G: Ints
    node_G: Ints  # -1: a switch that the topology does not know
    in_G: Ints
    out_G: Ints
    samples_G: Ints
    per_packet_V: Floats  # samples per packet at each node, 0: it tells nothing


@dataclass(frozen=True)
class Posterior:
    """What is concluded of some flows. Arrays over X, places in `flow_X`; alternatives over A, marginals over M."""

    flow_X: Ints
    status_X: Ints
    path_XH: Paths
    probability_X: Floats
    single_X: Floats  # log likelihood: all packets on one path
    sprayed_X: Floats  # log likelihood: each packet on its own, all paths as likely
    routes_X: Floats  # shortest paths that there are
    alike_X: Ints  # as likely as the likeliest, itself included
    on_graph_X: Floats  # samples that lie on some shortest path
    apart_X: Floats  # and of these, those that could have been on another one
    flow_A: Ints  # place in flow_X
    path_AH: Paths
    probability_A: Floats
    flow_M: Ints
    direction_M: Ints
    probability_M: Floats

    @property
    def ok_X(self) -> Bools:
        """Flows that have a path at all."""
        ok: Bools = self.status_X == OK
        return ok


def ends(
    topology: Topology, src_F: Ints, dst_F: Ints, addresses: Sequence[str], ports_of: Mapping[str, tuple[int, ...]]
) -> Ends:
    """Candidates of both ends of flows, from places of their addresses in `addresses` and the ports of each."""
    out_A, in_A, leaves_A = [], [], []
    for address in addresses:
        ports = [port for port in ports_of.get(address, ()) if topology.out_P[port] >= 0]
        ports = [port for port in ports if topology.switch_V[topology.to_D[topology.out_P[port]]]][:CANDIDATES_MAX]
        out_A.append([int(topology.out_P[port]) for port in ports])
        in_A.append([int(topology.into_P[port]) for port in ports])
        leaves_A.append(tuple(sorted({int(topology.to_D[topology.out_P[port]]) for port in ports})))
    targets = sorted(set(leaves_A) - {()})
    place = {leaves: number for number, leaves in enumerate(targets)}
    set_A = np.array([place.get(leaves, -1) for leaves in leaves_A], np.int64)
    return Ends(
        *_listed(out_A, src_F), *_listed(in_A, dst_F), _at(set_A, src_F), _at(set_A, dst_F), targets
    )  # fmt: skip


def _at(value_A: Ints, place_F: Ints) -> Ints:
    return value_A[place_F] if len(value_A) else np.full(len(place_F), -1, np.int64)


def _listed(of_A: list[list[int]], place_F: Ints) -> tuple[Ints, Ints]:
    """Lists of addresses repeated for each flow: (first place of each flow, values)."""
    size_A = np.array([len(each) for each in of_A], np.int64)
    first_A = np.concatenate((np.zeros(1, np.int64), np.cumsum(size_A)))
    flat = np.array([value for each in of_A for value in each], np.int64)
    size_F = _at(size_A, place_F) if len(size_A) else np.zeros(len(place_F), np.int64)
    first_F = np.concatenate((np.zeros(1, np.int64), np.cumsum(size_F)))
    offset = np.repeat(first_A[place_F] - first_F[:-1], size_F) if len(size_A) else np.zeros(0, np.int64)
    return first_F, flat[offset + np.arange(len(offset))] if len(flat) else flat


def fabric(topology: Topology, targets: Sequence[tuple[int, ...]]) -> Fabric:
    """Distances of all switches to these targets."""
    first, onward = topology.onward
    first_T = np.concatenate((np.zeros(1, np.int64), np.cumsum([len(each) for each in targets]))).astype(np.int64)
    leaf_X = np.array([leaf for each in targets for leaf in each], np.int64)
    return Fabric(topology, distances(first, onward, topology.to_D, first_T, leaf_X))


def posterior(
    plan: Fabric,
    at: Ends,
    evidence: Evidence,
    flow_X: Ints,
    samples_G: Ints | None = None,
    mode: int = SINGLE,
    silence: bool = True,
) -> Posterior:
    """Posterior over the shortest paths of the flows `flow_X` (known ends).

    Prior: every next hop that is as short is as likely. A sample that fits a path is 1 - ERROR, one that does not
    ERROR; a switch of a path that samples others but not this flow has the chance of that, at least SILENT (`silence`).
    `samples_G`: instead of all samples; `mode`: see `infer_kernels`.
    """
    graph_F = at.sources_F * max(len(at.targets), 1) + at.target_F
    order = flow_X[np.lexsort((flow_X, graph_F[flow_X]))]
    first, onward = plan.topology.onward
    per_packet_V = evidence.per_packet_V if silence else np.zeros_like(evidence.per_packet_V)
    routes = Routes(
        first, onward, plan.topology.to_D, plan.topology.from_D, plan.dist_TV, at.target_F, graph_F,
        at.start_F, at.start, at.end_F, at.end,
    )  # fmt: skip
    counts_G = evidence.samples_G if samples_G is None else samples_G
    groups = Groups(evidence.group_F, evidence.node_G, evidence.in_G, evidence.out_G, counts_G)
    model = Model(per_packet_V, -math.log(ERROR), math.log(SILENT), mode, SURE)
    of_flow, (a_flow, a_path, a_log), marginals = infer(routes, groups, model, order)
    status, path, logp, single, sprayed, ways, alike, on_graph, apart = of_flow
    return Posterior(
        order, status, path, np.exp(logp), single, sprayed, ways, alike, on_graph, apart,
        a_flow, a_path, np.exp(a_log), *marginals,
    )  # fmt: skip


def fitting(evidence: Evidence, topology: Topology, path_FH: Paths) -> Bools:
    """Whether each group lies on its flow's path."""
    found: Bools = fits(evidence.group_F, evidence.node_G, evidence.in_G, evidence.out_G, path_FH, topology.to_D)
    return found
