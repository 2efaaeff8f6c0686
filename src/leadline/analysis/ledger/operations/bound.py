"""Which operations a window of the ledger is told from: of a job that traces more than fit, the newest steps."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Ints, ints
from leadline.analysis.spec import Window

# Rows of one window. A row takes 2.4 us and 400 bytes on one core, so this is 5 s of a window of 10 s, and 0.8 GB: more
# than 1,000 ranks need that trace 300 operations of each step of 2 s. Source: bound.
ROWS_MAX = 2_000_000


def newest_steps(operation: pa.Table, window: Window, rows_max: int = ROWS_MAX) -> tuple[pa.Table, dict[str, int]]:
    """The rows of the newest steps that fit, all rows where they do; and by name, ns, what is not told for that.

    Steps that began before the window's end are taken, the last one first, so what the window touches comes before
    what is only there to learn from. Of one step that does not fit nothing is taken: half a step tells nothing.
    """
    if operation.num_rows <= rows_max:
        return operation, {}
    place_N, begin_T, count_T = _steps(ints(operation, "step"), ints(operation, "start_ns"))
    order_T = np.lexsort((np.arange(len(begin_T)), begin_T))[::-1]
    order_T = order_T[begin_T[order_T] < window.to_ns]
    taken_T = order_T[: np.searchsorted(np.cumsum(count_T[order_T]), rows_max, side="right")]
    is_taken_T = np.zeros(len(begin_T), bool)
    is_taken_T[taken_T] = True
    from_ns = int(begin_T[taken_T].min(initial=window.to_ns))
    untold_ns = min(max(from_ns - window.from_ns, 0), window.window_ns)
    name = f"operations beyond {rows_max:,} rows in reach"
    return operation.filter(pa.array(is_taken_T[place_N])), {name: untold_ns} if untold_ns else {}


def _steps(number_N: Ints, begin_N: Ints) -> tuple[Ints, Ints, Ints]:
    """Place of each row's step, and of each step (T,) the first begin and how many rows it has."""
    if (number_N[1:] >= number_N[:-1]).all():  # as the store gives them
        first_T = np.flatnonzero(np.append(True, number_N[1:] != number_N[:-1]))
        count_T = np.diff(np.append(first_T, len(number_N)))
        return np.repeat(np.arange(len(first_T)), count_T), np.minimum.reduceat(begin_N, first_T), count_T
    _, place_N, count_T = np.unique(number_N, return_inverse=True, return_counts=True)
    begin_T = np.full(len(count_T), 2**63 - 1)
    np.minimum.at(begin_T, place_N, begin_N)
    return place_N, begin_T, count_T
