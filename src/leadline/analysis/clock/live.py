"""The clock that lives on the mesh: every quarter second each host's offset and rate, how well they are known, and what
is wrong. Pure: the caller brings lines of edges and the time, and keeps the state.

    lines of edges ──> differences to what was predicted ──> mesh (offsets) ──┐
                                                        └──> mesh (rates) ────┴──> filter of each host ──> clock_fit
                         islands, asymmetric edges, steps, liars <─────────────────┘

Cluster time is that of an island's hosts together: their mean prediction goes on unless a witness (a host that has PTP
or chrony) pulls it. It never jumps because a host comes, goes or steps. Offsets are host time minus cluster time, as an
int64 base and a float above it.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from enum import IntEnum
from typing import Any

import numpy as np

from leadline.analysis.clock.edge import Lines
from leadline.analysis.clock.mesh import Solved, solved
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

# Wander that the filter expects at first, ppb per square root of a second: what temperature does to oscillators of
# servers within seconds. It is learnt for each host between the two below. Source: measured (simulated, docs/log.md).
WANDER_PPB = 10.0
# ppb per square root of a second below which no clock is taken to be, since temperature alone moves it so. Source:
# measured (simulated traces, docs/log.md).
WANDER_MIN_PPB = 6.0
WANDER_MAX_PPB = 60.0  # ppb per square root of a second, as when a fan starts. Source: judgement.
# Squared sigmas of a rate's innovation above which wander is raised; factors by which it goes up and down.
# Source: judgement.
WANDER_UP_AT, WANDER_UP, WANDER_DOWN = 2.0, 1.08, 0.985
# Times by which a window's variance is raised, since windows of 2 s each quarter second tell most of it again.
# Source: measured (simulated traces, docs/log.md).
OVERLAP = 6.0
# Standard deviations that the stated bound is of: errors of hull fits have long tails. Source: measured (share of
# errors within it on simulated traces, docs/log.md).
BOUND_SIGMAS = 6.0
# ns that a bound never goes below, because both ways of a link differ by as much and nothing tells. Source: judgement.
BOUND_MIN_NS = 100.0
# Time for which a fit is used until the next one comes: a step and the way of its rows. Source: definition.
USED_S = 0.4
# ppb per second by which a rate may change while nothing is heard of a host: a step of 1 ppm within 30 s, the worst of
# the clock models. The bound grows by half of it times the age squared. Source: judgement.
DRIFT_PPB_PER_S = 35.0
# Bound in ns above which a clock that is carried on is lost: events of a host are not ordered by it. Source: judgement.
LOST_NS = 1e6
NO_BOUND_NS = 3600 * S  # told as bound of a lost clock, whose offset may be anything. Source: definition.
# Standard deviations of an innovation, and ns with them, from which it is odd: it waits to be confirmed, because one
# wrong line must not move a clock. Source: judgement.
ODD_SIGMAS = 8.0
ODD_NS = 200.0  # ns that are added to them, of which no step is worth a doubt. Source: judgement.
MOVED_SIGMAS = 3.0  # sigmas that a clock must have moved to be told as set, beside `ODD_NS`. Source: judgement.
# Share of a host's edges that must be wrong for the host to be: the other ends of asymmetric ones are many.
# Source: judgement.
WRONG_SHARE = 0.6
WRONG_EDGES = 3  # edges of a host below which a wrong one may be the other end's fault. Source: judgement.
# Share of a host's edges that disagree with it in one direction from which its bound says so: chance makes it a few
# hosts in a hundred where a tenth of edges is asymmetric, and for these no vote is safe. Source: judgement.
TORN_SHARE = 0.25
# Steps for which a host must be wrong to be told as lying: after a step of a clock windows are mixed for 2 s, which is
# 8 of them. Source: definition.
LYING_STEPS = 14
# Times the usual smallest two-way delay beyond which a host's own may hide a lie of its stamps: it widens its bound.
# Source: judgement.
WIDE_RATIO = 1.5
# Seconds in which cluster time goes over to a witness's, in offset and in rate, because faster its noise would be that
# of cluster time, too. Source: judgement.
ANCHOR_S = 10.0
# Largest ratio (ppb) of slewing, because faster cluster time would be a worse clock than the hosts' own.
# Source: judgement.
SLEW_PPB = 10_000.0


PAUSE_NS = 50_000_000  # least gap that is a pause, since threads of a busy host wait for some ms. Source: judgement.


class State(IntEnum):
    """What is known of a clock; words as in `clock_fit`."""

    LOST = 0
    CARRIED = 1
    FITTED = 2

    @property
    def word(self) -> str:
        """Its name in the table."""
        return self.name.lower()


class Kind(IntEnum):
    """What happened to a host."""

    STEPPED = 0  # its clock was set
    LYING = 1  # its edges contradict each other, or its own witness the mesh, for seconds
    TRUSTED = 2  # that is over


@dataclass(frozen=True, slots=True)
class Event:
    """Something that a step found."""

    host: int
    kind: Kind
    by_ns: float = np.nan  # size, where it is known


@dataclass(frozen=True, slots=True)
class Edges:
    """What is told of E edges in one step: lines of the windows that just ended."""

    src_E: Ints
    dst_E: Ints
    lines: Lines
    stepped_E: Bools  # newest points contradict the last line (`edge.stepped`)
    shift_E: Floats  # ns by which newest points moved from the last line, NaN: not for certain (`edge.shifts`)


@dataclass(frozen=True, slots=True)
class Witness:
    """Clocks of hosts that are set by PTP or chrony: what these say of them. W of them."""

    host_W: Ints
    offset_ns_W: Ints  # host time minus reference
    bound_ns_W: Floats


NO_WITNESS = Witness(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0))


@dataclass(frozen=True, slots=True)
class Mesh:
    """State of H hosts' clocks at a cluster time. Units: ns, ppb, s."""

    end_ns: int
    base_H: Ints
    offset_H: Floats  # at `end_ns`, above the base
    rate_H: Floats  # ppb against cluster time
    var_H: Floats  # of the offset, ns^2
    both_H: Floats  # covariance, ns ppb
    rate_var_H: Floats  # ppb^2
    wander_H: Floats  # ppb per square root of a second
    known_H: Bools  # whether offsets mean something
    state_H: Ints
    fitted_ns_H: Ints  # end of the last window with a fit
    noise_H: Floats  # ns, of the last fit
    extra_H: Floats  # ns that two-way delays could hide
    torn_H: Floats  # ns by which many edges of the host disagree in one direction: they or the others are wrong
    doubt_H: Floats  # ns that it was off when it was odd, until that is settled
    island_H: Ints
    odd_H: Ints  # 1: it was odd, and waits for windows that begin after that
    wrong_H: Ints
    lying_H: Bools
    anchored_H: Bools
    flagged_E: Bools = field(default_factory=lambda: np.zeros(0, bool))  # of the last step's edges: asymmetric
    restart_H: Bools = field(default_factory=lambda: np.zeros(0, bool))  # windows of these hosts' edges begin anew
    events: tuple[Event, ...] = ()  # of the last step

    def __len__(self) -> int:
        return len(self.base_H)

    @property
    def bound_H(self) -> Floats:
        """The offset is right to within this until the next fit comes, ns; inf if it is not known."""
        age_H = (self.end_ns - self.fitted_ns_H) / S
        ahead = USED_S
        var_H = self.var_H + 2 * ahead * self.both_H + ahead**2 * self.rate_var_H + self.wander_H**2 * ahead**3 / 3
        drift_H = np.where(self.state_H == State.FITTED, 0.0, DRIFT_PPB_PER_S * age_H**2 / 2)
        bound_H = (
            np.maximum(BOUND_SIGMAS * np.sqrt(np.maximum(var_H, 0.0)), BOUND_MIN_NS)
            + self.extra_H
            + self.torn_H
            + self.doubt_H
        )
        bound_H = bound_H + drift_H
        out: Floats = np.where(self.state_H == State.LOST, np.inf, bound_H)
        return out


