"""What samples say that no path explains, as rows of `conflict`: strange ports, loops, addresses that are elsewhere."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Ints
from leadline.analysis.conflict import Conflict
from leadline.analysis.path.addresses import Addresses
from leadline.analysis.path.groups import Samples
from leadline.analysis.path.seen import FlowTable, Placed
from leadline.analysis.path.states import Judged, State
from leadline.analysis.path.topology import Topology

FLOWS_NAMED = 8  # in one row


def off_path(samples: Samples, at: Placed, rows: pa.Table, from_ns: int) -> list[Conflict]:
    """Samples at switches and ports that nobody told of. A port that is told, but not linked, leads outside: no row."""
    told = {end for name in ("child", "parent") for end in pc.unique(rows.column(name)).to_pylist()}
    unknown = set(at.unknown)
    counts: dict[str, int] = {}
    now = samples.now_G & at.strange_G
    for port_G in (samples.in_G, samples.out_G):
        g = np.flatnonzero(now & (port_G >= 0))
        key, place = np.unique(samples.switch_G[g] * len(samples.ports) + port_G[g], return_inverse=True)
        count = np.bincount(place, samples.samples_G[g], len(key)).astype(np.int64)
        for one, seen in zip(key.tolist(), count.tolist(), strict=True):
            switch, port = divmod(one, len(samples.ports))
            name = samples.switches[switch]
            entity = f"swport:{name}/{samples.ports[port]}"
            if name not in unknown and entity not in told:
                counts[entity] = max(counts.get(entity, 0), seen)
    found = [
        Conflict(
            entity, "off-path", from_ns, None, (entity,), ("sflow",), None, count,
            f"{count} samples name {entity}, which is not in the graph: look at the inventory of this switch",
        )
        for entity, count in sorted(counts.items())
    ]  # fmt: skip
    return found + _strangers(samples, unknown, from_ns)


def _strangers(samples: Samples, unknown: set[str], from_ns: int) -> list[Conflict]:
    """Switches that sample and are not in the graph."""
    count = np.bincount(samples.switch_G[samples.now_G], samples.samples_G[samples.now_G], len(samples.switches))
    return [
        Conflict(
            f"switch:{name}", "off-path", from_ns, None, (f"switch:{name}",), ("sflow",), None, int(count[place]),
            f"{int(count[place])} samples are of switch:{name}, of which no link is known: look at the inventory",
        )
        for place, name in enumerate(samples.switches)
        if name in unknown and count[place]
    ]  # fmt: skip


def loops(found: Judged, samples: Samples, flows: FlowTable, topology: Topology, from_ns: int) -> list[Conflict]:
    """Switches that flows come to twice."""
    out = []
    mine = np.flatnonzero(found.state_F == State.LOOP)
    for node in np.unique(found.looped_F[mine]).tolist():
        there: Ints = mine[found.looped_F[mine] == node]
        names = tuple(f"flow:{high:016x}{low:016x}" for low, high in flows.flow_F2[there[:FLOWS_NAMED]].tolist())
        count = int(samples.samples_G[samples.now_G & np.isin(samples.flow_G, there)].sum())
        text = (
            f"{len(there)} flows come to {topology.nodes[node]} twice: look at its routes and those of its neighbours"
        )
        out.append(Conflict(topology.nodes[node], "loop", from_ns, None, names, ("sflow",), None, count, text))
    return out


def moved_addresses(known: Addresses, from_ns: int) -> list[Conflict]:
    """Addresses whose packets come from another host than was told."""
    return [
        Conflict(
            f"address:{address}", "two-hosts", from_ns, None, tuple(sorted((told, seen))), ("relation", "sflow"), seen,
            count, f"address {address} is reported at {told}, but {count} samples have it at {seen}: look for an "
            f"address that is used twice, or correct what is reported",
        )
        for address, (told, seen, count) in sorted(known.moved.items())
    ]  # fmt: skip
