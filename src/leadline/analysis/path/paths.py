"""Which way flows go, how much they carry, and how evenly: the analysis `path`.

flow_sample --groups--> flows, groups ---+
relation --topology, addresses--> fabric +--infer, states--> paths --volumes--> bytes per link --balance--> groups
                        owners ----------+
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Codes, Ints, named
from leadline.analysis.conflict import Conflict, bounded, columns
from leadline.analysis.path.addresses import Addresses, addresses, spelled, told_addresses
from leadline.analysis.path.balance import Balance, EcmpSets, balance
from leadline.analysis.path.findings import loops, moved_addresses, off_path
from leadline.analysis.path.groups import Samples, grouped, of_the_window
from leadline.analysis.path.infer import Ends, Evidence, Fabric, ends, fabric
from leadline.analysis.path.owners import Owners, SeenFlows, owners
from leadline.analysis.path.route_kernels import choices
from leadline.analysis.path.seen import FlowTable, Placed, edge_votes, evidence, flow_table, link_votes, placed
from leadline.analysis.path.states import Judged, State, judged
from leadline.analysis.path.topology import (
    ClaimedLink,
    Topology,
    claimed_links,
    contested,
    structure,
    topology,
    used_links,
)
from leadline.analysis.path.volume import PathEntries, SampledGroups, Volumes, busiest, undirected, volumes
from leadline.analysis.path.why import why
from leadline.analysis.path.wiring import corrected, rewired, wiring
from leadline.analysis.spec import Read, S, Verdicts, Window, analysis
from leadline.model.ids import kind_of
from leadline.model.tables.fabric import CONFLICT, FLOW_SAMPLE, RELATION
from leadline.model.tables.paths import ECMP_GROUP, FLOW_PATH, FLOW_VOLUME, PATH_HOP

LOOK_BACK_NS = 20 * S
ROCE = (17, 4791)  # protocol and destination port of RoCEv2

SAMPLE_COLUMNS = (
    "tenant", "switch", "in_port", "out_port", "time_ns", "rate", "frame_bytes", "protocol", "src_ip", "dst_ip",
    "src_port", "dst_port", "dst_qp", "dropped", "flow",
)  # fmt: skip


@dataclass(frozen=True)
class Scene:
    """All that is known before paths are judged."""

    samples: Samples
    flows: FlowTable
    plan: Fabric
    at: Ends
    addresses: Addresses
    placed: Placed
    evidence: Evidence
    marks: list[Conflict]


@analysis(
    name="path",
    version=2,
    reads=(Read(FLOW_SAMPLE, SAMPLE_COLUMNS, look_back_ns=LOOK_BACK_NS), Read(RELATION, valid=True)),
    writes=(FLOW_PATH, PATH_HOP, FLOW_VOLUME, ECMP_GROUP, CONFLICT),
    window_s=10,
    grace_s=2,
    joint=True,
)
def paths(flow_sample: pa.Table, relation: pa.Table, *, window: Window) -> Verdicts:
    """Infers the path of every sampled flow with its probability, whose it is, its bytes per link, and collisions."""
    samples = of_the_window(grouped(flow_sample, window.from_ns))
    if not len(samples.flow_F2):
        return {}
    scene = seen(samples, relation, window)
    class_F = (scene.flows.protocol_F == ROCE[0]) & (scene.flows.dst_port_F == ROCE[1])
    found = judged(
        scene.plan, scene.at, scene.evidence, class_F.astype(np.int64), window.from_ns,
        (samples.first_ns_G, samples.last_ns_G),
    )  # fmt: skip
    owned = owners(relation, _seen_flows(scene), _hosts(scene))
    carried = _volumes(scene, found)
    groups = balance(carried, _sets(scene, found), owned.job_F.code_N)
    marks = [*scene.marks, *loops(found, samples, scene.flows, scene.plan.topology, window.from_ns), *owned.conflicts]
    marks = bounded(marks, f"cluster:{window.cluster}")
    return {
        FLOW_PATH.name: flow_path_rows(scene, found, owned, carried, window),
        PATH_HOP.name: path_hop_rows(scene, found, owned, window),
        FLOW_VOLUME.name: flow_volume_rows(scene, carried, owned, window),
        ECMP_GROUP.name: ecmp_group_rows(scene, groups, owned, window),
        CONFLICT.name: columns(marks, window),
    }


def seen(samples: Samples, relation: pa.Table, window: Window) -> Scene:
    """The fabric as it was told, and the samples on it."""
    flows = flow_table(samples.rows, samples.row_F)
    rows = structure(relation)
    links = claimed_links(rows)
    rivals = contested(links)
    told_by_port = _told_by_port(rows)
    votes = link_votes(links, rivals, samples, flows, told_by_port) if rivals else {}
    used = used_links(links, votes)
    taken = [link for link, use in zip(links, used.tolist(), strict=True) if use]
    graph = topology(rows, taken)
    at = placed(samples, graph)
    told = told_addresses(rows, graph)
    wired = wiring(samples, at, flows, graph, [told.get(each, ()) for each in flows.addresses], window.from_ns)
    if wired.relinked:
        graph = topology(rows, rewired(taken, wired))
        at, told = placed(samples, graph), told_addresses(rows, graph)
    at = corrected(at, wired, graph)
    known = addresses(told, edge_votes(samples, at, flows, graph), graph)
    both = ends(graph, flows.src_F, flows.dst_F, flows.addresses, known.ports_of)
    marks = [*_decided(links, rivals, votes, used.tolist(), window), *wired.marks]
    marks += [*off_path(samples, at, rows, window.from_ns), *moved_addresses(known, window.from_ns)]
    return Scene(
        samples, flows, fabric(graph, both.targets), both, known, at, evidence(samples, at, graph, len(flows)), marks
    )


def _told_by_port(rows: pa.Table) -> dict[str, frozenset[str]]:
    """Addresses told of each port."""
    mine = rows.filter(pc.starts_with(rows.column("child").cast(pa.string()), "address:"))
    found: dict[str, set[str]] = {}
    pairs = zip(mine.column("child").to_pylist(), mine.column("parent").to_pylist(), strict=True)
    for address, port in pairs:
        found.setdefault(port, set()).add(spelled(address.removeprefix("address:")))
    return {port: frozenset(each) for port, each in found.items()}


def _decided(
    links: list[ClaimedLink],
    rivals: Mapping[str, list[int]],
    votes: Mapping[int, int],
    used: list[bool],
    window: Window,
) -> list[Conflict]:
    """Contradicting claims of a port between which samples decided."""
    out = []
    for port, places in rivals.items():
        if not any(place in votes for place in places):
            continue
        claims = tuple(sorted(links[place].name for place in places))
        use = [links[place].name for place in places if used[place]]
        count = sum(votes.get(place, 0) for place in places)
        text = (
            f"{len(claims)} links are claimed of {port}; {count} flows were seen at both ends of "
            f"{', '.join(use) or 'others'}: mend what the other source says"
        )
        sources = tuple(sorted({source for place in places for source in links[place].sources}))
        start = max(window.from_ns, min(links[place].from_ns for place in places))
        out.append(Conflict(port, "two-links", start, None, claims, sources, use[0] if use else None, count, text))
    return out


def _seen_flows(scene: Scene) -> SeenFlows:
    flows, samples = scene.flows, scene.samples
    # Whole microseconds since the begin, so that the sum does not depend on the order.
    origin = int(samples.mean_ns_G.min())
    since_G = (samples.mean_ns_G - origin) // 1000
    now = samples.now_G
    total = np.bincount(samples.flow_G[now], since_G[now] * samples.samples_G[now].astype(float), len(flows))
    count = np.bincount(samples.flow_G[now], samples.samples_G[now], len(flows))
    at_ns_F = origin + np.rint(total / np.maximum(count, 1)).astype(np.int64) * 1000
    return SeenFlows(
        flows.flow_F2, _codes(flows.addresses, flows.src_F), _codes(flows.addresses, flows.dst_F),
        flows.src_port_F, flows.dst_port_F, flows.protocol_F, flows.dst_qp_F, at_ns_F,
    )  # fmt: skip


def _codes(names: list[str], place_F: Ints) -> Codes:
    """The same texts with a list of names in which each occurs."""
    used, place = np.unique(place_F, return_inverse=True)
    return Codes([names[each] for each in used.tolist()], place.astype(np.int64))


def _hosts(scene: Scene) -> dict[str, str]:
    graph = scene.plan.topology
    return {
        address: graph.nodes[graph.node_P[ports[0]]]
        for address, ports in scene.addresses.ports_of.items()
        if ports and kind_of(graph.nodes[graph.node_P[ports[0]]]) == "host"
    }


def _volumes(scene: Scene, found: Judged) -> Volumes:
    graph, samples, at = scene.plan.topology, scene.samples, scene.placed
    links = max(len(graph.links), 1)
    now = samples.now_G
    groups = SampledGroups(
        samples.flow_G[now], at.node_G[now], np.where(at.in_G >= 0, at.in_G % links, -1)[now],
        np.where(at.out_G >= 0, at.out_G % links, -1)[now], samples.rate_G[now], samples.samples_G[now],
        samples.bytes_G[now], samples.squares_G[now].astype(float), samples.dropped_G[now],
    )  # fmt: skip
    switch_V = np.where(graph.switch_V, np.arange(len(graph.nodes)), -1)
    direction = found.crossed.direction_M
    entries = PathEntries(
        found.crossed.flow_M, direction % links, switch_V[graph.from_D[direction]], switch_V[graph.to_D[direction]],
        found.crossed.probability_M,
    )  # fmt: skip
    tells = np.zeros(len(graph.nodes) + len(at.unknown), bool)
    tells[at.node_G[now]] = True
    direct = np.isin(found.state_F, (State.SPRAYED, State.MOVED, State.CONTRADICTED, State.LOOP))
    ends_L2 = np.column_stack((switch_V[graph.node_P[graph.a_E]], switch_V[graph.node_P[graph.b_E]]))
    return volumes(groups, entries, direct, tells, ends_L2)


def _sets(scene: Scene, found: Judged) -> EcmpSets:
    """The sets of links that switches on the way of flows choose among."""
    graph = scene.plan.topology
    node = graph.from_D[found.crossed.direction_M]
    here = graph.switch_V[node] & (found.crossed.probability_M > 0)
    target = scene.at.target_F[found.crossed.flow_M]
    targets = max(len(scene.at.targets), 1)
    switch, to = np.divmod(np.unique(node[here] * targets + target[here]), targets)
    first, onward = graph.onward
    number, place = np.unique(choices(first, onward, graph.to_D, scene.plan.dist_TV, switch, to), return_index=True)
    ordered = sorted(
        (int(switch[x]), tuple(sorted(each % len(graph.links) for each in scene.plan.next_hops(switch[x], to[x]))))
        for x in place[number > 0].tolist()
    )
    return EcmpSets(np.array([each[0] for each in ordered], np.int64), [each[1] for each in ordered])


# --- Rows ----------------------------------------------------------------------------------------------------------


def flow_path_rows(scene: Scene, found: Judged, owned: Owners, carried: Volumes, window: Window) -> dict[str, Any]:
    """Columns of `flow_path`: one row per flow."""
    flows, samples = scene.flows, scene.samples
    count = len(flows)
    now = samples.now_G
    seen_F = np.bincount(samples.flow_G[now], samples.samples_G[now], count).astype(np.int64)
    off = now & ~found.fits_G
    off_F = np.bincount(samples.flow_G[off], samples.samples_G[off], count).astype(np.int64)
    first = found.told.number_A == 0
    has = np.zeros(count, bool)
    has[found.told.flow_A[first]] = True
    src, dst = _end_ports(scene, found)
    busy_link_F, busy_bytes_F = busiest(carried, count)
    return {
        "flow": flows.flow_F2,
        "end_ns": np.full(count, window.to_ns),
        "window_ns": np.full(count, window.window_ns),
        "job": named(owned.job_F.code_N, owned.job_F.names),
        "src_rank": named(owned.src_rank_F.code_N, owned.src_rank_F.names),
        "dst_rank": named(owned.dst_rank_F.code_N, owned.dst_rank_F.names),
        "src": named(src, scene.plan.topology.ports),
        "dst": named(dst, scene.plan.topology.ports),
        "src_ip": named(flows.src_F, flows.addresses).dictionary_decode(),
        "dst_ip": named(flows.dst_F, flows.addresses).dictionary_decode(),
        "protocol": flows.protocol_F,
        "src_port": flows.src_port_F,
        "dst_port": flows.dst_port_F,
        "dst_qp": pa.array(flows.dst_qp_F, mask=flows.dst_qp_F < 0),
        "state": named(found.state_F, [state.word for state in State]),
        "probability": found.probability_F,
        "alternatives": found.alternatives_F,
        "samples": seen_F,
        "contradicting": np.where(has, off_F, 0),
        "bytes": np.nan_to_num(carried.flow_bytes_F),
        "low": np.nan_to_num(carried.flow_low_F),
        "high": np.nan_to_num(carried.flow_high_F),
        "busiest": named(busy_link_F, scene.plan.topology.links),
        "busiest_bytes": pa.array(busy_bytes_F, mask=np.isnan(busy_bytes_F)),
        "why": why(scene.flows, scene.plan, scene.at, scene.addresses, scene.evidence, found),
        "tenant": _tenants(scene, owned),
    }


def _end_ports(scene: Scene, found: Judged) -> tuple[Ints, Ints]:
    """Ports at both ends: of the path told, else the only candidate, else -1."""
    graph, at = scene.plan.topology, scene.at
    out = []
    for first_F, values, port_D in ((at.start_F, at.start, graph.tail_D), (at.end_F, at.end, graph.head_D)):
        port_F = np.full(len(scene.flows), -1, np.int64)
        alone = np.flatnonzero(np.diff(first_F) == 1)
        port_F[alone] = port_D[values[first_F[alone]]]
        out.append(port_F)
    mine = found.told.number_A == 0
    path, flow = found.told.path_AH[mine], found.told.flow_A[mine]
    if len(flow):
        out[0][flow] = graph.tail_D[path[:, 0]]
        last = (path >= 0).sum(axis=1) - 1
        out[1][flow] = graph.head_D[path[np.arange(len(flow)), last]]
    return out[0], out[1]


def _tenants(scene: Scene, owned: Owners) -> pa.Array:
    """The owner's tenant, else the one whose switch told of the flow."""
    names = sorted({*owned.tenant_F.names, *scene.flows.tenant_F})
    place = {name: number for number, name in enumerate(names)}
    own = np.array([place[name] for name in owned.tenant_F.names] + [-1], np.int64)[owned.tenant_F.code_N]
    told = np.array([place[name] for name in scene.flows.tenant_F], np.int64)
    return named(np.where(own >= 0, own, told), names)