_NEW_VAR = (
    1e12  # variance of the offset of a clock of which nothing is known, ns^2, so that any fit wins. Source: bound.
)
_NEW_RATE_VAR = 1e10  # variance of its rate, ppb^2: 100 ppm is as far as clocks are off. Source: judgement.


def begun(hosts: int, end_ns: int) -> Mesh:
    """The state before anything is known of some hosts. `end_ns`: cluster time, the caller's own clock at first."""
    zero, none = np.zeros(hosts), np.zeros(hosts, np.int64)
    return Mesh(
        end_ns, none, zero, zero, np.full(hosts, _NEW_VAR), zero, np.full(hosts, _NEW_RATE_VAR),
        np.full(hosts, WANDER_PPB), none > 0, none, np.full(hosts, end_ns, np.int64), zero, zero, zero, zero,
        np.arange(hosts),
        none, none, none > 0, none > 0,
    )  # fmt: skip


def joined(mesh: Mesh, hosts: int) -> Mesh:
    """The state with some more hosts behind those that it has."""
    return _with(mesh, begun(hosts, mesh.end_ns), np.arange(len(mesh), len(mesh) + hosts))


def left(mesh: Mesh, host_M: Ints) -> Mesh:
    """The state once some hosts are gone, or began anew: their numbers stay, and nothing is known of them."""
    gone_H = np.zeros(len(mesh), bool)
    gone_H[host_M] = True
    new = begun(len(mesh), mesh.end_ns)
    parts: dict[str, Any] = {name: np.where(gone_H, getattr(new, name), getattr(mesh, name)) for name in _of_hosts()}
    return replace(mesh, **parts)


