"""What the ranks' clocks are worth to each other, told by the collectives themselves where no fit is.

Nobody ends an all-reduce before the last one arrived, and all end it at nearly the same time:

    f_i >= e_j  for all i, j        so   min_k (f_ik - max_j e_jk) >= offset_i >= - min_k (min_j f_jk - e_ik)
    f_i near the others' f          so   offset_i is near the median over k of (f_ik - median_j f_jk)

(e: arrival, f: end, k: collective.) The first gives an interval for each rank's offset, the second an estimate.
Arrivals alone give none: a rank that is always late is late, not wrong. Clocks that may agree are taken as they are,
with what the interval leaves open as their bound; others are moved by the estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from leadline.analysis.columns import Bools, Floats, Ints, ints
from leadline.analysis.ledger.collectives.arrival_kernels import DONE
from leadline.analysis.ledger.collectives.arrivals import ALL, Arrivals, Cells
from leadline.analysis.robust import MAD_TO_SIGMA

# collectives of one communicator that are looked at, spread over its time: more add cost. Source: bound.
COLLECTIVES_MAX = 128
# collectives below which they tell nothing of clocks: the least of fewer is no bound. Source: judgement.
COLLECTIVES_MIN = 5
# Share of collectives that may contradict, because of rows with a wrong number or one bad stamp. Source: judgement.
STRAY_SHARE = 0.1
SYMMETRIC = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
UNKNOWN_NS = 2**62  # ns, a bound where nothing is known: larger than any time. Source: definition.
# Standard deviations of an estimated offset that its bound is: of normal noise 0.3 % lie beyond. Source: textbook:
# Shewhart (1931), three-sigma limits.
SPREADS = 3


@dataclass(frozen=True, slots=True)
class Clocks:
    """Of each rank (R,): what its times are ahead of the others', ns, and to within what that is right.

    `bound_R` is UNKNOWN_NS where nothing is known. `fitted`: the bounds are those of clock fits.
    """

    ahead_R: Ints
    bound_R: Ints
    fitted: bool


def clocks(collective: pa.Table, arrived: Arrivals) -> Clocks:
    """Bounds of the fits where every row has one; what the collectives tell otherwise.

    Accuracy: as good as ends coincide; offsets below a collective's own length cannot be told from a slow end.
    """
    ranks = len(arrived.ranks_R)
    fitted = _fitted(collective, arrived)
    if fitted is not None:
        return Clocks(np.zeros(ranks, np.int64), fitted, fitted=True)
    ahead_R, spread_R = np.zeros(ranks), np.full(ranks, np.inf)
    low_R, high_R = np.full(ranks, -np.inf), np.full(ranks, np.inf)
    known_R = np.zeros(ranks, bool)
    for comm in _order(arrived.cells):
        _learn(arrived, comm, known_R, ahead_R, spread_R, low_R, high_R)
    known_R &= np.isfinite(spread_R)
    may_agree = bool((known_R & (low_R <= 0) & (high_R >= 0)).sum() >= known_R.sum() * (1 - 1e-9))
    if may_agree:
        open_R = np.maximum(-low_R, high_R)
        bound_R = np.minimum(open_R, np.abs(ahead_R) + SPREADS * spread_R)
        ahead_R = np.zeros(ranks)
    else:
        bound_R = SPREADS * spread_R
    bound_R = np.where(known_R, bound_R, UNKNOWN_NS)
    return Clocks(
        np.where(known_R, np.rint(ahead_R), 0).astype(np.int64), np.ceil(bound_R).astype(np.int64), fitted=False
    )


def set_right(cells: Cells, ahead_R: Ints) -> Cells:
    """The same with all times in one clock."""
    arrival_X, end_X = cells.arrival_X.copy(), cells.end_X.copy()
    for comm in range(len(cells.kind_C)):
        rank_M = cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]
        if not len(rank_M):
            continue  # nobody told an arrival: all its rows are of before the window
        for times_X in (arrival_X, end_X):
            times_GM = _of(cells, times_X, comm)
            times_GM -= np.where(times_GM > -UNKNOWN_NS, ahead_R[rank_M], 0)
    return cells._replace(arrival_X=arrival_X, end_X=end_X)


def _fitted(collective: pa.Table, arrived: Arrivals) -> Ints | None:
    """Largest bound of each rank's rows; None where some row has none."""
    if "bound_ns" not in collective.column_names or collective.column("bound_ns").null_count:
        return None
    bound_N, rank_N = ints(collective, "bound_ns"), ints(collective, "rank")
    bound_R = np.zeros(len(arrived.ranks_R), np.int64)
    if bound_N.min() == bound_N.max():
        return bound_R + max(int(bound_N[0]), 0)
    np.maximum.at(bound_R, np.searchsorted(arrived.ranks_R, rank_N), bound_N)
    return bound_R