def path_hop_rows(scene: Scene, found: Judged, owned: Owners, window: Window) -> dict[str, Any]:
    """Columns of `path_hop`: the links of each path told."""
    told, graph = found.told, scene.plan.topology
    on = told.path_AH >= 0
    row, hop = np.nonzero(on)
    flow = told.flow_A[row]
    return {
        "flow": scene.flows.flow_F2[flow],
        "end_ns": np.full(len(row), window.to_ns),
        "window_ns": np.full(len(row), window.window_ns),
        "hop": hop,
        "link": named(told.path_AH[on].astype(np.int64) % max(len(graph.links), 1), graph.links),
        "probability": np.clip(told.crossed_AH[on], 0.0, 1.0),
        "alternative": told.number_A[row],
        "tenant": _tenants(scene, owned).take(pa.array(flow)),
    }


def flow_volume_rows(scene: Scene, carried: Volumes, owned: Owners, window: Window) -> dict[str, Any]:
    """Columns of `flow_volume`: bytes of each flow over each link."""
    flow, link, total, low, high = undirected(carried)
    return {
        "flow": scene.flows.flow_F2[flow],
        "link": named(link, scene.plan.topology.links),
        "job": named(owned.job_F.code_N[flow], owned.job_F.names),
        "end_ns": np.full(len(flow), window.to_ns),
        "window_ns": np.full(len(flow), window.window_ns),
        "bytes": total,
        "low": low,
        "high": high,
        "tenant": _tenants(scene, owned).take(pa.array(flow)),
    }


