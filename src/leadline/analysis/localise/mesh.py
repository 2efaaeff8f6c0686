"""What probes say of each link, card, host and switch: from rows of the mesh to what `localise` names.

edge_fit ── sent, lost, silent by path and second ──┐
delay ───── queueing by path and window ────────────┼──> loss, queue, dead, host-stall
probe_hop, relation ── the links of each path ──────┘
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints, codes, ints
from leadline.analysis.localise.mesh_found import STALL, Found, in_words
from leadline.analysis.localise.mesh_paths import Classes, Component, classes, ends_only
from leadline.analysis.localise.mesh_routes import Route, Way, directed, route, traces_of, wiring_of
from leadline.analysis.localise.mesh_silence import dead, stalled
from leadline.analysis.localise.probes import lossy, queueing
from leadline.analysis.spec import Window
from leadline.model.ids import entity_id
from leadline.model.units import S

SLOTS = 60  # seconds that are judged together: 0.1 % of loss is found in so many
FIT_NS = SLOTS * S
DELAYS_NS = 25 * S  # a queue is told that stands in most of the last windows of `delay`
TRACE_NS = 300 * S  # a path is taken to be as it was traced last, so long
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
class _Seen:
    """By path and slot of a second, the last of which ends with the window. P = paths, T = slots, H = hosts."""

    told: Classes
    hosts: list[str]
    src_P: Ints
    dst_P: Ints
    sent_PT: Floats
    lost_PT: Floats
    silent_PT: Bools  # there was a row, and nothing came
    paths: Mapping[Way, Sequence[tuple[int, int]]]  # (since, number of the path), in order of time
    wait_HT: Floats  # NaN: not told
    queue_HT: Floats


def named_by_probes(
    edge_fit: pa.Table, delay: pa.Table, probe_hop: pa.Table, relation: pa.Table, window: Window
) -> list[Named]:
    """What is bad by what probes say; what is dead first."""
    seen = _seen(edge_fit, probe_hop, relation, window)
    if seen is None:
        return []
    begin_ns = window.to_ns - SLOTS * S
    still_HT = stalled(seen.wait_HT, seen.queue_HT)
    out_PT = still_HT[seen.src_P] | still_HT[seen.dst_P]
    sent_PT, lost_PT = (np.where(out_PT, 0.0, each) for each in (seen.sent_PT, seen.lost_PT))
    found = [Named(each, in_words(each), begin_ns + each.since * S) for each in _dead(seen)]
    told = {one for each in found for one in each.found.members}
    lossy_now = [each for each in lossy(seen.told, sent_PT, lost_PT) if not told & set(each.members)]
    for each in lossy_now:
        on_P = _on(seen.told, each)
        if lost_PT[on_P, -LATELY:].any():
            shares = (_share(sent_PT, lost_PT, mask_P, each.since) for mask_P in (on_P, ~_over(seen.told, lossy_now)))
            found.append(Named(each, in_words(each, *shares), begin_ns + each.since * S))
    told |= {one for each in lossy_now for one in each.members}
    queue_PT = _queues(seen, delay, window)
    first_ns = window.to_ns - queue_PT.shape[1] * window.window_ns
    found += [
        Named(each, in_words(each), first_ns + each.since * window.window_ns)
        for each in queueing(seen.told, queue_PT)
        if not told & set(each.members)
    ]
    return [*found, *_stalls(seen, still_HT, begin_ns)]


# --- What is read ------------------------------------------------------------------------------------------------


def _seen(edge_fit: pa.Table, probe_hop: pa.Table, relation: pa.Table, window: Window) -> _Seen | None:
    state, src, dst = (
        edge_fit[name].cast(pa.string()).to_numpy(zero_copy_only=False) for name in ("state", "src", "dst")
    )
    rows = edge_fit.take(pa.array(np.flatnonzero((state != "self") & (src != dst) & _is_name(src) & _is_name(dst))))
    slot_N = SLOTS - 1 - (window.to_ns - 1 - ints(rows, "end_ns")) // S
    inside = np.flatnonzero((slot_N >= 0) & (slot_N < SLOTS))
    if not len(inside):
        return None
    rows, slot_N = rows.take(pa.array(inside)), slot_N[inside]
    src, dst = codes(rows, "src"), codes(rows, "dst")
    hosts = sorted({*src.names, *dst.names})
    place = {host: number for number, host in enumerate(hosts)}
    one_N, other_N = (np.array([place[name] for name in each.names], np.int64)[each.code_N] for each in (src, dst))
    wait_HT, queue_HT = (
        _by_host(ints(rows, name, -1), one_N, slot_N, len(hosts)) for name in ("stall_ns", "back_queue_ns")
    )
    there, back = (
        np.stack([np.clip(ints(rows, f"{way}_{what}"), 0, COUNT_MAX) for what in ("sent", "lost")])
        for way in ("there", "back")
    )
    # What was sent there comes back with the answers: without any nobody knows whether the way there is silent.
    knows_N = (there[0] > 0) | (back[0] > 0)
    key_K = np.stack([one_N, other_N, ints(rows, "src_port"), ints(rows, "class")])
    key_N = np.concatenate([key_K[:, knows_N], key_K[[1, 0, 2, 3]]], axis=1)
    count_N = np.concatenate([there[:, knows_N], back], axis=1)
    slot_N, end_N = (np.r_[each[knows_N], each] for each in (slot_N, ints(rows, "end_ns")))
    ways, way_N = np.unique(key_N, axis=1, return_inverse=True)
    wiring, traces = wiring_of(relation), traces_of(probe_hop)
    routes: list[Route] = []
    paths: dict[Way, list[tuple[int, int]]] = {}
    path_N = np.zeros(len(slot_N), np.int64)
    order, way_N = np.argsort(way_N.ravel(), kind="stable"), way_N.ravel()
    begin_W = np.searchsorted(way_N[order], np.arange(ways.shape[1] + 1))
    ends: list[tuple[int, int]] = []
    for number, (one, other, port, dscp) in enumerate(ways.T.tolist()):
        way = (hosts[one], hosts[other], port, dscp)
        versions: Sequence[tuple[int, tuple[str, ...] | None]] = traces.get(way) or [(0, None)]
        paths[way] = [(time_ns, len(routes) + at) for at, (time_ns, _) in enumerate(versions)]
        mine = order[begin_W[number] : begin_W[number + 1]]
        later = np.searchsorted([time_ns for time_ns, _ in versions], end_N[mine], side="right") - 1
        path_N[mine] = len(routes) + np.maximum(later, 0)
        routes += [route(way, answers, wiring) for _, answers in versions]
        ends += [(one, other)] * len(versions)
    sent_PT, lost_PT, told_PT = (np.zeros((len(routes), SLOTS)) for _ in range(3))
    for target, value in ((sent_PT, count_N[0]), (lost_PT, np.minimum(*count_N)), (told_PT, np.ones(len(slot_N)))):
        np.add.at(target, (path_N, slot_N), value.astype(np.float64))
    src_P, dst_P = np.array(ends, np.int64).T
    silent_PT = (told_PT > 0) & (sent_PT == 0)
    link_PX, links = directed(routes)
    told = classes(link_PX, links, wiring.switches) if links else ends_only(
        [hosts[each] for each in src_P.tolist()], [hosts[each] for each in dst_P.tolist()])  # fmt: skip
    return _Seen(told, hosts, src_P, dst_P, sent_PT, lost_PT, silent_PT, paths, wait_HT, queue_HT)


def _is_name(told_N: np.ndarray[tuple[int], np.dtype[np.object_]]) -> Bools:
    return np.array([bool(name) for name in told_N], bool)


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
    usual_P = np.array([np.median(row[row > 0]) if (row > 0).any() else 0.0 for row in seen.sent_PT])
    found: dict[tuple[Component, ...], Found] = {}
    for slot in range(SLOTS - DEAD_SLOTS, SLOTS):
        heard_P = seen.sent_PT[:, slot] - seen.lost_PT[:, slot]
        expected_P = np.where(seen.silent_PT[:, slot], usual_P, heard_P)
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


def _queues(seen: _Seen, delay: pa.Table, window: Window) -> Floats:
    """Queueing of the median probe by path and window of `delay`, ns; NaN: not told."""
    slots = DELAYS_NS // window.window_ns + 1
    out = np.full((len(seen.src_P), slots), np.nan)
    end_N = ints(delay, "end_ns")
    queue_N = ints(delay, "p50_ns") - ints(delay, "p99_ns") + ints(delay, "queue_p99_ns")
    src, dst = (delay[name].cast(pa.string()).to_pylist() for name in ("src", "dst"))
    told = zip(src, dst, ints(delay, "src_port", -1).tolist(), ints(delay, "class").tolist(), strict=True)
    for way, end_ns, queue_ns in zip(told, end_N.tolist(), queue_N.tolist(), strict=True):
        slot = slots - 1 - (window.to_ns - end_ns) // window.window_ns
        versions = seen.paths.get(way)
        if versions and 0 <= slot < slots:
            at = max(0, bisect_right(versions, (end_ns, 2**62)) - 1)
            out[versions[at][1], slot] = max(0, queue_ns)
    return out


def _stalls(seen: _Seen, still_HT: Bools, begin_ns: int) -> list[Named]:
    """Hosts that stood still lately, while what came in came in time."""
    found = []
    for host in np.flatnonzero(still_HT[:, -STALL_SLOTS:].sum(axis=1) >= STALLS_MIN).tolist():
        slots = np.flatnonzero(still_HT[host])
        wait_ms, usual_ms = (
            float(np.median(seen.wait_HT[host, mask & np.isfinite(seen.wait_HT[host])])) / 1e6 if mask.any() else 0.0
            for mask in (still_HT[host], ~still_HT[host] & np.isfinite(seen.wait_HT[host]))
        )
        queues = seen.queue_HT[host, slots]
        told = queues[np.isfinite(queues)]
        waited = f"waited {np.median(told) / 1e3:.0f} us" if len(told) else "are not known to have waited"
        text = (
            f"its programs get probes {wait_ms:.1f} ms after the kernel did ({usual_ms:.1f} ms otherwise) in "
            f"{len(slots)} of {SLOTS} s; by the kernel's stamps they {waited} in the network"
        )
        member = (Component(entity_id("host", seen.hosts[host])),)
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
