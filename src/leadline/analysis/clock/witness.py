"""Clocks that PTP or chrony set are witnesses: cluster time goes over to theirs, slowly."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from leadline.analysis.clock.state import Mesh, State, Witness
from leadline.analysis.columns import Floats

# Seconds in which cluster time goes over to a witness's, in offset and in rate, because faster its noise would be that
# of cluster time, too. Source: judgement.
ANCHOR_S = 10.0
# Largest ratio (ppb) of slewing, because faster cluster time would be a worse clock than the hosts' own.
# Source: judgement.
SLEW_PPB = 10_000.0


def against_witness(mesh: Mesh, witness: Witness) -> Floats:
    """What witnesses say above what the mesh says, ns, (W,)."""
    h = witness.host_W
    return (witness.offset_ns_W - mesh.base_H[h]).astype(np.float64) - mesh.offset_H[h]


def anchored(mesh: Mesh, witness: Witness, s: float) -> Mesh:
    """Cluster time of each island that has witnesses goes over to theirs: at once at first, then slowly.

    A loop of second order, critically damped, so that cluster time comes to run as fast as theirs.
    """
    if not len(witness.host_W):
        return mesh
    h = witness.host_W
    off_W = against_witness(mesh, witness)
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
