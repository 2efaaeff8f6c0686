"""The filter of each host's clock: what the mesh says of the middle of the windows, against what was predicted.

    lines ──> seeds of hosts of which nothing is known ──> mesh (offsets), mesh (rates) ──> Kalman's update

Source: Kalman 1960, two states a host (offset, rate); what is odd waits until windows that began after it confirm it.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.clock.edge import Lines
from leadline.analysis.clock.mesh import Solved, solved
from leadline.analysis.clock.state import Edges, Event, Kind, Mesh, State
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

# ppb per square root of a second below which no clock is taken to be, since temperature alone moves it so. Source:
# measured (simulated traces, docs/log.md).
WANDER_MIN_PPB = 6.0
WANDER_MAX_PPB = 60.0  # ppb per square root of a second, as when a fan starts. Source: judgement.
# Squared sigmas of a rate's innovation above which wander is raised; factors by which it goes up and down each quarter
# second. Source: judgement.
WANDER_UP_AT, WANDER_UP, WANDER_DOWN = 2.0, 1.08, 0.985
# Times by which a window's variance is raised, of the number of steps within it, since windows of 2 s each quarter
# second tell most of it again. Source: measured (simulated traces, docs/log.md: 6 with 8 steps a window).
OVERLAP_RATIO = 0.75
# Standard deviations of an innovation, and ns with them, from which it is odd: it waits to be confirmed, because one
# wrong line must not move a clock. Source: judgement.
ODD_SIGMAS = 8.0
ODD_NS = 200.0  # ns that are added to them, of which no step is worth a doubt. Source: judgement.
MOVED_SIGMAS = 3.0  # sigmas that a clock must have moved to be told as set, beside `ODD_NS`. Source: judgement.
# Bound in ns above which a clock that is carried on is lost: events of a host are not ordered by it. Source: judgement.
LOST_NS = 1e6


def predicted(mesh: Mesh, end_ns: int) -> Mesh:
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


def seeded(mesh: Mesh, edges: Edges, rows: Ints, window_ns: int) -> Mesh:
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


def measured(
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
        placed_H = new_H & np.isfinite(x_H + y_H)  # who is on no island yet begins with a later window
        begun_H = np.where(placed_H, x_H + y_H * half_s, 0.0)
        whole_H = np.rint(begun_H).astype(np.int64)
        mesh = replace(
            mesh, base_H=mesh.base_H + whole_H, offset_H=mesh.offset_H + begun_H - whole_H,
            rate_H=mesh.rate_H + np.where(placed_H, y_H, 0.0),
        )  # fmt: skip
        x_H, y_H = np.where(new_H, 0.0, x_H), np.where(new_H, 0.0, y_H)
    assert found is not None, "there is at least one round"
    return _filtered(mesh, found, rates, x_H, y_H, touched_H, new_H, shift_H, half_s, events), found


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
    overlap = max(1.0, OVERLAP_RATIO * 2 * S / mesh.every_ns)
    r_H = np.where(touched_H, overlap * np.where(touched_H, found.sigma_H, 1.0) ** 2, 1.0)
    rr_H = np.where(touched_H, overlap * np.where(touched_H, rates.sigma_H, 1.0) ** 2, 1.0)
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
    quarters = 4 * mesh.every_ns / S
    odd_rate_H = left_H**2 / (q1 + rr_H)
    wander_H = mesh.wander_H * np.where(
        use_H, np.where(odd_rate_H > WANDER_UP_AT, WANDER_UP, WANDER_DOWN) ** quarters, 1.0
    )
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


def carried(mesh: Mesh, touched_H: Bools) -> Mesh:
    """Clocks without a fit go on as predicted, until their bound says nothing any more."""
    old_H = mesh.fitted_ns_H < mesh.end_ns
    state_H = np.where(old_H & (mesh.state_H == State.FITTED), State.CARRIED, mesh.state_H)
    mesh = replace(mesh, state_H=state_H)
    lost_H = (state_H == State.CARRIED) & (mesh.bound_H > LOST_NS)
    return replace(mesh, state_H=np.where(lost_H, State.LOST, state_H), known_H=mesh.known_H & ~lost_H)
