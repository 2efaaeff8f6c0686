"""The mesh of one tenant followed over rows of `edge_fit`: what `clock_fit` says of its hosts, step by step.

Cluster time is the median of the clocks that an island's hosts show, so one that is an hour off moves nobody; where
some are kept by PTP or chrony, the median of those that are kept best. The filter itself goes by a time of its own (the
mean of probers' clocks), which nobody's steering moves; cluster time is that and what the median host shows above it.

An island is what edges connect; the largest is number 0. Times of two islands cannot be compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from leadline.analysis.clock.hindsight import hindsight
from leadline.analysis.clock.live import step
from leadline.analysis.clock.state import NO_BOUND_NS, Edges, Kind, Mesh, State, begun
from leadline.analysis.clock.told import READING_NS, STEP_NS, LinesOfSteps, Own, OwnClocks, Told
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

# ns by which cluster time may move from step to step against its own rate before its fits say so. Source: judgement;
# below it two readings of the median host differ.
ANCHOR_NS = 1_000.0
# Times the best bound up to which clocks that daemons keep are of one kind: between two polls of chrony (64 s, and
# more) the kernel's bound grows by 500 ppm, from a millisecond to tens of them (adjtimex(2)). Source: judgement.
KEPT_TIMES = 30.0
KEPT_LEAST_NS = 1_000.0  # bound below which they are alike: cluster time is not known better. Source: judgement.
# A kept clock farther from the median of all moves nobody: its daemon is wrong. Source: judgement, hosts that nobody
# keeps drift by a second in some weeks.
KEPT_NS = S
FIT = ("host", "clock", "end_ns", "offset_ns", "rate_ppb", "bound_ns", "noise_ns", "island", "state")
Columns = dict[str, list[Any]]
STEPPED, LYING, ASYMMETRIC, ANCHORED = "stepped", "lying", "asymmetric", "re-anchored"  # states beside `State`


@dataclass(frozen=True, slots=True)
class Said:
    """What the mesh says of edges at some last steps, beside their own lines: M times of an edge and a step."""

    edge_M: Ints
    wrong_M: Floats  # ns by which its line is off; NaN: the mesh does not know both of its hosts
    flagged_M: Bools  # its ways differ


@dataclass(frozen=True, slots=True)
class Followed:
    """The state after the last step, columns of `clock_fit`, and what was said of edges."""

    mesh: Mesh
    fits: Columns
    said: Said


def followed(told: Told, steps: int, from_step: int) -> Followed:
    """Follow `steps` steps since `told.begin_ns`; rows are of those after `from_step`.

    What later steps of the window say corrects earlier ones (`hindsight`); bounds stay what they were.
    """
    hosts = len(told.hosts)
    mesh = begun(hosts, told.begin_ns, STEP_NS)
    lines, own, no_H = LinesOfSteps(told), OwnClocks(told), np.zeros(hosts, bool)
    lost_H, ever_H, doubt_H = no_H, no_H, no_H
    seen: list[_Seen] = []
    said: list[tuple[Ints, Floats, Bools]] = [(np.zeros(0, np.int64), np.zeros(0), np.zeros(0, bool))]
    for k in range(1, steps + 1):
        edges, rows = lines.at(k)
        mine = own.at(k)
        end_ns = told.begin_ns + k * STEP_NS
        mesh = step(mesh, edges, end_ns, window_ns=2 * S)
        lines.restart(mesh.restart_H, end_ns)
        set_H = np.zeros(hosts, bool)
        set_H[[each.host for each in mesh.events if each.kind == Kind.STEPPED]] = True
        lost_H = (lost_H | set_H) & (mesh.state_H == State.LOST)
        ever_H = ever_H | mesh.known_H
        # A clock that was set and a prober that began anew (its host did, perhaps) look alike until lines tell.
        fresh_H = (mesh.state_H == State.FITTED) & (mesh.fitted_ns_H == end_ns)
        before_H, doubt_H = doubt_H, (doubt_H | mine.set_H) & ~fresh_H
        stepped_H = (mine.set_H & fresh_H) | ((set_H | lost_H) & ~(before_H | doubt_H))
        if k >= from_step:  # and the one before, against which the first is held
            known = replace(mesh, state_H=np.where(doubt_H, State.LOST, mesh.state_H))
            seen.append(_Seen(known, mine, stepped_H, ever_H & mine.known_H, tuple(own.clock_H)))
        if k > from_step:
            line = told.valid_N[rows]
            said.append((told.edge_N[rows][line], _wrong(mesh, edges)[line], mesh.flagged_E[line]))
    edge_M, wrong_M, flagged_M = (np.concatenate(each) for each in zip(*said, strict=True))
    return Followed(mesh, _fits(told, seen), Said(edge_M, wrong_M, flagged_M))


@dataclass(frozen=True, slots=True)
class _Seen:
    """What was known at a step."""

    mesh: Mesh
    own: Own
    stepped_H: Bools  # clocks that were set, or that are not fitted again since
    told_H: Bools  # hosts of which something is known, or was
    clock_H: tuple[str, ...]


def _wrong(mesh: Mesh, edges: Edges) -> Floats:
    """By how much the line of each edge is off, by the mesh; NaN where that does not know both of its hosts."""
    src_E, dst_E, lines = edges.src_E, edges.dst_E, edges.lines
    # The line holds at the end on the source's own clock, which is `late` from there by the mesh.
    late_E = (mesh.end_ns + mesh.base_H[src_E] - lines.at_E) + mesh.offset_H[src_E]
    apart_E = lines.base_E - (mesh.base_H[dst_E] - mesh.base_H[src_E])
    moved_E = mesh.offset_H[dst_E] - mesh.offset_H[src_E]
    wrong_E = apart_E + lines.offset_E + lines.rate_E * late_E - moved_E
    found: Floats = np.where(mesh.known_H[src_E] & mesh.known_H[dst_E], wrong_E, np.nan)
    return found


@dataclass(frozen=True, slots=True)
class _Centre:
    """Where cluster time of each host's island is."""

    number_H: Ints  # of the island, -1: it has none
    above_H: Ints  # of the filter's time, ns
    rate_H: Floats  # ppb
    moved_H: Bools  # against where it went on by its rate


