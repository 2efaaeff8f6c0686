"""What lies between the last end of a collective and the end of the window: who is still waited for.

rank 0  ====|....own....|wait wait wait ......> window's end     the collective that nobody has been let go from:
rank 1  ====|.....own.....|wait wait .........>                  of those that have not come all is compute up to
rank 2  ====|.....................own.........>                  what the others took, and late beyond that
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.ledger.collectives.arrival_kernels import ABSENT, NEVER, OPEN
from leadline.analysis.ledger.collectives.arrivals import ALL, Arrivals
from leadline.analysis.ledger.collectives.clocks import Clocks
from leadline.analysis.ledger.collectives.wait_kernels import Phases
from leadline.analysis.ledger.pieces import COMM, JOB, RANK, Pieces
from leadline.analysis.ledger.segments import PLACE_OF
from leadline.model.accounts import Category

# ranks that are blamed by name; more have not come for a reason they have in common. Source: judgement.
STRAGGLERS_MAX = 8
# Probability told with them, because they may still come, or have come and not been heard of. Source: judgement.
SURE = 0.6


def open_end(
    arrived: Arrivals, steps: Phases, clock: Clocks, since_ns: int, to_ns: int, missing: dict[str, int]
) -> Pieces:
    """Pieces from the last end `since_ns` to the end of the window; what they cannot tell is added to `missing`."""
    if since_ns >= to_ns:
        return Pieces.none()
    group = _waiting(arrived, since_ns)
    if group < 0:
        last_ns = int(steps.end_S.max()) if len(steps.end_S) else since_ns
        return Pieces.one(since_ns, min(to_ns, last_ns), PLACE_OF[Category.COMPUTE], JOB, 0, 0.0, SURE / 2)
    cells = arrived.cells
    comm = int(cells.comm_G[group])
    size = int(cells.member_C[comm + 1] - cells.member_C[comm])
    first = int(cells.first_cell_C[comm]) + (group - int(cells.first_group_C[comm])) * size
    absent_M = cells.state_X[first : first + size] == ABSENT
    rank_M = cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]
    own_ns = np.median(np.maximum(cells.arrival_X[first : first + size][~absent_M] - since_ns, 0))
    if 2 * absent_M.sum() >= arrived.size_C[comm]:  # most are still at their own work
        return Pieces.one(since_ns, to_ns, PLACE_OF[Category.COMPUTE], JOB, 0, 0.0, SURE)
    compute_end = min(to_ns, since_ns + int(own_ns))
    compute = Pieces.one(since_ns, compute_end, PLACE_OF[Category.COMPUTE], JOB, 0, 0.0, SURE)
    if size < arrived.size_C[comm]:
        name = f"collectives of {arrived.size_C[comm] - size} of {arrived.size_C[comm]} ranks"
        missing[name] = missing.get(name, 0) + to_ns - compute_end
        return compute
    if not absent_M.any():
        begin = min(to_ns, max(since_ns, int(cells.last_G[group])))
        late = Pieces.one(compute_end, begin, PLACE_OF[Category.STRAGGLER], RANK, int(rank_M[cells.who_G[group]]),
                          begin - compute_end, SURE)  # fmt: skip
        going_on = Pieces.one(begin, to_ns, PLACE_OF[Category.COMMUNICATION], COMM, comm, 0.0, SURE)
        return Pieces.joined([compute, late, going_on])
    return Pieces.joined([compute, _absent(rank_M[absent_M], clock, compute_end, to_ns, missing)])


def _waiting(arrived: Arrivals, since_ns: int) -> int:
    """The collective that ranks have come to first of those that nobody has been let go from; -1: there is none."""
    cells = arrived.cells
    open_G = (cells.state_G == OPEN) & (cells.last_end_G == NEVER) & (cells.seen_G > 0)
    open_G &= (cells.kind_C[cells.comm_G] == ALL) & (cells.last_G >= since_ns)
    found = np.flatnonzero(open_G)
    return int(found[np.argmin(cells.last_G[found])]) if len(found) else -1


def _absent(rank_Q: Ints, clock: Clocks, begin: int, end: int, missing: dict[str, int]) -> Pieces:
    """The wait for those who have not come, in equal parts: nobody knows who will be the last."""
    if len(rank_Q) > STRAGGLERS_MAX:
        missing["arrivals of most ranks"] = missing.get("arrivals of most ranks", 0) + end - begin
        return Pieces.none()
    if end - begin <= clock.bound_R[rank_Q].max():
        return Pieces.one(begin, end, PLACE_OF[Category.COMPUTE], JOB, 0, 0.0, SURE)
    cut = parted(begin, end, len(rank_Q))
    return Pieces.joined(
        [
            Pieces.one(int(cut[place]), int(cut[place + 1]), PLACE_OF[Category.STRAGGLER], RANK, int(rank),
                       float(cut[place + 1] - cut[place]), SURE / len(rank_Q))
            for place, rank in enumerate(rank_Q.tolist())
        ]
    )  # fmt: skip


def parted(begin: int, end: int, count: int) -> Ints:
    """Edges of `count` equal parts of a span, ns (count + 1,). In integers: float64 loses ns on epoch times."""
    return begin + (end - begin) * np.arange(count + 1, dtype=np.int64) // count