def step(mesh: Mesh, edges: Edges, end_ns: int, witness: Witness = NO_WITNESS, window_ns: int = 2 * S) -> Mesh:
    """The state at `end_ns`, with lines of windows that ended there.

    Inputs: lines of any edges among the state's hosts; none at all if nothing was heard: clocks are carried on, and
    their bounds grow. `end_ns`, cluster time, is after that of the state; windows need not end exactly there.
    Returns: the new state; `flagged_E`, `restart_H` and `events` are of this step.
    """
    assert end_ns >= mesh.end_ns, "steps are fed in the order of time"
    events: list[Event] = []
    odd_before_H, wrong_before_H, s = mesh.odd_H, mesh.wrong_H, (end_ns - mesh.end_ns) / S
    mesh = _stepped(_predicted(mesh, end_ns), edges, events)
    lines, src_E, dst_E = edges.lines, edges.src_E, edges.dst_E
    usable_E = lines.valid_E & ~lines.crossed_E & ~edges.stepped_E & ~(mesh.lying_H[src_E] | mesh.lying_H[dst_E])
    rows = np.flatnonzero(usable_E)
    flagged_E = np.zeros(len(src_E), bool)
    found = None
    if len(rows):
        mesh = _seeded(mesh, edges, rows, window_ns)
        mesh, found = _measured(mesh, edges, rows, window_ns, _shifted(mesh, edges), events)
        mesh = replace(mesh, torn_H=_torn(mesh, src_E[rows], dst_E[rows], found))
        flagged_E[rows] = found.flagged_E
    mesh = _carried(mesh, np.zeros(len(mesh), bool) if found is None else np.isfinite(found.sigma_H))
    mesh = _judged(mesh, edges, flagged_E, witness, events)
    restart_H = ((mesh.odd_H == 1) & (odd_before_H == 0)) | ((mesh.wrong_H == 1) & (wrong_before_H == 0))
    mesh = _anchored(mesh, witness, s)
    return replace(mesh, flagged_E=flagged_E, restart_H=restart_H, events=tuple(events))


def rows(mesh: Mesh, hosts: Ints | None = None) -> Mapping[str, Any]:
    """Columns of `clock_fit` but who the hosts are, of all hosts or some."""
    h = np.arange(len(mesh)) if hosts is None else hosts
    bound_H = np.minimum(np.ceil(mesh.bound_H[h]), NO_BOUND_NS)
    return {
        "end_ns": np.full(len(h), mesh.end_ns, np.int64),
        "offset_ns": mesh.base_H[h] + np.rint(mesh.offset_H[h]).astype(np.int64),
        "rate_ppb": mesh.rate_H[h],
        "bound_ns": bound_H.astype(np.int64),
        "noise_ns": mesh.noise_H[h],
        "island": mesh.island_H[h],
        "state": [State(each).word for each in mesh.state_H[h].tolist()],
    }


def _of_hosts() -> list[str]:
    return [each.name for each in fields(Mesh) if each.name.endswith("_H") and each.name != "restart_H"]


