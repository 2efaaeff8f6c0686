"""What probes say of each link, card, host and switch: from rows of the mesh to what `localise` names.

edge_fit ── sent, lost, silent by path and second ──┐
delay ───── queueing by path and window ────────────┼──> loss, queue, dead, host-stall
probe_hop, relation ── the links of each path ──────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints, codes, ints, number_of
from leadline.analysis.localise.mesh_found import STALL, Found, in_words
from leadline.analysis.localise.mesh_paths import Classes, Component, classes, ends_only
from leadline.analysis.localise.mesh_routes import Routes, Traced, Way, routes_of, traces_of, wiring_of
from leadline.analysis.localise.mesh_silence import STALL_LEAST_NS, dead, stalled
from leadline.analysis.localise.probes import QUEUE_LEAST_NS, lossy, queueing
from leadline.analysis.spec import Window
from leadline.model.ids import entity_id
from leadline.model.units import S

SLOTS = 60  # seconds that are judged together: 0.1 % of loss is found in so many
FIT_NS = SLOTS * S
DELAYS_NS = 25 * S  # a queue is told that stands in most of the last windows of `delay`
TRACE_NS = 300 * S  # a path is taken to be as it was traced last, so long
# What a way lost from its last trace before it changed until so long after the next one counts for nothing: links that
# flap come back, and ways with them, between two traces. Source: judgement; a peer is traced each 30 s.
CHANGED_NS = 60 * S
# ns by which the slowest hundredth of a path's probes must wait longer than elsewhere: links that jobs use make it some
# tens of us at their full rate. Source: judgement; the simulator's healthy links have 16 us, one at a twentieth 116.
TAIL_LEAST_NS = 30_000.0
TAIL_TIMES = 3.0  # times what paths usually have, below which nobody looks: it is most of the work. Source: judgement.
LATELY = 15  # seconds: what shows nothing in the last so many is over
DEAD_SLOTS = 5  # seconds in which a silence is looked for: a window
STALLS_MIN, STALL_SLOTS = 2, 10  # seconds in which a host stood still, of the last so many: one may be a pause
STALL_SURE = 0.95  # probability of a host that stood still; the simulation has none wrong of 240 (docs/figures.md)
FIT_COLUMNS = (
    "src", "dst", "src_port", "class", "end_ns", "state", "there_sent", "there_lost", "back_sent", "back_lost",
    "back_queue_ns", "stall_ns",
)  # fmt: skip
DELAY_COLUMNS = ("src", "dst", "src_port", "class", "end_ns", "p50_ns", "p99_ns", "queue_p99_ns")
HOP_COLUMNS = ("src", "dst", "src_port", "class", "time_ns", "hop", "address")
COUNT_MAX = 10**6  # probes of a path in a second


@dataclass(frozen=True, slots=True)
class Named:
    """What is bad, a sentence that says why, and since when it shows, cluster time."""

    found: Found
    text: str
    start_ns: int


@dataclass(frozen=True, slots=True)
class _Told:
    """What was told of each way in each second, the last of which ends with the window. W = ways, T = slots, N = cells
    (way and slot) of which something was told."""

    hosts: list[str]
    ways: list[Way]
    src_W: Ints
    dst_W: Ints
    way_N: Ints
    slot_N: Ints
    end_N: Ints
    sent_N: Floats
    lost_N: Floats
    still_HT: Bools  # hosts that stood still
    wait_HT: Floats  # NaN: not told
    queue_HT: Floats


@dataclass(frozen=True, slots=True)
class _Seen:
    """The same by path. P = paths."""

    told: Classes
    src_P: Ints
    dst_P: Ints
    sent_PT: Floats
    lost_PT: Floats
    silent_PT: Bools  # there was a row, and nothing came
    changing_PT: Bools  # the way went elsewhere about then
    traced: Traced
    routes: Routes

    @property
    def begun_P(self) -> Bools:
        """Paths over which something came in the last minute. Others have not begun, as the other host's prober has
        not, or are dead for longer."""
        return np.asarray((self.sent_PT > self.lost_PT).any(axis=1), bool)


def named_by_probes(
    edge_fit: pa.Table, delay: pa.Table, probe_hop: pa.Table, relation: pa.Table, window: Window
) -> list[Named]:
    """What is bad by what probes say; what is dead first."""
    told = _told(edge_fit, window)
    if told is None:
        return []
    begin_ns = window.to_ns - SLOTS * S
    stalls = _stalls(told, begin_ns)
    waits = _waits(told, delay, window)
    if not (_loses(told) or len(waits.way_N)):
        return stalls  # all else begins with that
    seen = _seen(told, probe_hop, relation, window)
    out_PT = told.still_HT[seen.src_P] | told.still_HT[seen.dst_P] | seen.changing_PT | ~seen.begun_P[:, None]
    sent_PT, lost_PT = (np.where(out_PT, 0.0, each) for each in (seen.sent_PT, seen.lost_PT))
    found = [Named(each, in_words(each), begin_ns + each.since * S) for each in _dead(seen)]
    bad = {one for each in found for one in each.found.members}
    lossy_now = [each for each in lossy(seen.told, sent_PT, lost_PT) if not bad & set(each.members)]
    for each in lossy_now:
        on_P = _on(seen.told, each)
        if lost_PT[on_P, -LATELY:].any():
            shares = (_share(sent_PT, lost_PT, mask_P, each.since) for mask_P in (on_P, ~_over(seen.told, lossy_now)))
            found.append(Named(each, in_words(each, *shares), begin_ns + each.since * S))
    bad |= {one for each in lossy_now for one in each.members}
    first_ns = window.to_ns - len(waits.ends_T) * window.window_ns
    # A link that is slow or full for a part of each step delays few probes, but those by its whole queue.
    medians_PT, tails_PT = _queues(seen, waits, len(told.ways))
    for queue_PT, least_ns, tail in ((medians_PT, QUEUE_LEAST_NS, False), (tails_PT, TAIL_LEAST_NS, True)):
        new = [each for each in queueing(seen.told, queue_PT, least_ns=least_ns) if not bad & set(each.members)]
        found += [Named(each, in_words(each, tail=tail), first_ns + each.since * window.window_ns) for each in new]
        bad |= {one for each in new for one in each.members}
    return [*found, *stalls]


# --- What is read ------------------------------------------------------------------------------------------------


def _told(edge_fit: pa.Table, window: Window) -> _Told | None:
    src, dst, states = codes(edge_fit, "src"), codes(edge_fit, "dst"), codes(edge_fit, "state")
    slot_N = SLOTS - 1 - (window.to_ns - 1 - ints(edge_fit, "end_ns")) // S
    hosts = sorted(({*src.names} | {*dst.names}) - {""})
    place = {host: number for number, host in enumerate(hosts)}
    src_N, dst_N = (
        np.array([*(place.get(name, -1) for name in each.names), -1], np.int64)[each.code_N] for each in (src, dst)
    )
    own = states.places().get("self", -2)
    rows = np.flatnonzero(
        (slot_N >= 0) & (slot_N < SLOTS) & (src_N >= 0) & (dst_N >= 0) & (src_N != dst_N) & (states.code_N != own)
    )
    if not len(rows):
        return None
    src_N, dst_N, slot_N = src_N[rows], dst_N[rows], slot_N[rows]
    port_N, class_N, end_N, stall_N, back_N = (
        ints(edge_fit, name)[rows] for name in ("src_port", "class", "end_ns", "stall_ns", "back_queue_ns")
    )
    there, back = (
        np.stack([np.clip(ints(edge_fit, f"{way}_{what}")[rows], 0, COUNT_MAX) for what in ("sent", "lost")])
        for way in ("there", "back")
    )
    edge_N = number_of(src_N, dst_N, port_N, class_N)
    _, first = np.unique(edge_N, return_index=True)
    both = [np.concatenate([one[first], other[first]]) for one, other in ((src_N, dst_N), (dst_N, src_N))]
    rest = [np.tile(each[first], 2) for each in (port_N, class_N)]
    way_E = number_of(*both, *rest)
    _, first_W = np.unique(way_E, return_index=True)
    src_W, dst_W, port_W, class_W = (each[first_W] for each in (*both, *rest))
    named = zip(src_W.tolist(), dst_W.tolist(), port_W.tolist(), class_W.tolist(), strict=True)
    ways = [(hosts[one], hosts[other], port, dscp) for one, other, port, dscp in named]
    # What was sent there comes back with the answers: without any nobody knows whether the way there is silent.
    knows = np.flatnonzero((there[0] > 0) | (back[0] > 0))
    way_N = np.concatenate([way_E[edge_N[knows]], way_E[len(first) + edge_N]])
    sent_N, lost_N = np.concatenate([there[:, knows], back], axis=1)
    wait_HT, queue_HT, still_HT = _waited(stall_N, back_N, src_N, slot_N, len(hosts))
    return _Told(
        hosts, ways, src_W, dst_W, way_N, np.concatenate([slot_N[knows], slot_N]),
        np.concatenate([end_N[knows], end_N]), sent_N.astype(np.float64), np.minimum(sent_N, lost_N).astype(np.float64),
        still_HT, wait_HT, queue_HT,
    )  # fmt: skip


def _waited(stall_N: Ints, back_N: Ints, src_N: Ints, slot_N: Ints, hosts: int) -> tuple[Floats, Floats, Bools]:
    """How long probes waited in hosts and before them, of those hosts that may have stood still; and which did."""
    late_H = np.zeros(hosts, bool)
    late_H[src_N[stall_N > STALL_LEAST_NS]] = True
    rows = np.flatnonzero(late_H[src_N])
    wait_HT, queue_HT = (_by_host(each[rows], src_N[rows], slot_N[rows], hosts) for each in (stall_N, back_N))
    return wait_HT, queue_HT, stalled(wait_HT, queue_HT)


def _loses(told: _Told) -> bool:
    """Whether anything was lost lately, or silent in the window."""
    silent_N = (told.slot_N >= SLOTS - DEAD_SLOTS) & (told.sent_N <= told.lost_N)
    return bool(((told.lost_N > 0) & (told.slot_N >= SLOTS - LATELY)).any() or silent_N.any())


def _seen(told: _Told, probe_hop: pa.Table, relation: pa.Table, window: Window) -> _Seen:
    traced = traces_of(probe_hop, {way: number for number, way in enumerate(told.ways)})
    wiring = wiring_of(relation)
    routes = routes_of(told.ways, traced, wiring)
    paths = len(routes.way_P)
    cell_N = routes.at(told.way_N, told.end_N) * SLOTS + told.slot_N
    sent_PT, lost_PT, told_PT = (
        np.bincount(cell_N, value_N, paths * SLOTS).astype(np.float64).reshape(paths, SLOTS)
        for value_N in (told.sent_N, told.lost_N, None)
    )
    src_P, dst_P = told.src_W[routes.way_P], told.dst_W[routes.way_P]
    changing_PT = _changing(traced, len(told.ways), window.to_ns - S * np.arange(SLOTS - 1, -1, -1), S)[routes.way_P]
    classes_ = classes(routes.link_PX, routes.links, wiring.switches) if routes.links else ends_only(
        [told.hosts[each] for each in src_P.tolist()], [told.hosts[each] for each in dst_P.tolist()])  # fmt: skip
    silent_PT = (told_PT > 0) & (sent_PT == 0)
    return _Seen(classes_, src_P, dst_P, sent_PT, lost_PT, silent_PT, changing_PT, traced, routes)


def _changing(traced: Traced, ways: int, end_T: Ints, slot_ns: int) -> Bools:
    """Slots (their ends) in which ways may have gone elsewhere than they were traced, (W, T)."""
    found = np.zeros((ways, len(end_T)), bool)
    for after in np.flatnonzero(traced.way_V[1:] == traced.way_V[:-1]) + 1:
        until_ns, since_ns = traced.until_V[after - 1], traced.since_V[after]
        found[traced.way_V[after]] |= (end_T > until_ns) & (end_T - slot_ns < since_ns + CHANGED_NS)
    return found


def _by_host(value_N: Ints, host_N: Ints, slot_N: Ints, hosts: int) -> Floats:
    """Medians of what rows of a host say in a slot (the lower of two), NaN where none does; below 0 is not told."""
    out = np.full((hosts, SLOTS), np.nan)
    rows = np.flatnonzero(value_N >= 0)
    rows = rows[np.lexsort((value_N[rows], slot_N[rows], host_N[rows]))]
    cell = host_N[rows] * SLOTS + slot_N[rows]
    cells, first, count = np.unique(cell, return_index=True, return_counts=True)
    out.ravel()[cells] = value_N[rows][first + (count - 1) // 2]
    return out


# --- What is found -----------------------------------------------------------------------------------------------


def _dead(seen: _Seen) -> list[Found]:
    """What let nothing through in a whole second of the last window."""
    found: dict[tuple[Component, ...], Found] = {}
    heard_PT = seen.sent_PT - seen.lost_PT
    if not ((heard_PT == 0) & ((seen.sent_PT > 0) | seen.silent_PT))[:, -DEAD_SLOTS:].any():
        return []
    usual_P = np.array([np.median(row[row > 0]) if (row > 0).any() else 0.0 for row in seen.sent_PT])
    begun_P = seen.begun_P
    for slot in range(SLOTS - DEAD_SLOTS, SLOTS):
        heard_P = heard_PT[:, slot]
        expected_P = np.where(seen.silent_PT[:, slot] & begun_P, usual_P, heard_P)
        for each in dead(seen.told, expected_P, heard_P):
            found.setdefault(each.members, _since(each, seen, slot))
    return list(found.values())


def _since(each: Found, seen: _Seen, slot: int) -> Found:
    """The same, since the second after the last in which something came."""
    on_P = _on(seen.told, each)
    heard_T = (seen.sent_PT[on_P, :slot] > seen.lost_PT[on_P, :slot]).any(axis=0)
    last = int(np.flatnonzero(heard_T)[-1]) + 1 if heard_T.any() else 0
    return Found(each.members, each.others, each.kind, each.probability, each.amount, each.paths, each.shown, each.odds,
                 last)  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Waits:
    """Queueing by way and window of `delay`; nothing where no path waits longer than paths do."""

    way_N: Ints
    slot_N: Ints
    end_N: Ints
    queue_N: Floats  # of the median probe, ns
    tail_N: Floats  # of the 99th percentile
    ends_T: Ints  # of the windows
    window_ns: int


def _waits(told: _Told, delay: pa.Table, window: Window) -> _Waits:
    slots = DELAYS_NS // window.window_ns + 1
    end_N = ints(delay, "end_ns")
    slot_N = slots - 1 - (window.to_ns - end_N) // window.window_ns
    tail_N = np.maximum(0, ints(delay, "queue_p99_ns"))
    queue_N = np.maximum(0, ints(delay, "p50_ns") - ints(delay, "p99_ns") + tail_N)
    rows = np.flatnonzero((slot_N >= 0) & (slot_N < slots))
    ends_T = window.to_ns - window.window_ns * np.arange(slots - 1, -1, -1)
    if not (queue_N[rows].max(initial=0) > QUEUE_LEAST_NS / 2 or _stands_out(tail_N[rows])):
        rows = rows[:0]
    number = {way: place for place, way in enumerate(told.ways)}
    src, dst = (delay[name].take(pa.array(rows)).cast(pa.string()).to_pylist() for name in ("src", "dst"))
    ports = (ints(delay, name)[rows].tolist() for name in ("src_port", "class"))
    way_N = np.array([number.get(way, -1) for way in zip(src, dst, *ports, strict=True)], np.int64)
    rows, way_N = rows[way_N >= 0], way_N[way_N >= 0]
    queue, tail = queue_N[rows].astype(np.float64), tail_N[rows].astype(np.float64)
    return _Waits(way_N, slot_N[rows], end_N[rows], queue, tail, ends_T, window.window_ns)


def _stands_out(tail_N: Ints) -> bool:
    """Whether any path's slow probes wait much longer than those of paths do."""
    return len(tail_N) > 0 and float(tail_N.max()) > max(TAIL_LEAST_NS, TAIL_TIMES * float(np.median(tail_N)))


