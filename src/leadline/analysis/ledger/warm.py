"""The kernel of the presence on one row: it compiles, or loads from the cache. Depths have warmers of their own."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.presence_kernels import by_second


def warm_presence() -> Ints:
    """When one row was about something."""
    first_B, last_B = np.full(1, 2**62), np.full(1, -(2**62))
    one = np.ones(1, np.int64)
    by_second(one, 2 * one, 0, 10, first_B, last_B)
    return last_B