def _with(mesh: Mesh, more: Mesh, island_H: Ints) -> Mesh:
    parts: dict[str, Any] = {name: np.concatenate([getattr(mesh, name), getattr(more, name)]) for name in _of_hosts()}
    parts["island_H"] = np.concatenate([mesh.island_H, island_H])
    return replace(mesh, **parts)


def _predicted(mesh: Mesh, end_ns: int) -> Mesh:
    """All clocks as they run on until `end_ns`."""
    s = (end_ns - mesh.end_ns) / S
    moved_H = mesh.offset_H + mesh.rate_H * s
    whole_H = np.rint(moved_H).astype(np.int64)  # floats stay small, however long it runs
    q_H = mesh.wander_H**2
    return replace(
        mesh, end_ns=end_ns, base_H=mesh.base_H + whole_H, offset_H=moved_H - whole_H,
        var_H=mesh.var_H + 2 * s * mesh.both_H + s * s * mesh.rate_var_H + q_H * s**3 / 3,
        both_H=mesh.both_H + s * mesh.rate_var_H + q_H * s**2 / 2, rate_var_H=mesh.rate_var_H + q_H * s,
    )  # fmt: skip


def _shares(mesh: Mesh, edges: Edges, wrong_E: Bools, of_E: Bools) -> tuple[Floats, Ints]:
    """Share of each host's edges that are wrong, and how many it has."""
    ends = np.concatenate([edges.src_E, edges.dst_E])
    all_H: Ints = np.bincount(ends, np.tile(of_E, 2), len(mesh))
    wrong_H = np.bincount(ends, np.tile(wrong_E & of_E, 2), len(mesh))
    return wrong_H / np.maximum(all_H, 1), all_H


def _stepped(mesh: Mesh, edges: Edges, events: list[Event]) -> Mesh:
    """Hosts most of whose edges were contradicted at once have set their clock: nothing is known of it."""
    if not edges.stepped_E.any():
        return mesh
    share_H, count_H = _shares(mesh, edges, edges.stepped_E, np.ones(len(edges.src_E), bool))
    # Where two hosts have one edge only both look the same: neither is known.
    stepped_H = (share_H >= WRONG_SHARE) & (count_H > 0) & mesh.known_H
    events += [Event(host, Kind.STEPPED) for host in np.flatnonzero(stepped_H).tolist()]
    rate_H, rate_var_H = mesh.rate_H, np.where(stepped_H, mesh.rate_var_H + 100.0**2, mesh.rate_var_H)
    return replace(
        mesh, known_H=mesh.known_H & ~stepped_H, state_H=np.where(stepped_H, State.LOST, mesh.state_H), rate_H=rate_H,
        rate_var_H=rate_var_H, var_H=np.where(stepped_H, _NEW_VAR, mesh.var_H),
        both_H=np.where(stepped_H, 0.0, mesh.both_H), odd_H=np.where(stepped_H, 0, mesh.odd_H),
    )  # fmt: skip


def _seeded(mesh: Mesh, edges: Edges, rows: Ints, window_ns: int) -> Mesh:
    """Hosts of which nothing is known get what one edge says, hop by hop; of an island of such hosts one begins."""
    src_E, dst_E, lines = edges.src_E[rows], edges.dst_E[rows], edges.lines
    known_H = mesh.known_H.copy()
    if known_H[src_E].all() and known_H[dst_E].all():
        return mesh
    base_H, offset_H, rate_H = mesh.base_H.copy(), mesh.offset_H.copy(), mesh.rate_H.copy()
    above_E = lines.base_E[rows] + np.rint(lines.offset_E[rows]).astype(np.int64)
    rate_E = lines.rate_E[rows] * 1e9
    while True:
        forth_E, back_E = known_H[src_E] & ~known_H[dst_E], ~known_H[src_E] & known_H[dst_E]
        if not (forth_E.any() or back_E.any()):
            new_E = ~known_H[src_E]
            if not new_E.any():
                break
            e = int(np.flatnonzero(new_E)[0])
            h = int(src_E[e])
            base_H[h], offset_H[h], known_H[h] = lines.at_E[rows][e] - mesh.end_ns, 0.0, True
            continue
        for some_E, here_E, there_E, sign in ((forth_E, src_E, dst_E, 1), (back_E, dst_E, src_E, -1)):
            base_H[there_E[some_E]] = base_H[here_E[some_E]] + sign * above_E[some_E]
            offset_H[there_E[some_E]] = offset_H[here_E[some_E]]
            rate_H[there_E[some_E]] = rate_H[here_E[some_E]] + sign * rate_E[some_E]
            known_H[there_E[some_E]] = True
    return replace(mesh, base_H=base_H, offset_H=offset_H, rate_H=rate_H)


