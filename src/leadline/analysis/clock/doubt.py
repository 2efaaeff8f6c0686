"""What is wrong in a mesh: clocks that were set, hosts that lie, hosts that are torn between their edges.

Who is wrong is told by shares: of a host that is wrong nearly all edges are, of its neighbours one each.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.clock.mesh import Solved
from leadline.analysis.clock.state import NEW_VAR, Edges, Event, Kind, Mesh, State
from leadline.analysis.columns import Bools, Floats, Ints

# Share of a host's edges that must be wrong for the host to be: the other ends of asymmetric ones are many.
# Source: judgement.
WRONG_SHARE = 0.6
WRONG_EDGES = 3  # edges of a host below which a wrong one may be the other end's fault. Source: judgement.
# Share of a host's edges that disagree with it in one direction from which its bound says so: chance makes it a few
# hosts in a hundred where a tenth of edges is asymmetric, and for these no vote is safe. Source: judgement.
TORN_SHARE = 0.25
# Time for which a host must be wrong to be told as lying: after a step of a clock windows are mixed for 2 s.
# Source: judgement.
LYING_NS = 3_500_000_000
# Times the usual smallest two-way delay beyond which a host's own may hide a lie of its stamps: it widens its bound.
# Source: judgement.
WIDE_RATIO = 1.5


def stepped(mesh: Mesh, edges: Edges, events: list[Event]) -> Mesh:
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
        rate_var_H=rate_var_H, var_H=np.where(stepped_H, NEW_VAR, mesh.var_H),
        both_H=np.where(stepped_H, 0.0, mesh.both_H), odd_H=np.where(stepped_H, 0, mesh.odd_H),
    )  # fmt: skip


def shifted(mesh: Mesh, edges: Edges) -> Floats:
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


def torn(mesh: Mesh, src_E: Ints, dst_E: Ints, found: Solved) -> Floats:
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


def judged(mesh: Mesh, edges: Edges, flagged_E: Bools, events: list[Event]) -> Mesh:
    """Hosts whose edges are wrong for seconds lie; what others might hide."""
    lines = edges.lines
    heard_E = lines.valid_E
    wrong_E = flagged_E | lines.crossed_E
    if mesh.lying_H.any():  # their edges are not in the mesh: they are held against it
        wrong_E = wrong_E | (_off(mesh, edges) & (mesh.lying_H[edges.src_E] | mesh.lying_H[edges.dst_E]))
    share_H, count_H = _shares(mesh, edges, wrong_E, heard_E)
    wrong_H = (share_H >= WRONG_SHARE) & (count_H >= WRONG_EDGES)
    heard_H = count_H > 0
    lying_steps = -(-LYING_NS // mesh.every_ns)
    wrong_count_H = np.where(wrong_H, np.minimum(mesh.wrong_H + 1, 2 * lying_steps), 0)
    wrong_count_H = np.where(heard_H | wrong_H, wrong_count_H, mesh.wrong_H)
    lying_H = wrong_count_H >= lying_steps
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


def _shares(mesh: Mesh, edges: Edges, wrong_E: Bools, of_E: Bools) -> tuple[Floats, Ints]:
    """Share of each host's edges that are wrong, and how many it has."""
    ends = np.concatenate([edges.src_E, edges.dst_E])
    all_H: Ints = np.bincount(ends, np.tile(of_E, 2), len(mesh))
    wrong_H = np.bincount(ends, np.tile(wrong_E & of_E, 2), len(mesh))
    return wrong_H / np.maximum(all_H, 1), all_H
