"""The analysis `localise`: what loses, delays or stops packets, whoever counts it.

flow_sent, path_hop, counters ── likelihood of flows ──┐
                                                       ├──> suspect: one row of a component and kind, whoever told it
edge_fit, delay, probe_hop ───── paths of probes ──────┘
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools
from leadline.analysis.localise.conservation import Vanished, dropped, readings_of, vanished
from leadline.analysis.localise.flows import Components, Sent, components, crossings, sent_rows
from leadline.analysis.localise.likelihood import Counts, counts, in_vain, some_flows, some_packets, votes
from leadline.analysis.localise.mesh import (
    DELAY_COLUMNS,
    DELAYS_NS,
    FIT_COLUMNS,
    FIT_NS,
    HOP_COLUMNS,
    TRACE_NS,
    Named,
    named_by_probes,
)
from leadline.analysis.localise.mesh_found import measured, narrowest
from leadline.analysis.spec import Read, Verdicts, Window, analysis
from leadline.model.ids import kind_of, name_of
from leadline.model.tables.fabric import DELAY, EDGE_FIT, FLOW_SENT, PROBE_HOP, RELATION, SUSPECT
from leadline.model.tables.metrics import METRIC_SAMPLE, SERIES
from leadline.model.tables.paths import PATH_HOP
from leadline.model.units import S

FLOWS_NS = 5 * S  # intervals before the window that are judged with it
WAITS_NS = 25 * S  # those of a flow that waits: it tries ever more seldom
PATHS_NS = 60 * S  # a flow that waits is not sampled: it is still where it was
COUNTERS_NS = 60 * S  # some readings of a switch's counters
OPEN_NS = 60 * S
COMPONENTS_MAX = 200  # those with most votes
SUSPECTS_MAX = 8
TOLD_MIN = 0.1  # probability from which on a component is told
ALIKE_MIN = 0.5  # of the likeliest one's: cannot be told apart from it
BAD_INTERVALS_MIN = 2  # intervals with loss of one flow: a single one is a burst
PRIOR = -7.0
"""Log odds of one component to lose packets without counting them: one of a thousand, at any time."""
UNFIT = -3.0
"""A switch that loses a part of whatever it forwards, a link that loses all of some flows: possible, and rare beside a
link's damaged bits and a switch's wrong entries."""
VANISHES, A_FEW, ADDS_UP = 4.0, 2.0, -3.0
"""A switch out of which less comes than went in; one that keeps so few that they may wait in it; one out of which all
comes."""
WAITING_MAX = 100  # packets: what the queues of a switch in the lab hold when its counters are read
LOSS, BLACKHOLE, QUEUE = "loss", "blackhole", "queue"
COUNTED_MIN = 0.3  # of what its flows lost: its own ports say that they dropped it, so it is no silent loss
WAITS_MIN = 3.0  # times the round trip of other flows: there is a queue, and queues that are full drop
WORST = 4  # flows that are told one by one
VANISHED = "packets that came in neither left nor were counted as dropped"

_SENT = (
    "time_ns", "window_ns", "flow", "protocol", "src_ip", "dst_ip", "src_port", "dst_port", "dst_qp", "packets",
    "again", "needless", "acked_bytes", "bytes", "rtt_ns",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Counters:
    """What ports count: packets that vanished, by name of the switch, and that were dropped, by port."""

    vanished: Mapping[str, Vanished]
    dropped: Mapping[str, float]

    def counted(self, link: str) -> float:
        """Packets that the ends of a link say they dropped; of a switch nothing, its ports are many."""
        ends = name_of(link).split("~") if kind_of(link) == "link" else []
        return sum(self.dropped.get(f"{kind}:{end}", 0.0) for end in ends for kind in ("port", "swport"))


@dataclass(frozen=True, slots=True)
class Suspect:
    """One component with what speaks for it."""

    entity: str
    kind: str
    others: tuple[str, ...]
    probability: float
    start_ns: int
    evidence: tuple[Mapping[str, object], ...]


@analysis(
    name="localise",
    version=2,
    reads=(
        Read(FLOW_SENT, _SENT, WAITS_NS),
        Read(
            PATH_HOP,
            ("flow", "end_ns", "hop", "link", "probability", "alternative"),
            PATHS_NS,
            waits=False,
            calls=False,
        ),
        Read(SERIES, ("series", "name", "entity"), valid=True, calls=False),
        Read(METRIC_SAMPLE, ("series", "time_ns", "value"), COUNTERS_NS, calls=False),
        Read(SUSPECT, look_back_ns=OPEN_NS, valid=True, waits=False, calls=False),
        Read(EDGE_FIT, FIT_COLUMNS, FIT_NS),
        Read(DELAY, DELAY_COLUMNS, DELAYS_NS, waits=False, calls=False),
        Read(PROBE_HOP, HOP_COLUMNS, TRACE_NS, calls=False),
        Read(RELATION, ("child", "parent", "kind"), valid=True, calls=False),
    ),
    writes=(SUSPECT,),
    window_s=5,
    grace_s=6,
    joint=True,
)
def localise(
    flow_sent: pa.Table,
    path_hop: pa.Table,
    series: pa.Table,
    sample: pa.Table,
    suspect: pa.Table,
    edge_fit: pa.Table,
    delay: pa.Table,
    probe_hop: pa.Table,
    relation: pa.Table,
    *,
    window: Window,
) -> Verdicts:
    """Which link, switch or host loses, delays or stops packets, by flows, packets that vanish, and probes."""
    sent = sent_rows(flow_sent)
    found = _suspects(sent, path_hop, series, sample, window) if sent.id_F else []
    if edge_fit.num_rows:
        probed = named_by_probes(edge_fit, delay, probe_hop, relation, window)
        found = _together(found, [_of_probes(each) for each in probed])
    return {SUSPECT.name: _rows(found, suspect, window)}


def _of_probes(each: Named) -> Suspect:
    entity, others = narrowest(each.found)
    table, what = "delay" if each.found.kind == QUEUE else "edge_fit", measured(each.found)
    evidence = _reference(table, entity, what, each.start_ns, each.text)
    return Suspect(entity, each.found.kind, others, min(each.found.probability, 1.0), each.start_ns, (evidence,))


def _together(by_flows: Sequence[Suspect], by_probes: Sequence[Suspect]) -> list[Suspect]:
    """One of a component and kind: neither doubts what the other is sure of. Flows choose among what probes cannot."""
    found = {(each.entity, each.kind): each for each in by_flows}
    for each in by_probes:
        alike = {each.entity, *each.others}
        same = [one for one in by_flows if one.kind == each.kind and one.entity in alike]
        if same:
            best = max(same, key=lambda one: (one.probability, one.entity))
            others = tuple(sorted(({best.entity, *best.others} & alike) - {best.entity}))
            sure = 1 - (1 - best.probability) * (1 - each.probability)
            evidence = (*each.evidence, *best.evidence)
            start_ns = min(best.start_ns, each.start_ns)
            found[best.entity, best.kind] = Suspect(best.entity, best.kind, others, sure, start_ns, evidence)
        else:
            found[each.entity, each.kind] = each
    return list(found.values())


def _suspects(sent: Sent, path_hop: pa.Table, series: pa.Table, sample: pa.Table, window: Window) -> list[Suspect]:
    told = counts(sent, window.from_ns - FLOWS_NS)
    bad_F = (told.lossy_F >= BAD_INTERVALS_MIN) | (told.stuck_F >= BAD_INTERVALS_MIN)
    if not bad_F.any():
        return []
    crossed, between = crossings(path_hop)
    wanted = sorted({name for flow in _ids(sent, bad_F) for name in crossed.get(flow, {})})
    every = components(sent, crossed, between, wanted)
    if not wanted:
        return []
    best = np.sort(np.lexsort((np.arange(len(wanted)), -votes(bad_F, every.round_FC)))[:COMPONENTS_MAX])
    these = components(sent, crossed, between, [wanted[place] for place in best.tolist()])
    known_F = these.round_FC.max(axis=1) > 0
    known_F |= np.array([bool(crossed.get(flow)) for flow in sent.id_F])
    readings = readings_of(series, sample)
    vain_N = in_vain(sent)
    late_ns = window.from_ns - FLOWS_NS
    since_ns = min([late_ns, *sent.time_N[vain_N].tolist()])  # what waits since then was lost then
    counters = Counters(vanished(readings, since_ns), dropped(readings, since_ns))
    silent_F = known_F & ~_counted(sent, these, counters, late_ns)
    return _named(sent, _only(told, silent_F), _only(told, known_F), these, counters, late_ns)


def _counted(sent: Sent, these: Components, counters: Counters, late_ns: int) -> Bools:
    """Flows over a link whose ends say that they dropped what its flows lost: a full queue, wherever else they go.

    They say nothing of silent loss, neither for a component nor against it.
    """
    lost_F = np.bincount(sent.flow_N, sent.lost_N * (sent.time_N > late_ns), len(sent.id_F))
    counted_C = np.array([counters.counted(name) for name in these.name_C])
    full_C = (counted_C > 0) & (counted_C >= COUNTED_MIN * (lost_F @ these.there_FC))
    return np.asarray((these.there_FC[:, full_C] >= 0.5).any(axis=1), bool)


def _ids(sent: Sent, bad_F: Bools) -> list[int]:
    pairs = zip(sent.id_F, sent.back_F, bad_F.tolist(), strict=True)
    return [flow for one, back, is_bad in pairs if is_bad for flow in (one, back)]


def _only(told: Counts, known_F: Bools) -> Counts:
    """Counts without those of flows whose path nobody knows: neither for nor against anybody."""
    return Counts(*(np.where(known_F if each.ndim == 1 else known_F[:, None], each, 0.0) for each in (
        told.rows_F, told.lossy_F, told.some_FQ, told.tries_F, told.stuck_F,
    )))  # fmt: skip


def _named(
    sent: Sent, silent: Counts, told: Counts, these: Components, counters: Counters, late_ns: int
) -> list[Suspect]:
    from scipy.special import logsumexp  # here: it takes half a second to load, which a server need not wait for

    switch_C = np.array([kind_of(name) == "switch" for name in these.name_C])
    one_way_C = np.array([bool(way) for way in these.way_C])
    adds_C = np.array(
        [_conserved(name, nodes, counters.vanished) for name, nodes in zip(these.name_C, these.switches_C, strict=True)]
    )
    loss_C = some_packets(silent, these.there_FC) + PRIOR + adds_C + np.where(switch_C, UNFIT, 0.0)
    hole_C = some_flows(told, these.round_FC) + PRIOR + adds_C + np.where(switch_C, 0.0, UNFIT)
    hole_C = np.where(one_way_C, -np.inf, hole_C)  # a way and its acknowledgements cannot be told apart
    whole = float(logsumexp(np.concatenate([loss_C, hole_C, [0.0]])))
    chance: dict[tuple[str, str], float] = {}
    for kind, score_C in ((LOSS, loss_C), (BLACKHOLE, hole_C)):
        for name, score in zip(these.name_C, score_C.tolist(), strict=True):
            chance[name, kind] = chance.get((name, kind), 0.0) + float(np.exp(score - whole))
    by_entity: dict[str, float] = {}
    for (name, _), probability in chance.items():
        by_entity[name] = by_entity.get(name, 0.0) + probability
    ranked = sorted(by_entity, key=lambda name: (-round(by_entity[name], 9), name))[:SUSPECTS_MAX]
    top = by_entity[ranked[0]]
    alike = [name for name in ranked if by_entity[name] >= ALIKE_MIN * top]
    found = []
    for name in ranked:
        if by_entity[name] < TOLD_MIN:
            continue
        kind = max((LOSS, BLACKHOLE), key=lambda one: (chance[name, one], one))
        cross_FC = these.there_FC if kind == LOSS else these.round_FC
        cross_F = cross_FC[:, [place for place, one in enumerate(these.name_C) if one == name]].max(axis=1)
        others = tuple(sorted(each for each in alike if each != name)) if name in alike else ()
        nodes = next(switches for one, switches in zip(these.name_C, these.switches_C, strict=True) if one == name)
        is_hole = kind == BLACKHOLE
        start_ns, evidence, lost = _evidence(sent, cross_F >= 0.5, name, nodes, counters, late_ns, is_hole=is_hole)
        if not is_hole and (counters.counted(name) >= COUNTED_MIN * lost or _waits(sent, cross_F >= 0.5, late_ns)):
            kind = QUEUE
        found.append(Suspect(name, kind, others, min(1.0, by_entity[name]), start_ns, evidence))
    return found


def _conserved(name: str, nodes: Sequence[str], gone: Mapping[str, Vanished]) -> float:
    """What the counters of the switches say for a component: its own, or those it lies between."""
    told = [gone[node] for node in nodes if node in gone]
    gone_most = max((each.vanished for each in told if each.is_loss), default=0.0)
    if gone_most:
        return VANISHES if gone_most > WAITING_MAX else A_FEW
    # Of a wire: what is lost between two switches, both of them have counted right.
    return ADDS_UP if told and kind_of(name) == "switch" else 0.0


def _evidence(
    sent: Sent, on_F: Bools, name: str, nodes: Sequence[str], counters: Counters, late_ns: int, *, is_hole: bool
) -> tuple[int, tuple[Mapping[str, object], ...], int]:
    """Since when, what says so, and how many packets its flows lost of late.

    What says so: the flows in a sentence, what vanished in switches, the worst flows.
    """
    late_N, on_N = sent.time_N > late_ns, on_F[sent.flow_N]
    bad_N = in_vain(sent) if is_hole else late_N & (sent.lost_N > 0)
    start_ns = _since(sent, bad_N, on_N & (bad_N | late_N), late_ns)
    bad_F = np.bincount(sent.flow_N, bad_N, len(on_F)) > 0
    lost_F, packets_F = (
        np.bincount(sent.flow_N, value_N * (late_N | bad_N), len(on_F)) for value_N in (sent.lost_N, sent.packets_N)
    )
    (hit, on, share), (others, off, rest) = (
        (int((mask_F & bad_F).sum()), int(mask_F.sum()), _share(lost_F[mask_F].sum(), packets_F[mask_F].sum()))
        for mask_F in (on_F, ~on_F)
    )
    word = "got nothing through" if is_hole else "lost packets"
    text = f"{hit} of {on} flows over it {word} ({share}), {others} of {off} others ({rest})"
    found = [_reference("flow_sent", name, "again", start_ns, text)]
    for node in nodes:
        each = counters.vanished.get(node)
        if each and each.is_loss:
            words = f"{node}: {each.vanished:.0f} of {each.came_in:.0f} {VANISHED}"
            found.append(_reference("metric_sample", f"switch:{node}", "vanished", each.from_ns, words))
    for f in sorted(np.flatnonzero(on_F & bad_F).tolist(), key=lambda f: (-lost_F[f], sent.id_F[f]))[:WORST]:
        words = f"{sent.name_F[f]}: {lost_F[f]:.0f} packets lost of {packets_F[f]:.0f} sent"
        found.append(_reference("flow_sent", f"flow:{sent.id_F[f]:032x}", "again", start_ns, words))
    return start_ns, tuple(found), int(lost_F[on_F].sum())


def _waits(sent: Sent, on_F: Bools, late_ns: int) -> bool:
    """Whether flows over it take much longer for a round trip than the others."""
    known_N = (sent.time_N > late_ns) & (sent.rtt_N > 0)
    on, off = (sent.rtt_N[known_N & side_F[sent.flow_N]] for side_F in (on_F, ~on_F))
    return bool(len(on) and len(off) and np.median(on) >= WAITS_MIN * np.median(off))


def _since(sent: Sent, bad_N: Bools, on_N: Bools, default_ns: int) -> int:
    """The begin of the interval from which on most intervals of the flows over it are bad."""
    rows = np.flatnonzero(on_N)
    rows = rows[np.lexsort((rows, sent.time_N[rows]))]
    if not len(rows):
        return default_ns
    after = np.cumsum(np.where(bad_N[rows], 0.5, -0.5)[::-1])[::-1]
    first = rows[int(np.argmax(after))]
    return max(int(sent.time_N[first]) - int(sent.window_N[first]), -(2**63))


def _share(part: float, whole: float) -> str:
    return f"{min(part / whole, 1.0):.2%} of packets" if whole else "nothing sent"


def _reference(table: str, entity: str, what: str, time_ns: int, text: str) -> Mapping[str, object]:
    return {"table": table, "entity": entity, "what": what, "time_ns": time_ns, "bound_ns": None, "text": text}


def _is_ours(row: Mapping[str, Any]) -> bool:
    return bool(row["kind"]) and kind_of(str(row["entity"])) in ("link", "switch", "port", "host")


def _rows(found: Sequence[Suspect], earlier: pa.Table, window: Window) -> Mapping[str, list[Any]]:
    """Rows of `suspect`: what is suspected now since when it was first, and what no longer is."""
    known = {
        (row["entity"], row["kind"]): row
        for row in sorted(earlier.to_pylist(), key=lambda row: (row["start_ns"], row["seen_ns"]))
        if row["end_ns"] is None and row["seen_ns"] < window.to_ns and _is_ours(row)
    }
    rows = []
    for each in found:
        before = known.pop((each.entity, each.kind), None)
        start_ns = before["start_ns"] if before else each.start_ns
        others, evidence = list(each.others), json.dumps(each.evidence)
        rows.append((each.entity, others, each.probability, each.kind, start_ns, None, evidence))
    for (entity, kind), row in sorted(known.items()):
        others, probability = (
            list(row["others"] or ()),
            min(max(float(np.nan_to_num(row["probability"] or 0.0)), 0.0), 1.0),
        )
        end_ns = max(row["seen_ns"], row["start_ns"])
        rows.append((entity, others, probability, kind, row["start_ns"], end_ns, row["evidence"] or "[]"))
    rows.sort(key=lambda row: (row[0], row[4], row[3]))
    names = ("entity", "others", "probability", "kind", "start_ns", "end_ns", "evidence")
    told: dict[str, list[Any]] = {name: [row[place] for row in rows] for place, name in enumerate(names)}
    return {**told, "seen_ns": [window.to_ns] * len(rows)}