def _measured(
    mesh: Mesh, edges: Edges, rows: Ints, window_ns: int, shift_H: Floats, events: list[Event]
) -> tuple[Mesh, Solved]:  # fmt: skip
    """The filter's update with what the mesh says at the middle of the windows."""
    src_E, dst_E, lines = edges.src_E[rows], edges.dst_E[rows], edges.lines.where(rows)
    count = len(mesh)
    touched_H = np.zeros(count, bool)
    touched_H[src_E], touched_H[dst_E] = True, True
    new_H = touched_H & ~mesh.known_H
    half_s = _half_s(mesh, lines, src_E, window_ns)
    rounds = 3 if new_H.any() else 1  # the lines are taken at times that depend on what is sought: ppm of it
    found = None
    for _ in range(rounds):
        mid_H = mesh.offset_H - mesh.rate_H * half_s
        at_E = mesh.end_ns - round(half_s * S) + mesh.base_H[src_E] + np.rint(mid_H[src_E]).astype(np.int64)
        told_E = (lines.base_E - (mesh.base_H[dst_E] - mesh.base_H[src_E])).astype(np.float64) + lines.mid_E
        told_E = told_E + lines.rate_E * (at_E - lines.mid_at_E)
        found = solved(src_E, dst_E, told_E - (mid_H[dst_E] - mid_H[src_E]), lines.spread_E, count)
        told_E = lines.rate_ppb_E * (1 + mesh.rate_H[src_E] * 1e-9) - (mesh.rate_H[dst_E] - mesh.rate_H[src_E])
        rates = solved(src_E, dst_E, told_E, lines.spread_E * 2 / np.maximum(half_s, 0.1), count)
        x_H = _in_frame(found.x_H, found, new_H, mesh)
        y_H = _in_frame(rates.x_H, rates, new_H, mesh)
        begun_H = np.where(new_H, x_H + y_H * half_s, 0.0)
        whole_H = np.rint(begun_H).astype(np.int64)
        mesh = replace(
            mesh, base_H=mesh.base_H + whole_H, offset_H=mesh.offset_H + begun_H - whole_H,
            rate_H=mesh.rate_H + np.where(new_H, y_H, 0.0),
        )  # fmt: skip
        x_H, y_H = np.where(new_H, 0.0, x_H), np.where(new_H, 0.0, y_H)
    assert found is not None, "there is at least one round"
    return _filtered(mesh, found, rates, x_H, y_H, touched_H, new_H, shift_H, half_s, events), found


def _shifted(mesh: Mesh, edges: Edges) -> Floats:
    """How far a host may have moved by the newest points of most of its edges, ns; 0 where they did not.

    Twice what points say, as those of the quarter second in which it happened are of both sides.
    """
    shift_H = np.zeros(len(mesh))
    moved_E = np.isfinite(edges.shift_E)
    if moved_E.any():
        share_H, count_H = _shares(mesh, edges, moved_E, edges.lines.valid_E | moved_E)
        most_H = np.zeros(len(mesh))
        for end_E in (edges.src_E, edges.dst_E):
            np.maximum.at(most_H, end_E[moved_E], np.abs(edges.shift_E[moved_E]))
        shift_H = np.where((share_H >= WRONG_SHARE) & (count_H >= WRONG_EDGES), 2 * most_H, 0.0)
    return shift_H


