"""A mesh of three hosts: it compiles, or loads from the cache, the kernels."""

from __future__ import annotations

import numpy as np

from leadline.analysis.clock.edge import Points, fitted, shifts, stepped
from leadline.analysis.clock.live import step
from leadline.analysis.clock.state import Edges, Mesh, begun
from leadline.model.units import S


def warm_clock() -> Mesh:
    """The state after one step, of three hosts whose clocks agree."""
    rng = np.random.default_rng(0)
    count = 40
    begin_E = np.arange(4, dtype=np.int64) * count
    at_N = np.tile(np.linspace(0, 2 * S, count).astype(np.int64), 3)
    upper = Points(begin_E, at_N, rng.integers(2_000, 9_000, 3 * count))
    lower = Points(begin_E, at_N, -rng.integers(2_000, 9_000, 3 * count))
    lines = fitted(upper, lower, np.full(3, 2 * S), 2 * S)
    src_E, dst_E = np.array([0, 1, 0]), np.array([1, 2, 2])
    edges = Edges(src_E, dst_E, lines, stepped(lines, upper, lower), shifts(lines, upper, lower))
    return step(begun(3, 0), edges, 2 * S)
