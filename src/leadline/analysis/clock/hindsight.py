"""Offsets as they are known afterwards: what later windows say corrects what was said live.

Source: Rauch, Tung and Striebel 1965 (the smoother of a Kalman filter), for two states a host.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from leadline.analysis.clock.state import Mesh, State
from leadline.analysis.columns import Floats, Ints
from leadline.model.units import S


def hindsight(states: Sequence[Mesh]) -> tuple[Ints, Floats, Floats]:
    """Offsets (K, H) at the ends of K steps: base (int64, ns), what is above it (ns), and rates (ppb).

    Inputs: states of successive steps. A clock that was lost, set or begun anew between two steps is not smoothed over.
    """
    base_KH = np.stack([each.base_H for each in states])
    offset_KH = np.stack([each.offset_H for each in states])
    rate_KH = np.stack([each.rate_H for each in states])
    for k in range(len(states) - 2, -1, -1):
        here, then = states[k], states[k + 1]
        s = (then.end_ns - here.end_ns) / S
        q_H = here.wander_H**2
        # Covariance of the prediction, and the gain: P F' / (F P F' + Q).
        p, b, r = here.var_H, here.both_H, here.rate_var_H
        pp, pb, pr = p + 2 * s * b + s * s * r + q_H * s**3 / 3, b + s * r + q_H * s**2 / 2, r + q_H * s
        det = np.maximum(pp * pr - pb * pb, 1e-12)
        c0, c1 = p + s * b, b + s * r  # P F', first column; the second is (b, r)
        g00, g01 = (c0 * pr - b * pb) / det, (b * pp - c0 * pb) / det
        g10, g11 = (c1 * pr - r * pb) / det, (r * pp - c1 * pb) / det
        apart_H = (base_KH[k + 1] - base_KH[k]).astype(np.float64)
        off_H = offset_KH[k + 1] + apart_H - (here.offset_H + s * here.rate_H)
        off_rate_H = rate_KH[k + 1] - here.rate_H
        plain_H = (here.state_H == State.FITTED) & (then.state_H == State.FITTED)
        plain_H &= np.abs(off_H) < 1e6
        offset_KH[k] += np.where(plain_H, g00 * off_H + g01 * off_rate_H, 0.0)
        rate_KH[k] += np.where(plain_H, g10 * off_H + g11 * off_rate_H, 0.0)
    return base_KH, offset_KH, rate_KH