def _torn(mesh: Mesh, src_E: Ints, dst_E: Ints, found: Solved) -> Floats:
    """By how much a host would move if the edges that disagree with it, all in one direction, were the right ones."""
    torn_H = np.zeros(len(mesh))
    ends = np.concatenate([src_E, dst_E])
    pull_E = np.concatenate([-found.residual_E, found.residual_E])
    wrong_E = np.tile(found.flagged_E, 2)
    count_H = np.bincount(ends, minlength=len(mesh))
    for side in (pull_E > 0, pull_E < 0):
        many_H = np.bincount(ends, wrong_E & side, len(mesh)) >= TORN_SHARE * np.maximum(count_H, 1)
        far_H = np.zeros(len(mesh))
        np.maximum.at(far_H, ends[wrong_E & side], np.abs(pull_E[wrong_E & side]))
        torn_H = np.maximum(torn_H, np.where(many_H, far_H, 0.0))
    return torn_H


def _half_s(mesh: Mesh, lines: Lines, src_E: Ints, window_ns: int) -> float:
    """How long before the end the middle of the points lies, s: shorter windows stand behind a start or a step."""
    ago_E = (lines.at_E - lines.mid_at_E) / S
    return float(min(np.median(ago_E), window_ns / S))


def _in_frame(x_H: Floats, found: Solved, new_H: Bools, mesh: Mesh) -> Floats:
    """Corrections whose mean over the hosts that were known is nothing, island by island: cluster time goes on."""
    out_H = x_H.copy()
    base_H = mesh.known_H & ~new_H & np.isfinite(found.sigma_H)
    for island in np.unique(found.island_H[np.isfinite(found.sigma_H)]).tolist():
        mine_H = found.island_H == island
        old_H = mine_H & base_H
        if not old_H.any():
            continue
        centre = float(np.median(x_H[old_H]))
        apart_H = np.abs(x_H[old_H] - centre)
        near_H = apart_H <= 3 * np.median(apart_H) + 1e-9
        out_H[mine_H] -= x_H[old_H][near_H].mean()
    return out_H


def _filtered(
    mesh: Mesh, found: Solved, rates: Solved, x_H: Floats, y_H: Floats, touched_H: Bools, new_H: Bools, shift_H: Floats,
    half_s: float, events: list[Event],
) -> Mesh:  # fmt: skip
    """Kalman's update with an offset `half_s` ago and a rate; what is odd waits until it is confirmed."""
    r_H = np.where(touched_H, OVERLAP * np.where(touched_H, found.sigma_H, 1.0) ** 2, 1.0)
    rr_H = np.where(touched_H, OVERLAP * np.where(touched_H, rates.sigma_H, 1.0) ** 2, 1.0)
    p, b, q = mesh.var_H, mesh.both_H, mesh.rate_var_H
    spread_H = p - 2 * half_s * b + half_s**2 * q + r_H
    sigma_H = np.sqrt(np.maximum(spread_H, 0))
    moved_H = touched_H & ~new_H & (mesh.odd_H > 0)  # it was odd, and this is of windows that began after that
    odd_H = (touched_H & (np.abs(x_H) > ODD_SIGMAS * sigma_H + ODD_NS)) | ((shift_H > 0) & mesh.known_H)
    odd_H &= ~new_H & ~moved_H
    # A host that is torn moves when its edges' vote turns: no step of its clock.
    stepped_H = moved_H & mesh.known_H & (mesh.torn_H == 0) & (np.abs(x_H) > MOVED_SIGMAS * sigma_H + ODD_NS)
    events += [Event(h, Kind.STEPPED, float(x_H[h])) for h in np.flatnonzero(stepped_H).tolist()]
    begin_H = new_H | moved_H
    use_H = touched_H & ~odd_H & ~begin_H
    # Offset at the middle of the window: H = (1, -half_s).
    g0, g1 = (p - half_s * b) / spread_H, (b - half_s * q) / spread_H
    o = np.where(use_H, g0 * x_H, 0.0)
    f = np.where(use_H, g1 * x_H, 0.0)
    p1 = p - g0 * (p - half_s * b)
    b1 = b - g0 * (b - half_s * q)
    q1 = q - g1 * (b - half_s * q)
    # Then the rate: H = (0, 1).
    left_H = y_H - f
    g0, g1 = b1 / (q1 + rr_H), q1 / (q1 + rr_H)
    o, f = o + np.where(use_H, g0 * left_H, 0.0), f + np.where(use_H, g1 * left_H, 0.0)
    p2, b2, q2 = p1 - g0 * b1, b1 - g0 * q1, q1 - g1 * q1
    odd_rate_H = left_H**2 / (q1 + rr_H)
    wander_H = mesh.wander_H * np.where(use_H, np.where(odd_rate_H > WANDER_UP_AT, WANDER_UP, WANDER_DOWN), 1.0)
    # Anew: what the mesh says alone.
    o = np.where(begin_H, x_H + y_H * half_s, o)
    f = np.where(begin_H, y_H, f)
    p2 = np.where(begin_H, r_H + half_s**2 * rr_H, np.where(use_H, p2, p))
    b2 = np.where(begin_H, half_s * rr_H, np.where(use_H, b2, b))
    q2 = np.where(begin_H, rr_H, np.where(use_H, q2, q))
    fit_H = use_H | begin_H
    return replace(
        mesh, offset_H=mesh.offset_H + o, rate_H=mesh.rate_H + f, var_H=p2, both_H=b2, rate_var_H=q2,
        wander_H=np.clip(wander_H, WANDER_MIN_PPB, WANDER_MAX_PPB), known_H=mesh.known_H | begin_H,
        state_H=np.where(fit_H, State.FITTED, mesh.state_H), fitted_ns_H=np.where(fit_H, mesh.end_ns, mesh.fitted_ns_H),
        doubt_H=np.where(odd_H, np.maximum(np.abs(x_H), shift_H), np.where(fit_H, 0.0, mesh.doubt_H)),
        noise_H=np.where(touched_H, found.sigma_H, mesh.noise_H),
        odd_H=np.where(odd_H, 1, np.where(touched_H, 0, mesh.odd_H)),
        island_H=np.where(touched_H, found.island_H, mesh.island_H),
    )  # fmt: skip


