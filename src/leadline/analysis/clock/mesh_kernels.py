"""Kernels of the mesh: islands by union of edges, and conjugate gradients on the Laplacian, edge by edge."""
# Numba's types are unknown to mypy.
# mypy: disable-error-code="no-any-return,untyped-decorator"

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.compiled import compiled


@compiled()
def islands(hosts: int, src_E: Ints, dst_E: Ints) -> Ints:
    """The smallest host of each host's component, (H,)."""
    root_H = np.arange(hosts)
    for e in range(len(src_E)):
        a, b = src_E[e], dst_E[e]
        while root_H[a] != a:
            root_H[a] = root_H[root_H[a]]
            a = root_H[a]
        while root_H[b] != b:
            root_H[b] = root_H[root_H[b]]
            b = root_H[b]
        root_H[max(a, b)] = min(a, b)
    for h in range(hosts):  # a root is smaller than what hangs on it
        root_H[h] = root_H[root_H[h]]
    return root_H


@compiled()
def _applied(src_E: Ints, dst_E: Ints, weight_E: Floats, x_H: Floats, out_H: Floats) -> None:
    """The Laplacian times x."""
    out_H[:] = 0.0
    for e in range(len(src_E)):
        flow = weight_E[e] * (x_H[dst_E[e]] - x_H[src_E[e]])
        out_H[dst_E[e]] += flow
        out_H[src_E[e]] -= flow


@compiled()
def solve(src_E: Ints, dst_E: Ints, value_E: Floats, weight_E: Floats, x_H: Floats, tol: float, steps: int) -> int:
    """Minimise the weighted squares of `x[dst] - x[src] - value`, from and into `x_H`; how many steps that took.

    Conjugate gradients with the diagonal as preconditioner. Ends when the preconditioned residual has shrunk to `tol`
    of that of x = 0, or after `steps`. Each island's constant stays what it was in `x_H`.
    """
    hosts = len(x_H)
    diagonal_H, residual_H, start_H = np.zeros(hosts), np.zeros(hosts), np.zeros(hosts)
    for e in range(len(src_E)):
        a, b, w = src_E[e], dst_E[e], weight_E[e]
        diagonal_H[a] += w
        diagonal_H[b] += w
        left = w * (value_E[e] - (x_H[b] - x_H[a]))
        residual_H[b] += left
        residual_H[a] -= left
        start_H[b] += w * value_E[e]
        start_H[a] -= w * value_E[e]
    inverse_H = np.zeros(hosts)
    aim = 0.0
    for h in range(hosts):
        if diagonal_H[h] > 0:
            inverse_H[h] = 1.0 / diagonal_H[h]
        aim += start_H[h] * start_H[h] * inverse_H[h]
    z_H = inverse_H * residual_H
    p_H, ap_H = z_H.copy(), np.empty(hosts)
    size = (residual_H * z_H).sum()
    done = 0
    while done < steps and size > tol * tol * aim and size > 0:
        _applied(src_E, dst_E, weight_E, p_H, ap_H)
        curve = (p_H * ap_H).sum()
        if curve <= 0:  # what is left is so small that its square is nothing
            break
        alpha = size / curve
        new = 0.0
        for h in range(hosts):
            x_H[h] += alpha * p_H[h]
            residual_H[h] -= alpha * ap_H[h]
            z_H[h] = inverse_H[h] * residual_H[h]
            new += residual_H[h] * z_H[h]
        beta = new / size
        for h in range(hosts):
            p_H[h] = z_H[h] + beta * p_H[h]
        size = new
        done += 1
    return done


@compiled()
def reweighted(
    src_E: Ints, dst_E: Ints, value_E: Floats, prior_E: Floats, x_H: Floats, scale: float, weight_E: Floats
) -> None:
    """Geman-McClure weights of the residuals: prior / (1 + (r / scale)^2)^2, r in units of the prior's spread."""
    for e in range(len(src_E)):
        r = value_E[e] - (x_H[dst_E[e]] - x_H[src_E[e]])
        ratio = r * r * prior_E[e] / (scale * scale)
        weight_E[e] = prior_E[e] / ((1.0 + ratio) * (1.0 + ratio))


@compiled()
def huberised(
    src_E: Ints, dst_E: Ints, value_E: Floats, prior_E: Floats, x_H: Floats, scale: float, weight_E: Floats
) -> None:
    """Huber's weights: prior, less for residuals above the scale as their size grows. Convex: one minimum."""
    for e in range(len(src_E)):
        r = value_E[e] - (x_H[dst_E[e]] - x_H[src_E[e]])
        weight_E[e] = prior_E[e] / max(1.0, abs(r) * np.sqrt(prior_E[e]) / scale)


@compiled()
def residuals(src_E: Ints, dst_E: Ints, value_E: Floats, x_H: Floats) -> Floats:
    """value - (x[dst] - x[src])."""
    out_E = np.empty(len(src_E))
    for e in range(len(src_E)):
        out_E[e] = value_E[e] - (x_H[dst_E[e]] - x_H[src_E[e]])
    return out_E
