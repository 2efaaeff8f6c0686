"""Which collectives ranks do not wait for, where no step tells of backward passes: those whose end changes nothing.

A rank that is held until the end f asks for the next one at f + c, so the time from one call to the next grows with the
wait; of one that goes on meanwhile it does not. Between ranks this cannot be told (a slow rank waits less and takes
longer), of one rank over time it can: the slope of (next call - call) over (end - call), pooled, is 1 or 0.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.ledger.collectives.arrivals import ALL, Arrivals, Cells

# Collectives of one communicator in a step, among which a period is looked for: the cost grows with it. Source: bound.
PERIOD_MAX = 256
# Share of collectives that repeat after a period; not all, because an evaluation comes between. The same as ROUND_SHARE
# of `symptoms.pace`. Source: judgement.
ALIKE_SHARE = 0.95
MEMBERS_MAX = 8  # ranks that are looked at, spread over the communicator: their slopes are pooled. Source: bound.
# repetitions below which there is no slope: its standard error would be as large as it. Source: judgement.
REPEATS_MIN = 12
# Slope below which ranks do not wait: it is 0 of those that go on and 1 of those that wait, and chance in the calls
# makes it smaller than 1, so the middle is no fair cut. Source: judgement.
HIDDEN_SLOPE = 0.3
# Slope that must lie three standard errors above it, so that few repetitions do not hide a wait. Source: judgement.
SURE_SLOPE = 0.7
# Standard errors above the slope that must lie below SURE_SLOPE: of normal ones one in 740 is beyond. Source: textbook:
# Shewhart (1931), three-sigma limits.
ERRORS = 3
# times the median size to which waits are cut down, so that one long pause makes no slope. Source: judgement.
FAR_TIMES = 5


def hidden(cells: Cells, arrived: Arrivals, steps_tell: bool) -> Bools:
    """Of each collective (G,): whether its kind (place in the step) is one that ranks go on beside.

    steps_tell: backward passes are known, which say it better; then none is.
    """
    hidden_G = np.zeros(len(cells.comm_G), np.bool_)
    if steps_tell:
        return hidden_G
    for comm in np.flatnonzero(cells.kind_C == ALL).tolist():
        begin, stop = int(cells.first_group_C[comm]), int(cells.first_group_C[comm + 1])
        if stop - begin > REPEATS_MIN:
            hidden_G[begin:stop] = _of_one(cells, arrived, comm, begin, stop)
    return hidden_G


def _of_one(cells: Cells, arrived: Arrivals, comm: int, begin: int, stop: int) -> Bools:
    present = np.flatnonzero(cells.seen_G[begin:stop] > 0)
    hidden_G = np.zeros(stop - begin, np.bool_)
    period = _period(arrived.op_G[begin:stop][present].astype(np.int64), arrived.bytes_G[begin:stop][present])
    size = int(cells.member_C[comm + 1] - cells.member_C[comm])
    member = np.unique(np.linspace(0, size - 1, MEMBERS_MAX).astype(np.int64))
    cell_GM = cells.first_cell_C[comm] + present[:, None] * size + member
    arrival_GM, end_GM = cells.arrival_X[cell_GM], cells.end_X[cell_GM]
    known_GM = (cells.state_X[cell_GM[:-1]] > 1) & (cells.state_X[cell_GM[1:]] > 0)
    wait_GM, next_GM = (end_GM - arrival_GM)[:-1], np.diff(arrival_GM, axis=0)
    for place in range(period):
        rows = slice(place, None, period)
        if _goes_on(wait_GM[rows], next_GM[rows], known_GM[rows]):
            hidden_G[present[place::period]] = True
    return hidden_G


def _period(op_G: Ints, bytes_G: Ints) -> int:
    """After how many collectives operation and size repeat; 1 if nothing else fits."""
    for period in range(1, min(PERIOD_MAX, len(op_G) // REPEATS_MIN) + 1):
        alike_G = (op_G[period:] == op_G[:-period]) & (bytes_G[period:] == bytes_G[:-period])
        if alike_G.mean() >= ALIKE_SHARE:
            return period
    return 1


def _goes_on(wait_KM: Ints, next_KM: Ints, known_KM: Bools) -> bool:
    """Whether the calls of one place in the step come regardless of the ends before them."""
    wait, onward = [], []
    for member in range(wait_KM.shape[1]):
        known_K = known_KM[:, member]
        if known_K.sum() >= REPEATS_MIN:
            wait.append(wait_KM[known_K, member] - np.median(wait_KM[known_K, member]))
            onward.append(next_KM[known_K, member] - np.median(next_KM[known_K, member]))
    if not wait:
        return False
    x, y = np.concatenate(wait), np.concatenate(onward)
    far_x, far_y = FAR_TIMES * np.median(np.abs(x)), FAR_TIMES * np.median(np.abs(y))
    x, y = np.clip(x, -far_x, far_x), np.clip(y, -far_y, far_y)
    power = float(x @ x)
    if power <= 0:
        return False
    slope = float(x @ y) / power
    error = float(np.sqrt(((y - slope * x) ** 2).sum() / len(x) / power))
    return slope < HIDDEN_SLOPE and slope + ERRORS * error < SURE_SLOPE