def _carried(mesh: Mesh, touched_H: Bools) -> Mesh:
    """Clocks without a fit go on as predicted, until their bound says nothing any more."""
    old_H = mesh.fitted_ns_H < mesh.end_ns
    state_H = np.where(old_H & (mesh.state_H == State.FITTED), State.CARRIED, mesh.state_H)
    mesh = replace(mesh, state_H=state_H)
    lost_H = (state_H == State.CARRIED) & (mesh.bound_H > LOST_NS)
    return replace(mesh, state_H=np.where(lost_H, State.LOST, state_H), known_H=mesh.known_H & ~lost_H)


def _judged(mesh: Mesh, edges: Edges, flagged_E: Bools, witness: Witness, events: list[Event]) -> Mesh:
    """Hosts whose edges are wrong for seconds, or whose witness contradicts the mesh, lie; what others might hide."""
    lines = edges.lines
    heard_E = lines.valid_E
    wrong_E = flagged_E | lines.crossed_E
    if mesh.lying_H.any():  # their edges are not in the mesh: they are held against it
        wrong_E = wrong_E | (_off(mesh, edges) & (mesh.lying_H[edges.src_E] | mesh.lying_H[edges.dst_E]))
    share_H, count_H = _shares(mesh, edges, wrong_E, heard_E)
    wrong_H = (share_H >= WRONG_SHARE) & (count_H >= WRONG_EDGES)
    if len(witness.host_W) > 2:  # two that disagree do not tell which is wrong
        off_W = _against_witness(mesh, witness)
        far_W = np.abs(off_W - np.median(off_W)) > witness.bound_ns_W + mesh.bound_H[witness.host_W]
        wrong_H[witness.host_W[far_W]] = True
    heard_H = count_H > 0
    wrong_count_H = np.where(wrong_H, np.minimum(mesh.wrong_H + 1, 2 * LYING_STEPS), 0)
    wrong_count_H = np.where(heard_H | wrong_H, wrong_count_H, mesh.wrong_H)
    lying_H = wrong_count_H >= LYING_STEPS
    events += [Event(host, Kind.LYING) for host in np.flatnonzero(lying_H & ~mesh.lying_H).tolist()]
    events += [Event(host, Kind.TRUSTED) for host in np.flatnonzero(mesh.lying_H & ~lying_H).tolist()]
    state_H = np.where(lying_H, State.LOST, mesh.state_H)
    known_H = mesh.known_H & ~(mesh.lying_H & ~lying_H)  # trusted anew: begin anew
    return replace(mesh, wrong_H=wrong_count_H, lying_H=lying_H, state_H=state_H, known_H=known_H,
                   extra_H=_hidden(mesh, edges))  # fmt: skip


