"""Paths that are not shortest: links put together as switches saw them, for flows that fit no shortest path."""

from __future__ import annotations

from dataclasses import dataclass

from leadline.analysis.path.infer import Ends, Evidence
from leadline.analysis.path.infer_kernels import HOPS_MAX
from leadline.analysis.path.topology import Topology


@dataclass(frozen=True, slots=True)
class Trace:
    """Directions crossed one after the other; whole if they lead from one end to the other."""

    path: tuple[int, ...]
    whole: bool
    looped: int = -1  # node that was come to twice


@dataclass(frozen=True, slots=True)
class _Group:
    node: int
    enters: int
    leaves: int
    samples: int


def trace(evidence: Evidence, topology: Topology, at: Ends, f: int) -> Trace:
    """Follow a flow from its sender: at each switch by the link that most samples left by.

    A switch that tells nothing is passed where the next one says that the flow came in from there.
    """
    groups = [
        _Group(*map(int, (evidence.node_G[g], evidence.in_G[g], evidence.out_G[g], evidence.samples_G[g])))
        for g in range(evidence.group_F[f], evidence.group_F[f + 1])
    ]
    starts = at.start[at.start_F[f] : at.start_F[f + 1]].tolist()
    ends = set(at.end[at.end_F[f] : at.end_F[f + 1]].tolist())
    here = max(starts, key=lambda d: (sum(each.samples for each in groups if each.enters == d), -d))
    path, nodes = [here], set[int]()
    while len(path) < HOPS_MAX:
        node = int(topology.to_D[here])
        if node in nodes:
            return Trace(tuple(path), False, node)
        nodes.add(node)
        following = _next(groups, node, here, ends, topology)
        if following < 0:
            return Trace(tuple(path), False)
        path.append(following)
        here = following
        if here in ends:
            return Trace(tuple(path), True)
        if not topology.switch_V[topology.to_D[here]]:
            return Trace(tuple(path), False)
    return Trace(tuple(path), False)


def _next(groups: list[_Group], node: int, here: int, ends: set[int], topology: Topology) -> int:
    """The direction by which most samples leave a node, -1 if nothing says."""
    for strict in (True, False):
        votes: dict[int, int] = {}
        for each in groups:
            if each.node == node and each.leaves >= 0 and (not strict or each.enters in (here, -1)):
                votes[each.leaves] = votes.get(each.leaves, 0) + each.samples
        if votes:
            return min(votes, key=lambda d: (-votes[d], d))
    onward: dict[int, int] = {}
    for each in groups:
        if each.enters >= 0 and int(topology.from_D[each.enters]) == node and each.enters != here:
            onward[each.enters] = onward.get(each.enters, 0) + each.samples
    if onward:
        return min(onward, key=lambda d: (-onward[d], d))
    return min((end for end in ends if int(topology.from_D[end]) == node), default=-1)
