"""Where packets can go, as integers: links of a Clos of two or three tiers, and the paths of flows by hash.

    host -- rail --> leaf -- slot --> spine [-- plane --> super-spine] ... and down again

A link has two directions. Direction `d` of link `l` of `L` is number `l` upwards (from the end nearer to the hosts) and
`L + l` downwards. A path is at most six directions, -1 where it has fewer:

    up from the host, leaf to spine, spine to super, super to spine, spine to leaf, down to the host
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.lab.topology import Host, Topology

Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]

HOPS = 6
_GOLDEN = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Fabric:
    """Links and what they join. H = host, K = rail, F = leaf, S = slot (uplink of a leaf), P = spine, V = its uplink.

    `rail_H`: the rail that a host's first rank uses. `rise_PV`: None where there are two tiers.
    """

    links: int
    host_link_HK: Ints
    leaf_HK: Ints
    climb_FS: Ints  # link of each uplink of a leaf; -1: none
    spine_FS: Ints  # and the spine behind it
    rise_PV: Ints | None = None  # link of each uplink of a spine; spines at the same slot meet at the same V
    rail_H: Ints | None = None

    def rails_of(self, hosts_R: Ints) -> Ints:
        """The rail of each rank: ranks of one host take its rails in turn, from the host's first."""
        order = np.argsort(hosts_R, kind="stable")
        ordered = hosts_R[order]
        new = np.r_[True, ordered[1:] != ordered[:-1]] if len(ordered) else np.zeros(0, bool)
        first = np.maximum.accumulate(np.where(new, np.arange(len(ordered)), 0))
        place_R = np.empty(len(hosts_R), np.int64)
        place_R[order] = np.arange(len(ordered)) - first
        start_R = 0 if self.rail_H is None else self.rail_H[hosts_R]
        found: Ints = (place_R + start_R) % self.host_link_HK.shape[1]
        return found

    def paths(
        self, src_N: Ints, src_rail_N: Ints, dst_N: Ints, dst_rail_N: Ints, hash_N: Ints, up_D: Bools | None = None
    ) -> Ints:
        """Directions that flows cross, (N, 6), -1 where there is none.

        Inputs: hosts and rails of both ends (N,); a hash of each flow, from which every switch draws its own choice.
        `up_D`: which directions live, (2 L,); a switch chooses among those that lead there. A flow that cannot be
        carried keeps the path that it would have. Within one host nothing is crossed.
        """
        path_NX = np.full((len(src_N), HOPS), -1, np.int64)
        leaf_N, other_N = self.leaf_HK[src_N, src_rail_N], self.leaf_HK[dst_N, dst_rail_N]
        apart = src_N != dst_N
        path_NX[:, 0] = np.where(apart, self.host_link_HK[src_N, src_rail_N], -1)
        path_NX[:, 5] = np.where(apart, self.links + self.host_link_HK[dst_N, dst_rail_N], -1)
        far = np.flatnonzero(apart & (leaf_N != other_N))
        if len(far):
            self._climb(path_NX, far, leaf_N[far], other_N[far], mixed(hash_N[far]), up_D)
        return path_NX

    def _climb(
        self, path_NX: Ints, far: Ints, leaf_M: Ints, other_M: Ints, hash_M: NDArray[np.uint64], up_D: Bools | None
    ) -> None:
        climb_MS, descend_MS = self.climb_FS[leaf_M], self.climb_FS[other_M]
        lives_MS = (climb_MS >= 0) & (descend_MS >= 0)
        if self.rise_PV is None:
            lives_MS &= self.spine_FS[leaf_M] == self.spine_FS[other_M]
        slot_M = chosen(lives_MS, _lives(climb_MS, up_D, 0), _lives(descend_MS, up_D, self.links), hash_M)
        rows = np.arange(len(far))
        path_NX[far, 1] = climb_MS[rows, slot_M]
        path_NX[far, 4] = self.links + descend_MS[rows, slot_M]
        if self.rise_PV is None:
            return
        spine_M, below_M = self.spine_FS[leaf_M, slot_M], self.spine_FS[other_M, slot_M]
        over = np.flatnonzero(spine_M != below_M)
        rise, fall = self.rise_PV[spine_M[over]], self.rise_PV[below_M[over]]
        both = (rise >= 0) & (fall >= 0)
        plane = chosen(both, _lives(rise, up_D, 0), _lives(fall, up_D, self.links), mixed(hash_M[over]))
        rows = np.arange(len(over))
        path_NX[far[over], 2] = rise[rows, plane]
        path_NX[far[over], 3] = self.links + fall[rows, plane]


def chosen(there_NS: Bools, first_NS: Bools | None, second_NS: Bools | None, hash_N: NDArray[np.uint64]) -> Ints:
    """One of the ways of each row by its hash: among those that live, or those that are there if none does."""
    lives_NS = there_NS if first_NS is None else there_NS & first_NS
    lives_NS = lives_NS if second_NS is None else lives_NS & second_NS
    lives_NS = np.where(lives_NS.any(axis=1, keepdims=True), lives_NS, there_NS)
    count_N = np.maximum(lives_NS.sum(axis=1), 1).astype(np.uint64)
    # The upper half of the hash: the lower one may be what the next switch chooses by.
    wanted_N = ((hash_N >> np.uint64(32)) % count_N).astype(np.int64) + 1
    found: Ints = np.argmax(np.cumsum(lives_NS, axis=1) == wanted_N[:, None], axis=1)
    return found


def _lives(link_NS: Ints, up_D: Bools | None, first: int) -> Bools | None:
    return None if up_D is None else up_D[first + np.maximum(link_NS, 0)]


def mixed(hash_N: Ints | NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Another hash of each hash. Source: the finaliser of SplitMix64 (Steele et al., OOPSLA 2014)."""
    x = hash_N.astype(np.uint64) + _GOLDEN
    x = (x ^ (x >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    x = (x ^ (x >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return x ^ (x >> np.uint64(31))


def fabric_of(topology: Topology) -> Fabric:
    """The backend of a lab's topology. Links are numbered as in `topology.links`, front end included."""
    hosts = topology.hosts
    rails = len(hosts[0].backend)
    leaves = [switch.name for switch in topology.switches if switch.tier == "leaf"]
    spines = [switch.name for switch in topology.switches if switch.tier == "spine"]
    host_link = np.full((len(hosts), rails), -1, np.int64)
    leaf = np.full((len(hosts), rails), -1, np.int64)
    climb = np.full((len(leaves), max(1, len(spines))), -1, np.int64)
    for number, link in enumerate(topology.links):
        if link.role != "backend":
            continue
        if isinstance(topology.node(link.b.node), Host):
            host, rail = int(link.b.node[1:]) - 1, int(link.b.name.removeprefix("eth"))
            host_link[host, rail], leaf[host, rail] = number, leaves.index(link.a.node)
        else:
            climb[leaves.index(link.a.node), spines.index(link.b.node)] = number
    first = np.array([host.backend.index(host.primary) for host in hosts], np.int64)
    slots = np.broadcast_to(np.arange(climb.shape[1]), climb.shape)
    return Fabric(len(topology.links), host_link, leaf, climb, slots, rail_H=first)
