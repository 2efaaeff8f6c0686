"""The kernels of the presence on one row: they compile, or load from the cache. Depths have warmers of their own."""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.presence_kernels import by_second, largest, marked, read_only


def warm_presence() -> Ints:
    """When one row was about something, of whom, and of how many."""
    one, none = read_only(np.ones(1, np.int64)), read_only(np.zeros(0, np.uint8))
    largest(0, 1, one, 10)
    marked(0, 1, one, np.zeros(2, np.uint8))
    _, last_B = by_second(0, 1, one, one, none, 0, 0, 10, 1)
    return last_B