class _Islands:
    """Cluster time of each island, step by step."""

    def __init__(self, hosts: int) -> None:
        self._before: _Centre | None = None
        self._end_ns, self._hosts = 0, hosts

    def at(self, mesh: Mesh, own: Own) -> _Centre:
        """Of a step."""
        some_H = mesh.known_H & own.known_H & (mesh.state_H != State.LOST)
        number_H = np.full(self._hosts, -1, np.int64)
        above_H, rate_H = np.zeros(self._hosts, np.int64), np.zeros(self._hosts)
        roots, count = np.unique(mesh.island_H[some_H], return_counts=True)
        for number, at in enumerate(np.lexsort((roots, -count)).tolist()):
            mine_H = mesh.island_H == roots[at]
            hosts = np.flatnonzero(mine_H & some_H)
            shown = (
                mesh.base_H[hosts]
                + own.base_H[hosts]
                + np.rint(mesh.offset_H[hosts] + own.above_H[hosts]).astype(np.int64)
            )
            middle = _middle(shown, own.daemon_H[hosts])
            number_H[mine_H], above_H[mine_H] = number, shown[middle]
            rate_H[mine_H] = mesh.rate_H[hosts[middle]] + own.rate_H[hosts[middle]]
        found = _Centre(number_H, above_H, rate_H, self._moved(mesh.end_ns, number_H, above_H, rate_H))
        self._before, self._end_ns = found, mesh.end_ns
        return found

    def _moved(self, end_ns: int, number_H: Ints, above_H: Ints, rate_H: Floats) -> Bools:
        before = self._before
        if before is None:
            return np.zeros(self._hosts, bool)
        s = (end_ns - self._end_ns) / S
        moved_H = (above_H - before.above_H).astype(np.float64) - before.rate_H * s
        allowed_H = ANCHOR_NS + np.abs(rate_H - before.rate_H) * s
        found: Bools = (number_H >= 0) & (before.number_H >= 0) & (np.abs(moved_H) > allowed_H)
        return found


def _middle(shown_N: Ints, daemon_N: Floats) -> int:
    """Whose clock an island goes by: of those that are kept best, else of all, the median; of two the earlier.

    A daemon that contradicts the median one by more than both their bounds counts for nothing, however small its own.
    """
    order = np.argsort(shown_N, kind="stable")
    near_N = np.abs(shown_N - shown_N[_half(order)]) <= KEPT_NS
    kept_N = near_N & np.isfinite(daemon_N)
    if not kept_N.any():
        return _half(order)
    usual = _half(order[kept_N[order]])
    kept_N &= np.abs(shown_N - shown_N[usual]) <= daemon_N + daemon_N[usual]
    best = KEPT_TIMES * max(KEPT_LEAST_NS, float(daemon_N[kept_N].min()))
    return _half(order[(kept_N & (daemon_N <= best))[order]])


def _half(order: Ints) -> int:
    return int(order[(len(order) - 1) // 2])


def _word(host: int, seen: _Seen, centre: _Centre) -> str:
    mesh, state = seen.mesh, State(int(seen.mesh.state_H[host]))
    if mesh.lying_H[host]:
        return LYING
    if seen.stepped_H[host]:
        return STEPPED
    if state is State.FITTED and centre.moved_H[host]:
        return ANCHORED
    return ASYMMETRIC if state is State.FITTED and mesh.torn_H[host] > 0 else state.word


def _fits(told: Told, seen: Sequence[_Seen]) -> Columns:
    """A row of each host and step after the first of which something is known, or was."""
    base_KH, offset_KH, rate_KH = hindsight([each.mesh for each in seen])
    islands = _Islands(len(told.hosts))
    parts: dict[str, list[Any]] = {name: [] for name in FIT}
    for k, each in enumerate(seen):
        mesh, own = replace(each.mesh, base_H=base_KH[k], offset_H=offset_KH[k], rate_H=rate_KH[k]), each.own
        centre = islands.at(mesh, own)
        bound_H = np.ceil(np.minimum(mesh.bound_within(STEP_NS / S) + own.off_H + READING_NS, NO_BOUND_NS))
        rate_H = mesh.rate_H + own.rate_H - centre.rate_H
        shown_H = mesh.base_H + own.base_H + (mesh.offset_H + own.above_H)
        # The filter's time is `above` earlier when it is `end_ns` by cluster time.
        offset_H = shown_H - centre.above_H - rate_H * 1e-9 * centre.above_H
        hosts = np.flatnonzero(each.told_H) if k else np.zeros(0, np.int64)
        rows = {
            "host": [told.hosts[host] for host in hosts], "clock": [each.clock_H[host] for host in hosts],
            "end_ns": [mesh.end_ns] * len(hosts), "offset_ns": np.rint(offset_H[hosts]).astype(np.int64).tolist(),
            "rate_ppb": rate_H[hosts].tolist(), "bound_ns": bound_H[hosts].astype(np.int64).tolist(),
            "noise_ns": mesh.noise_H[hosts].tolist(), "island": centre.number_H[hosts].tolist(),
            "state": [_word(host, each, centre) for host in hosts.tolist()],
        }  # fmt: skip
        for name, value in rows.items():
            parts[name] += value
    return parts
