"""A fleet solved in two layers: each pod alone, then a constant for each pod from the edges between them.

    edges within pods ──> mesh of each pod (anywhere, at once) ──┐
    edges between pods ──────────────────────────────────────────┴──> mesh of pods ──> one constant a pod

It costs the accuracy of what crosses pods: a pod's constant is known from its cross edges alone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from leadline.analysis.clock.mesh import Solved, solved
from leadline.analysis.columns import Floats, Ints


@dataclass(frozen=True, slots=True)
class Joined:
    """Offsets of H hosts by pod, and how pods were joined. `top` is of pods' islands, and of edges between them."""

    x_H: Floats
    sigma_H: Floats  # with that of the pod's constant
    island_H: Ints  # the smallest host of each island
    pods: Solved
    top: Solved
    between_E: Ints  # rows of the edges between pods


def solved_by_pod(src_E: Ints, dst_E: Ints, value_E: Floats, spread_E: Floats, pod_H: Ints) -> Joined:
    """Values of hosts (see `mesh.solved`), pod by pod and then together.

    `pod_H`: number of each host's pod. A pod that is split counts as several. All pods are solved in one call here, as
    they share no edge; solvers that have one pod each call `mesh.solved` on it, and the top layer gets `x_H` of theirs.
    """
    hosts = len(pod_H)
    within_E = pod_H[src_E] == pod_H[dst_E]
    inner = solved(src_E[within_E], dst_E[within_E], value_E[within_E], spread_E[within_E], hosts)
    part_P, part_H = np.unique(inner.island_H, return_inverse=True)
    between_E = np.flatnonzero(~within_E)
    src, dst = src_E[between_E], dst_E[between_E]
    left_E = value_E[between_E] - (inner.x_H[dst] - inner.x_H[src])
    ends_E = np.where(np.isfinite(inner.sigma_H[src]), inner.sigma_H[src], 0.0) ** 2
    ends_E = ends_E + np.where(np.isfinite(inner.sigma_H[dst]), inner.sigma_H[dst], 0.0) ** 2
    top = solved(part_H[src], part_H[dst], left_E, np.sqrt(spread_E[between_E] ** 2 + ends_E), len(part_P))
    alone_H = ~np.isfinite(inner.sigma_H)
    sigma_H = np.sqrt(np.where(alone_H, 0.0, inner.sigma_H) ** 2 + top.sigma_H[part_H] ** 2)
    if len(part_P) == 1:
        sigma_H = inner.sigma_H
    return Joined(inner.x_H + top.x_H[part_H], sigma_H, part_P[top.island_H][part_H], inner, top, between_E)
