"""The clock that lives on the mesh: step by step each host's offset and rate, how well they are known, and what is
wrong. Pure: the caller brings lines of edges and the time, and keeps the state.

    lines of edges ──> differences to what was predicted ──> mesh (offsets) ──┐
                                                        └──> mesh (rates) ────┴──> filter of each host ──> clock_fit
                         islands, asymmetric edges, steps, liars <─────────────────┘

The filter's time is that of an island's hosts together: their mean prediction goes on. It never jumps because a host
comes, goes or steps.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.clock.doubt import judged, shifted, stepped, torn
from leadline.analysis.clock.filter import carried, measured, predicted, seeded
from leadline.analysis.clock.state import Edges, Event, Mesh
from leadline.analysis.columns import Ints
from leadline.model.units import S

PAUSE_NS = 50_000_000  # least gap that is a pause, since threads of a busy host wait for some ms. Source: judgement.


def step(mesh: Mesh, edges: Edges, end_ns: int, window_ns: int = 2 * S) -> Mesh:
    """The state at `end_ns`, with lines of windows that ended there.

    Inputs: lines of any edges among the state's hosts; none at all if nothing was heard: clocks are carried on, and
    their bounds grow. `end_ns`, cluster time, is after that of the state; windows need not end exactly there.
    Returns: the new state; `flagged_E`, `restart_H` and `events` are of this step.
    """
    assert end_ns >= mesh.end_ns, "steps are fed in the order of time"
    events: list[Event] = []
    odd_before_H, wrong_before_H = mesh.odd_H, mesh.wrong_H
    mesh = stepped(predicted(mesh, end_ns), edges, events)
    lines, src_E, dst_E = edges.lines, edges.src_E, edges.dst_E
    usable_E = lines.valid_E & ~lines.crossed_E & ~edges.stepped_E & ~(mesh.lying_H[src_E] | mesh.lying_H[dst_E])
    rows = np.flatnonzero(usable_E)
    flagged_E = np.zeros(len(src_E), bool)
    found = None
    if len(rows):
        mesh = seeded(mesh, edges, rows, window_ns)
        mesh, found = measured(mesh, edges, rows, window_ns, shifted(mesh, edges), events)
        mesh = replace(mesh, torn_H=torn(mesh, src_E[rows], dst_E[rows], found))
        flagged_E[rows] = found.flagged_E
    mesh = carried(mesh, np.zeros(len(mesh), bool) if found is None else np.isfinite(found.sigma_H))
    mesh = judged(mesh, edges, flagged_E, events)
    restart_H = ((mesh.odd_H == 1) & (odd_before_H == 0)) | ((mesh.wrong_H == 1) & (wrong_before_H == 0))
    return replace(mesh, flagged_E=flagged_E, restart_H=restart_H, events=tuple(events))


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
