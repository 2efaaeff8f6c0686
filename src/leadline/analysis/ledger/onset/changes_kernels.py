"""Kernel of the change points: the best partition of each of many series."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.compiled import compiled


@compiled(nogil=True)
def last_begins(
    begin: int, stop: int, n_WT: Floats, x_WT: Floats, xx_WT: Floats, cost_W: Floats, length_min: int, from_WT: Ints
) -> None:
    """Write for series [begin, stop) where the last segment of the best partition of the first t values begins.

    n, x, xx: how many values there are up to each place, their sum and that of their squares, (W, T + 1). cost_W: of a
    segment. Of equally good partitions the one whose last segment is the longest. O(T**2) for each series.
    """
    places = n_WT.shape[1]
    best_T = np.empty(places)
    for series in range(begin, stop):
        n_T, x_T, xx_T, cost = n_WT[series], x_WT[series], xx_WT[series], cost_W[series]
        best_T[:] = np.inf
        best_T[0] = -cost
        for end in range(length_min, places):
            least, place = np.inf, 0
            for first in range(end - length_min + 1):
                count, total = n_T[end] - n_T[first], x_T[end] - x_T[first]
                explained = total * total / count if count > 0 else 0.0
                error = best_T[first] + (xx_T[end] - xx_T[first] - explained) + cost
                if error < least:
                    least, place = error, first
            best_T[end], from_WT[series, end] = least, place
