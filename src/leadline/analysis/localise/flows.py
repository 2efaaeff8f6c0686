"""Flows as their senders counted them, with the links and switches that they cross, each way, and how sure that is."""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Floats, Ints, floats, ids, ints
from leadline.model.ids import EntityId, flow_id, name_of

WINDOW_NS_MAX = 60 * 10**9  # of one interval: a longer one says nothing of a moment
FLOWS_MAX = 2000  # judged in one window: those that lost, then those that sent most

Crossing = Mapping[str, float]  # component -> probability that the flow crosses it


@dataclass(frozen=True, slots=True)
class Sent:
    """Rows of `flow_sent`, by flow and time. Arrays over N (rows), F (flows)."""

    flow_N: Ints  # number of the flow
    time_N: Ints  # end of the interval, ns
    window_N: Ints
    packets_N: Ints
    lost_N: Ints  # sent again, and the receiver did not have it before
    rtt_N: Ints  # round trip, ns; -1: not measured
    stuck_N: Bools  # all that was sent was sent again, and nothing was acknowledged
    id_F: list[int]
    back_F: list[int]  # id of the flow that its acknowledgements are
    name_F: list[str]  # "10.1.1.1:40001 to 10.1.2.1:7001"


def sent_rows(flow_sent: pa.Table) -> Sent:
    """The rows of at most `FLOWS_MAX` flows. Counts beyond what a sender can count in a second are cut."""
    order = pc.sort_indices(
        flow_sent, [(name, "ascending") for name in ("flow", "time_ns", "packets", "again", "bytes")]
    )
    rows = flow_sent.take(order)
    id_N2 = ids(rows, "flow")
    _, first, flow_N = np.unique(id_N2, axis=0, return_index=True, return_inverse=True)
    flow_N = flow_N.ravel()
    packets, again = (np.clip(ints(rows, name), 0, 2**31) for name in ("packets", "again"))
    needless = np.clip(ints(rows, "needless", 0), 0, 2**31)
    acked = ints(rows, "acked_bytes", 1)  # who does not count it is not taken to wait
    lost = np.maximum(again - needless, 0)
    stuck = (again > 0) & (packets <= again) & (acked == 0)
    kept = _telling(flow_N, lost, packets, len(first))
    place = np.cumsum(kept) - 1
    on = kept[flow_N]
    names = ("protocol", "src_ip", "dst_ip", "src_port", "dst_port", "dst_qp")
    told = rows.take(pa.array(first[kept])).select(list(names)).to_pylist()
    id_F = [int(low) | int(high) << 64 for low, high in id_N2[first[kept]].tolist()]
    return Sent(
        place[flow_N[on]], ints(rows, "time_ns")[on], np.clip(ints(rows, "window_ns")[on], 0, WINDOW_NS_MAX),
        packets[on], lost[on], ints(rows, "rtt_ns")[on],
        stuck[on], id_F, [_back(row) for row in told],
        [f"{row['src_ip']}:{row['src_port']} to {row['dst_ip']}:{row['dst_port']}" for row in told],
    )  # fmt: skip


def _telling(flow_N: Ints, lost_N: Ints, packets_N: Ints, flows: int) -> Bools:
    lost_F, packets_F = np.zeros(flows, np.int64), np.zeros(flows, np.int64)
    np.add.at(lost_F, flow_N, lost_N)
    np.add.at(packets_F, flow_N, packets_N)
    kept = np.zeros(flows, bool)
    kept[np.lexsort((np.arange(flows), -packets_F, -lost_F))[:FLOWS_MAX]] = True
    return kept


def _back(row: Mapping[str, object]) -> int:
    """The id of the flow that its acknowledgements are; 0 for nonsense."""
    try:
        protocol, src_port, dst_port = (int(str(row[name])) for name in ("protocol", "src_port", "dst_port"))
        return flow_id(protocol, str(row["dst_ip"]), str(row["src_ip"]), dst_port, src_port)
    except (ValueError, struct.error):
        return 0