def _off(mesh: Mesh, edges: Edges) -> Bools:
    """Edges whose lines are farther from the state than its bounds and their own widths allow."""
    lines = edges.lines
    told_E = (lines.base_E - (mesh.base_H[edges.dst_E] - mesh.base_H[edges.src_E])) + lines.offset_E
    told_E = told_E - (mesh.offset_H[edges.dst_E] - mesh.offset_H[edges.src_E])
    off_E: Bools = np.abs(told_E) > 1_000.0
    return off_E


def _hidden(mesh: Mesh, edges: Edges) -> Floats:
    """What a host's stamps could hide: by how much its best two-way delay is worse than others' usually are."""
    lines = edges.lines
    good_E = lines.valid_E & ~lines.crossed_E
    half_H = np.full(len(mesh), np.inf)
    for end_E in (edges.src_E, edges.dst_E):
        np.minimum.at(half_H, end_E[good_E], lines.half_E[good_E])
    seen_H = np.isfinite(half_H)
    if not seen_H.any():
        return mesh.extra_H
    usual = float(np.median(half_H[seen_H]))
    return np.where(seen_H, np.where(half_H > WIDE_RATIO * usual, half_H - usual, 0.0), mesh.extra_H)


def _against_witness(mesh: Mesh, witness: Witness) -> Floats:
    """What witnesses say above what the mesh says, ns, (W,)."""
    h = witness.host_W
    return (witness.offset_ns_W - mesh.base_H[h]).astype(np.float64) - mesh.offset_H[h]


def _anchored(mesh: Mesh, witness: Witness, s: float) -> Mesh:
    """Cluster time of each island that has witnesses goes over to theirs: at once at first, then slowly.

    A loop of second order, critically damped, so that cluster time comes to run as fast as theirs.
    """
    if not len(witness.host_W):
        return mesh
    h = witness.host_W
    off_W = _against_witness(mesh, witness)
    good_W = (mesh.state_H[h] == State.FITTED) & ~mesh.lying_H[h]
    base_H, offset_H, rate_H = mesh.base_H, mesh.offset_H.copy(), mesh.rate_H.copy()
    anchored_H, pull = mesh.anchored_H.copy(), 2.0 / ANCHOR_S
    for island in np.unique(mesh.island_H[h[good_W]]).tolist():
        mine_H = (mesh.island_H == island) & mesh.known_H
        told_W = good_W & (mesh.island_H[h] == island)
        off = _middle(off_W[told_W], 1.0 / np.maximum(witness.bound_ns_W[told_W], 1.0))
        if anchored_H[mine_H].any():
            rate_H[mine_H] += np.clip(pull**2 * off, -SLEW_PPB, SLEW_PPB) * s
            off = float(np.clip(2 * pull * off, -SLEW_PPB, SLEW_PPB) * s)
        offset_H[mine_H] += off
        anchored_H[mine_H] = True
    whole_H = np.rint(offset_H).astype(np.int64)
    return replace(mesh, base_H=base_H + whole_H, offset_H=offset_H - whole_H, rate_H=rate_H, anchored_H=anchored_H)


def _middle(value_W: Floats, weight_W: Floats) -> float:
    """Weighted median."""
    order = np.argsort(value_W)
    heap = weight_W[order].cumsum()
    return float(value_W[order][np.searchsorted(heap, heap[-1] / 2)])


def ordered(a_ns: int, bound_a: float, b_ns: int, bound_b: float) -> int:
    """-1: a was first; 1: b was; 0: within their bounds nothing tells."""
    apart = b_ns - a_ns
    if abs(apart) <= bound_a + bound_b:
        return 0
    return -1 if apart > 0 else 1


def pauses(sent_N: Ints, usual_ns: int, least_ns: int = PAUSE_NS) -> Ints:
    """Pauses of a host, (P, 2) begin and end on its clock: gaps in what it sends, of all its edges together, in order.

    A host that sends every `usual_ns` and is silent for three times that and at least `least_ns` stood still.
    """
    gap_N = np.diff(sent_N)
    at = np.flatnonzero(gap_N >= max(3 * usual_ns, least_ns))
    return np.stack([sent_N[at], sent_N[at + 1]], axis=1)