def ecmp_group_rows(scene: Scene, groups: list[Balance], owned: Owners, window: Window) -> dict[str, Any]:
    """Columns of `ecmp_group`: one row per switch and set of links that carried anything."""
    graph = scene.plan.topology
    ids_F2 = scene.flows.flow_F2
    ports = [[_port_of(graph, each.switch, link) for link in each.links] for each in groups]
    return {
        "switch": [graph.nodes[each.switch].removeprefix("switch:") for each in groups],
        "group": [",".join(sorted(names)) for names in ports],
        "end_ns": [window.to_ns] * len(groups),
        "window_ns": [window.window_ns] * len(groups),
        "links": [[graph.links[link] for link in each.links] for each in groups],
        "flows": [each.flows for each in groups],
        "bytes": [each.bytes for each in groups],
        "efficiency": [each.efficiency for each in groups],
        "busiest": [graph.links[each.busiest] for each in groups],
        "busiest_bytes": [each.busiest_bytes for each in groups],
        "colliding": [[f"flow:{_hex(ids_F2[f])}" for f in each.colliding] for each in groups],
        "jobs": [[owned.job_F.names[job] for job in each.jobs] for each in groups],
    }


def _port_of(graph: Topology, switch: int, link: int) -> str:
    """Name of the port by which a switch sends into a link."""
    port = graph.a_E[link] if graph.node_P[graph.a_E[link]] == switch else graph.b_E[link]
    return str(graph.ports[port].partition("/")[2])


def _hex(id_2: Any) -> str:
    low, high = id_2.tolist()
    return f"{high:016x}{low:016x}"
