"""Kernel of the detector: order statistics of many short series at once."""

from __future__ import annotations

import numpy as np
from numba import njit

from leadline.analysis.columns import Floats


@njit(cache=True, nogil=True)
def quantiles_of(value_ST: Floats, at_Q: Floats, out_SQ: Floats) -> None:
    """Write the quantiles `at_Q` (0 to 1, linear between samples) of each series; missing and infinite values are left
    out; NaN where nothing is left. S = series, T = samples, Q = quantiles. O(S T log T).
    """
    for series in range(value_ST.shape[0]):
        seen_T = value_ST[series][np.isfinite(value_ST[series])]
        count = len(seen_T)
        if count == 0:
            out_SQ[series] = np.nan
            continue
        seen_T.sort()
        for place in range(len(at_Q)):
            exact = at_Q[place] * (count - 1)
            low = int(exact)
            high = min(low + 1, count - 1)
            out_SQ[series, place] = seen_T[low] + (seen_T[high] - seen_T[low]) * (exact - low)