def _queues(seen: _Seen, waits: _Waits, ways: int) -> tuple[Floats, Floats]:
    """Queueing of the median probe and of the 99th percentile by path and window of `delay`, ns; NaN: not told."""
    cells = seen.routes.at(waits.way_N, waits.end_N), waits.slot_N
    changing_PT = _changing(seen.traced, ways, waits.ends_T, waits.window_ns)[seen.routes.way_P]
    medians_PT, tails_PT = (np.full((len(seen.src_P), len(waits.ends_T)), np.nan) for _ in range(2))
    medians_PT[cells], tails_PT[cells] = waits.queue_N, waits.tail_N
    medians_PT[changing_PT] = tails_PT[changing_PT] = np.nan
    return medians_PT, tails_PT


def _stalls(told: _Told, begin_ns: int) -> list[Named]:
    """Hosts that stood still lately, while what came in came in time."""
    found, still_HT = [], told.still_HT
    for host in np.flatnonzero(still_HT[:, -STALL_SLOTS:].sum(axis=1) >= STALLS_MIN).tolist():
        slots = np.flatnonzero(still_HT[host])
        wait_ms, usual_ms = (
            float(np.median(told.wait_HT[host, mask & np.isfinite(told.wait_HT[host])])) / 1e6 if mask.any() else 0.0
            for mask in (still_HT[host], ~still_HT[host] & np.isfinite(told.wait_HT[host]))
        )
        queues = told.queue_HT[host, slots]
        known = queues[np.isfinite(queues)]
        waited = f"waited {np.median(known) / 1e3:.0f} us" if len(known) else "are not known to have waited"
        text = (
            f"its programs get probes {wait_ms:.1f} ms after the kernel did ({usual_ms:.1f} ms otherwise) in "
            f"{len(slots)} of {SLOTS} s; by the kernel's stamps they {waited} in the network"
        )
        member = (Component(entity_id("host", told.hosts[host])),)
        each = Found(member, (), STALL, STALL_SURE, wait_ms * 1e6, 0, len(slots), 0.0, int(slots[0]))
        found.append(Named(each, text, begin_ns + each.since * S))
    return found


def _on(told: Classes, each: Found) -> Bools:
    """Paths over a class, (P,)."""
    return told.paths_of([told.members_C.index(each.members)])


def _over(told: Classes, found: Sequence[Found]) -> Bools:
    """Paths over any of what was found, (P,)."""
    return told.paths_of([told.members_C.index(each.members) for each in found])


def _share(sent_PT: Floats, lost_PT: Floats, mask_P: Bools, since: int) -> float:
    """Share of the probes lost on some paths, from a slot to the last in which any of them lost one."""
    lost_T = lost_PT[mask_P, since:].sum(axis=0)
    until = int(np.flatnonzero(lost_T)[-1]) + 1 if lost_T.any() else len(lost_T)
    return float(lost_T[:until].sum() / max(sent_PT[mask_P, since : since + until].sum(), 1.0))