@dataclass(frozen=True, slots=True)
class Components:
    """What may be broken, and which flows cross it. Arrays over F (flows), C (components)."""

    name_C: list[str]  # entity id
    way_C: list[str]  # of a link: the node that packets go to; empty: both ways, or a switch
    there_FC: Floats  # that the flow's packets cross it
    round_FC: Floats  # that they or their acknowledgements do
    switches_C: list[tuple[str, ...]]  # the switches that it is, or lies between


def crossings(path_hop: pa.Table) -> tuple[dict[int, Crossing], dict[str, tuple[str, ...]]]:
    """What each flow crosses by the newest window that tells its path, and the nodes that each link lies between.

    Components: `link:...` (either way), `link:...>node` (towards the node), `switch:node`.
    """
    id_N2 = ids(path_hop, "flow")
    columns = (
        ints(path_hop, "end_ns").tolist(), ints(path_hop, "alternative").tolist(), ints(path_hop, "hop").tolist(),
        path_hop["link"].to_pylist(), np.nan_to_num(floats(path_hop, "probability")).tolist(),
    )  # fmt: skip
    flows = [low | high << 64 for low, high in id_N2.tolist()]
    newest: dict[int, int] = {}
    for flow, end_ns in zip(flows, columns[0], strict=True):
        newest[flow] = max(end_ns, newest.get(flow, end_ns))
    paths: dict[tuple[int, int], list[tuple[int, str, float]]] = defaultdict(list)
    for flow, end_ns, alternative, hop, link, probability in zip(flows, *columns, strict=True):
        if end_ns == newest[flow] and _is_link(link):
            paths[flow, alternative].append((hop, link, min(max(probability, 0.0), 1.0)))
    found: dict[int, dict[str, float]] = defaultdict(dict)
    between: dict[str, tuple[str, ...]] = {}
    for (flow, _), hops in sorted(paths.items()):
        for component, probability in _crossed(sorted(hops), between):
            found[flow][component] = max(found[flow].get(component, 0.0), probability)
    return dict(found), between


def _crossed(hops: list[tuple[int, str, float]], between: dict[str, tuple[str, ...]]) -> Iterable[tuple[str, float]]:
    nodes = [_nodes(link) for _, link, _ in hops]
    for place, (_, link, probability) in enumerate(hops):
        between[link] = tuple(sorted(nodes[place]))
        yield link, probability
        after = nodes[place] & nodes[place + 1] if place + 1 < len(hops) else set()
        before = nodes[place] & nodes[place - 1] if place else set()
        towards = after or (nodes[place] - before if before else set())
        if len(towards) == 1:
            yield f"{link}>{next(iter(towards))}", probability
        if len(after) == 1:
            yield f"switch:{next(iter(after))}", probability


def _is_link(name: str | None) -> bool:
    """Whether it names a link with two ends."""
    ends = EntityId.of(name or "").ends
    return all(end.partition("/")[0] and "/" in end for end in ends) and "~" not in ends[1]


def _nodes(link: str) -> set[str]:
    """The two nodes of a link, by its name: `link:leaf1/Ethernet5~spine1/Ethernet1`."""
    return {end.partition("/")[0] for end in EntityId.of(link).ends}


def components(
    sent: Sent, crossed: Mapping[int, Crossing], between: Mapping[str, tuple[str, ...]], wanted: list[str]
) -> Components:
    """The probabilities that flows cross the components named in `wanted`."""
    place_of = {name: place for place, name in enumerate(wanted)}
    there, back = (np.zeros((len(sent.id_F), len(wanted))) for _ in range(2))
    for f, (one, other) in enumerate(zip(sent.id_F, sent.back_F, strict=True)):
        for target, flow in ((there, one), (back, other)):
            for name, probability in crossed.get(flow, {}).items():
                if name in place_of:
                    target[f, place_of[name]] = probability
    names = [name.partition(">")[0] for name in wanted]
    ways = [name.partition(">")[2] for name in wanted]
    switches = [between.get(name, ()) or (name_of(name),) for name in names]
    return Components(names, ways, there, 1 - (1 - there) * (1 - back), switches)
