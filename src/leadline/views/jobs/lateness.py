"""`GET /api/v1/jobs/{job}/lateness`: how late each rank comes to its collectives, over time.

    collective ──> of each rank: came, and how long it was in it ──> late = what the median rank was in it, less that

The last to come is in a collective for the shortest time, and all leave it at about the same moment. So lateness is
told by each rank's own clock, and clocks need not agree. Where nobody has left (a job that stands still), by the clocks
as they are.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
from numpy.typing import NDArray

from leadline.model.tables.training import COLLECTIVE
from leadline.views.jobs.rows import JobRows, plain
from leadline.views.rows import SCHEMA_VERSION

ROWS_MAX = 2_000_000  # of the table that are looked at; of more, a share of the collectives, and no sums
RANKS_MAX = 256  # lines that are told; of more, each is the worst of 8, 64, ... ranks
FOLD = 8
BINS_MIN = 24  # bins are not made wider than this many of the span, however seldom collectives come
FILLED = 0.9  # of the bins with collectives, whose neighbour has some too: else bins are too narrow to be read
CARRIED_MAX = (
    4  # bins that calls of a rank lie apart without anything being missing: a step may take longer than others
)
CALL_NS_MAX = 3600 * 10**9  # calls of one number that lie further apart are not one: the job began anew
PAIRWISE = "('send', 'recv')"  # in which nobody is a peer
HOW = "collectives are reported by the torch hook or the NCCL plug-in (docs/how-to/watch-a-pytorch-job.md)"
Values = NDArray[np.float64]


def lateness_answer(rows: JobRows, points: int) -> dict[str, Any]:
    """What the end point says: mean lateness by rank and bin; `sum_s`: for how long the median rank waited for it."""
    every = one_in(rows)
    bin_ns = max(1, -(-(rows.to_ns - rows.from_ns) // points))
    rank_R, late_RT, count_RT, alone_R = _grid(rows, bin_ns, points, every)
    while late_RT.shape[1] >= 2 * BINS_MIN and _apart(count_RT) > 1:
        late_RT, count_RT, bin_ns = _halved(late_RT), _halved(count_RT), 2 * bin_ns
    mean_RT = np.divide(late_RT, count_RT, out=np.full(late_RT.shape, np.nan), where=count_RT > 0)
    names, mean_RT, alone_R, fold = _folded(rank_R, mean_RT, alone_R)
    mean_RT = np.array([_carried(row) for row in mean_RT.tolist()]) if names else mean_RT
    return {
        "schema": SCHEMA_VERSION, "job": rows.job, "tenant": rows.tenant, "from_ns": rows.from_ns,
        "to_ns": rows.to_ns, "bin_ns": bin_ns,
        "t_ns": [rows.from_ns + at * bin_ns for at in range(mean_RT.shape[1])] if names else [],
        "ranks": names, "fold": fold, "late_s": [[plain(each) for each in row] for row in mean_RT.tolist()],
        "sum_s": [plain(each) for each in alone_R.tolist()] if every == 1 else None, "one_in": every,
        "why": "" if names else rows.why_none("collective", HOW), "note": rows.note,
    }  # fmt: skip


def one_in(rows: JobRows) -> int:
    """One in how many collectives is looked at."""
    sql = f"SELECT count() AS n FROM leadline.{COLLECTIVE.name} WHERE {rows.mine('enqueued_ns')} SETTINGS final = 0"
    return max(1, -(-int(rows.query(sql)[0]["n"]) // ROWS_MAX))


def calls_sql(rows: JobRows, every: int = 1, more: str = "") -> str:
    """Each rank's call of each collective: when it came, and when it left; several rows tell of one call."""
    some = f" AND cityHash64(comm, seq) % {every} = 0" if every > 1 else ""
    return (
        f"SELECT comm, seq, rank, {more}min(ifNull(started_ns, enqueued_ns)) AS came_ns, max(finished_ns) AS left_ns "
        f"FROM leadline.{COLLECTIVE.name} WHERE {rows.mine('enqueued_ns')} AND op NOT IN {PAIRWISE}{some} "
        f"GROUP BY comm, seq, rank HAVING ifNull(left_ns, came_ns) - came_ns BETWEEN 0 AND {CALL_NS_MAX}"
    )


