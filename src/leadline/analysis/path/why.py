"""Why a flow's path is not known, in a sentence: what is missing, or what contradicts."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.path.addresses import Addresses, many
from leadline.analysis.path.infer import Ends, Evidence, Fabric
from leadline.analysis.path.seen import FlowTable
from leadline.analysis.path.states import Judged, State
from leadline.model.ids import name_of

NAMED_MAX = 4  # switches in one sentence


def why(flows: FlowTable, plan: Fabric, at: Ends, known: Addresses, evidence: Evidence, found: Judged) -> list[str]:
    """A sentence for each flow; empty where the path is known by the ordinary way."""
    out = [""] * len(flows)
    differing = _Differing(plan, evidence, found)
    for f in np.flatnonzero((found.state_F != State.KNOWN) | found.detour_F).tolist():
        state = State(int(found.state_F[f]))
        if state is State.UNKNOWN:
            out[f] = _unknown(f, flows, plan, at, known)
        elif state is State.KNOWN:
            out[f] = "longer than the shortest paths: every hop was seen"
        elif state is State.LOOP:
            out[f] = f"it comes to {plan.topology.nodes[found.looped_F[f]]} twice"
        elif state is State.CONTRADICTED:
            out[f] = "most of its samples fit no shortest path between its ends: see `conflict`"
        elif state is State.AMBIGUOUS and found.left_F[f]:
            out[f] = "it was last seen on a link that other flows left since; no sample shows where it is now"
        elif state is State.AMBIGUOUS:
            since = f"it moved, and since {int(found.moved_ns_F[f])} ns " if found.moved_ns_F[f] else ""
            out[f] = since + differing.text(f, int(found.alternatives_F[f]))
        elif state is State.MOVED:
            out[f] = f"seen on its latest path since {int(found.moved_ns_F[f])} ns, on another one before"
        elif state is State.SPRAYED:
            out[f] = (
                f"its packets take several of {int(found.alternatives_F[f])} paths at one time "
                f"(spraying or adaptive routing); the probability is the likeliest path's share"
            )
    return out


def _unknown(f: int, flows: FlowTable, plan: Fabric, at: Ends, known: Addresses) -> str:
    src, dst = flows.addresses[flows.src_F[f]], flows.addresses[flows.dst_F[f]]
    if many(dst):
        return f"{dst} is of many receivers: such packets have a tree, not a path"
    for address, place in ((src, at.sources_F[f]), (dst, at.target_F[f])):
        if place < 0:
            if known.ports_of.get(address):
                return f"no link is known from the port of address {address} to a switch"
            return f"address {address} belongs to no known port"
    return f"no path between {src} and {dst} in the known topology"


class _Differing:
    """Switches at which the paths of a flow differ, and what they tell."""

    def __init__(self, plan: Fabric, evidence: Evidence, found: Judged) -> None:
        self._graph, self._per_packet_V = plan.topology, evidence.per_packet_V
        self._told = found.told
        flows = np.arange(len(found.state_F) + 1)
        self._first_F: Ints = np.searchsorted(found.told.flow_A, flows)
        self._texts: dict[tuple[int, ...], str] = {}

    def text(self, f: int, alternatives: int) -> str:
        paths = self._told.path_AH[self._first_F[f] : self._first_F[f + 1]]
        crossed = [{int(self._graph.to_D[d]) for d in path if d >= 0} for path in paths.tolist()]
        differ = tuple(sorted(crossed[0].union(*crossed) - crossed[0].intersection(*crossed))) if crossed else ()
        if differ not in self._texts:
            self._texts[differ] = self._of(differ)
        likely = f"{alternatives} paths are as likely" if alternatives > 1 else "other paths are nearly as likely"
        return f"{likely}{self._texts[differ]}"

    def _of(self, nodes: tuple[int, ...]) -> str:
        """What the switches tell between which the paths differ."""
        if not nodes:
            return ": they differ in parallel links, and no sample shows the port"
        silent = [node for node in nodes if self._per_packet_V[node] == 0 and self._graph.switch_V[node]]
        telling = [node for node in nodes if self._per_packet_V[node] > 0]
        parts = []
        if silent:
            parts.append(f"{self._names(silent)} {'tells' if len(silent) == 1 else 'tell'} nothing")
        if telling:
            parts.append(f"too few samples at {self._names(telling)}")
        return ": " + "; ".join(parts or ["no sample shows the receiver's port"])

    def _names(self, nodes: Iterable[int]) -> str:
        names = [name_of(self._graph.nodes[node]) for node in nodes]
        more = f" and {len(names) - NAMED_MAX} more" if len(names) > NAMED_MAX else ""
        return ", ".join(names[:NAMED_MAX]) + more