def _order(cells: Cells) -> list[int]:
    """Communicators, so that each but the first shares members with one before it where it can; large ones first."""
    size_C = np.diff(cells.member_C)
    waiting = [comm for comm in np.argsort(-size_C, kind="stable").tolist() if cells.kind_C[comm] == ALL]
    waiting = [comm for comm in waiting if size_C[comm] > 1]
    met_R = np.zeros(len(cells.of_R) - 1, bool)
    found: list[int] = []
    while waiting:
        left = []
        for comm in waiting:
            rank_M = cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]
            touches = met_R[rank_M]
            if touches.all():
                continue
            if touches.any() or not found:
                found.append(comm)
                met_R[rank_M] = True
            else:
                left.append(comm)
        if len(left) == len(waiting):  # nobody links these to the others
            break
        waiting = left
    return found


def _of(cells: Cells, values_X: Ints, comm: int) -> Ints:
    """Values of the cells of one communicator: (its collectives, its members), a view."""
    size = int(cells.member_C[comm + 1] - cells.member_C[comm])
    return values_X[cells.first_cell_C[comm] : cells.first_cell_C[comm + 1]].reshape(-1, size)


def _learn(
    arrived: Arrivals, comm: int, known_R: Bools, ahead_R: Floats, spread_R: Floats, low_R: Floats, high_R: Floats
) -> None:
    """Add what the collectives of one communicator tell of those members that are not known yet."""
    cells = arrived.cells
    whole_K = _whole(arrived, comm)
    if len(whole_K) < COLLECTIVES_MIN:
        return
    rank_M = cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]
    origin = int(_of(cells, cells.end_X, comm)[whole_K[0], 0])
    arrival_KM = (_of(cells, cells.arrival_X, comm)[whole_K] - origin).astype(np.float64)
    end_KM = (_of(cells, cells.end_X, comm)[whole_K] - origin).astype(np.float64)
    known_M = known_R[rank_M]
    judges = known_M if known_M.any() else np.ones(len(rank_M), bool)
    right_KM = end_KM - np.where(known_M, ahead_R[rank_M], 0.0)
    off_KM = right_KM - np.median(right_KM[:, judges], axis=1)[:, None]
    off_M = np.median(off_KM, axis=0)
    spread_M = MAD_TO_SIGMA * np.median(np.abs(off_KM - off_M), axis=0)
    high_M = np.quantile(end_KM - arrival_KM.max(axis=1)[:, None], STRAY_SHARE, axis=0, method="lower")
    low_M = -np.quantile(end_KM.min(axis=1)[:, None] - arrival_KM, STRAY_SHARE, axis=0, method="lower")
    new_M = ~known_M
    ahead_R[rank_M[new_M]] = off_M[new_M]
    spread_R[rank_M[new_M]] = spread_M[new_M]
    low_R[rank_M[new_M]], high_R[rank_M[new_M]] = low_M[new_M], high_M[new_M]
    known_R[rank_M] = True


def _whole(arrived: Arrivals, comm: int) -> Ints:
    """Numbers in the communicator of collectives of which every member told arrival and end; some, spread evenly."""
    cells = arrived.cells
    groups = slice(int(cells.first_group_C[comm]), int(cells.first_group_C[comm + 1]))
    size = cells.member_C[comm + 1] - cells.member_C[comm]
    ops = [place for place, op in enumerate(arrived.ops) if op in SYMMETRIC]
    is_whole_G = (cells.state_G[groups] == DONE) & (cells.seen_G[groups] == size) & np.isin(arrived.op_G[groups], ops)
    found = np.flatnonzero(is_whole_G)
    if len(found) <= COLLECTIVES_MAX:
        return found
    return found[np.linspace(0, len(found) - 1, COLLECTIVES_MAX).astype(np.int64)]