def _grid(rows: JobRows, bin_ns: int, points: int, every: int) -> tuple[NDArray[np.int64], Values, Values, Values]:
    """Ranks; by rank and bin the sum of lateness and the number of calls; by rank the time it was waited for, s."""
    # Of two ranks the first is the median: it is the other one that is late.
    late = (
        "SELECT arrayJoin(ranks) AS each, each.1 AS rank, each.2 AS came_ns, "
        "if(length(in_ns) > 1, if(isNull(each.3), NULL, greatest(0, in_ns[intDiv(length(in_ns), 2) + 1] - each.3)), "
        "if(length(in_ns) = 0 AND length(ranks) > 1, greatest(0, came_ns - came[intDiv(length(came) + 1, 2)]), NULL)) "
        "AS late_ns FROM (SELECT groupArray((rank, came_ns, left_ns - came_ns)) AS ranks, "
        "arraySort(groupArray(left_ns - came_ns)) AS in_ns, arraySort(groupArray(came_ns)) AS came "
        f"FROM ({calls_sql(rows, every)}) GROUP BY comm, seq)"
    )
    # Calls that wait beside each other are waited for once: what a rank is late by in one bucket it is in the next.
    alone = (
        f"SELECT rank, came_ns, late_ns, came_ns - greatest(came_ns - late_ns, max(came_ns) OVER (PARTITION BY rank "
        f"ORDER BY came_ns - late_ns, came_ns ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING)) AS alone_ns "
        f"FROM ({late}) WHERE isNotNull(late_ns)"
    )
    found = rows.columns(
        f"SELECT rank, least(greatest(intDiv(came_ns - {rows.from_ns}, {bin_ns}), 0), {points - 1}) AS bin, "
        f"sum(late_ns) / 1e9 AS late, toFloat64(count()) AS n, sum(greatest(alone_ns, 0)) / 1e9 AS alone "
        f"FROM ({alone}) GROUP BY rank, bin ORDER BY rank, bin SETTINGS final = 0"
    )
    rank_N = found.column("rank").to_numpy().astype(np.int64)
    bin_N = found.column("bin").to_numpy().astype(np.int64)
    rank_R, place_N = np.unique(rank_N, return_inverse=True)
    late_RT, count_RT = np.zeros((2, len(rank_R), points))
    late_RT[place_N, bin_N] = found.column("late").to_numpy()
    count_RT[place_N, bin_N] = found.column("n").to_numpy()
    alone_R: Values = np.bincount(place_N, found.column("alone").to_numpy(), len(rank_R)).astype(np.float64)
    return rank_R, late_RT, count_RT, alone_R


def _apart(count_RT: Values) -> float:
    """How many bins nine in ten of those with calls are at most after the one before: 1 where none is between."""
    known = np.flatnonzero(count_RT.any(axis=0))
    return float(np.percentile(np.diff(known), 100 * FILLED)) if len(known) > 1 else 1.0


def _carried(mean_T: list[float]) -> list[float]:
    """A line with bins between two of its calls as the later one: nothing is missing there, the rank computes."""
    found = list(mean_T)
    known = [at for at, value in enumerate(mean_T) if value == value]
    for earlier, later in itertools.pairwise(known):
        if later - earlier <= CARRIED_MAX:
            found[earlier + 1 : later] = [mean_T[later]] * (later - earlier - 1)
    return found


def _halved(value_RT: Values) -> Values:
    """Neighbouring bins added up."""
    if value_RT.shape[1] % 2:
        value_RT = np.pad(value_RT, ((0, 0), (0, 1)))
    halved: Values = value_RT[:, ::2] + value_RT[:, 1::2]
    return halved


def _folded(rank_R: NDArray[np.int64], mean_RT: Values, alone_R: Values) -> tuple[list[str], Values, Values, int]:
    """Names of the lines, and of each the worst of so many ranks: as many lines as can be drawn."""
    fold = 1
    while len(rank_R) > RANKS_MAX * fold:
        fold *= FOLD
    if fold == 1:
        return [str(rank) for rank in rank_R.tolist()], mean_RT, alone_R, 1
    line_R = rank_R // fold
    first_L = np.flatnonzero(np.diff(line_R, prepend=-1))
    names = [f"{line * fold}-{line * fold + fold - 1}" for line in line_R[first_L].tolist()]
    return names, np.fmax.reduceat(mean_RT, first_L), np.maximum.reduceat(alone_R, first_L), fold
