"""Time of a communicator's collectives dealt to its edges: by what table `edge` says that each of them held.

Where nearly all of it was held by edges of one rank, and both by those into it and those out of it, what is lost is the
rank's: a full link is full one way, and a rank without processor time neither takes nor gives.

    held, s, of a ring of four both ways       into rank 1   out of rank 1   others      (lab runs, 10 s)
    rank 1 is slow                                  1.0            3.4         0.1
    the port at its host is full                    6.9            0.1         0.0
    nothing                                         0.5            0.4         0.9
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Floats, Ints, floats, ints
from leadline.analysis.ledger.collectives.arrivals import DOWN, UP, Arrivals
from leadline.analysis.ledger.pieces import COMM, JOB, RANK, Pieces
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.model.accounts import Category, Depth

EDGES_MAX = 32  # edges that are named of one communicator; what the others held is the communicator's. Source: bound.
# Share of what all edges held, by edges of one rank, from which it may be the rank's: in a ring of four every rank has
# half of the edges, so half is no sign. Source: recordings (docs/log.md, 2026-11-22).
OF_RANK_SHARE_MIN = 0.8
# Share of what its edges held, by those into it and by those out of it, because a full port is full one way: in runs of
# the lab below 0.1 at a full port, above 0.23 at a slow rank. Source: recordings (docs/log.md, 2026-11-22).
EACH_WAY_SHARE_MIN = 0.2
# Probability that is told with such a rank: the ledger is less sure of it than of one that comes late. Source:
# judgement.
SURE_RANK = 0.7


def by_edge(pieces: Pieces, edge: pa.Table, arrived: Arrivals, job: str) -> Segments:
    """Pieces with the names of their owners; those of communicators are dealt to edges where edges are known.

    What is lost goes to edges by what they held beyond the median edge, the rest by what they held up to it.
    """
    ranks = [f"rank:{job}/{rank}" for rank in arrived.ranks_R[np.unique(pieces.number_K[pieces.whose_K == RANK])]]
    parts, owners = [pieces.take(pieces.whose_K != COMM)], [f"job:{job}", *ranks]
    place_R = np.zeros(len(arrived.ranks_R) + 1, np.int64)
    place_R[np.unique(pieces.number_K[pieces.whose_K == RANK])] = np.arange(1, len(ranks) + 1)
    first = parts[0]
    owner = [np.where(first.whose_K == JOB, 0, place_R[np.where(first.whose_K == RANK, first.number_K, 0)])]
    for comm in np.unique(pieces.number_K[pieces.whose_K == COMM]).tolist():
        mine = pieces.take((pieces.whose_K == COMM) & (pieces.number_K == comm))
        ends_E2, held_E = _edges(edge, arrived, comm)
        names = [f"rank:{job}/{src}>rank:{job}/{dst}" for src, dst in ends_E2.tolist()]
        slow = slow_rank(ends_E2, held_E)
        dealt, edge_K = _dealt(mine, held_E, is_ranks=slow is not None)
        named = [*names, f"rank:{job}/{slow}", f"comm:{arrived.names[arrived.name_C[comm]]}"]
        owner.append(np.where(edge_K < 0, len(names) + 1, edge_K) + len(owners))
        owners += named
        parts.append(dealt)
    return _segments(Pieces.joined(parts), np.concatenate(owner), owners)


def _edges(edge: pa.Table, arrived: Arrivals, comm: int) -> tuple[Ints, Floats]:
    """Edges of a communicator that held something (sender, receiver), the longest first, and for how long (s)."""
    cells = arrived.cells
    member = arrived.ranks_R[cells.rank_M[cells.member_C[comm] : cells.member_C[comm + 1]]]
    if cells.kind_C[comm] in (UP, DOWN) and len(member) == 2:
        return member[None, :: -1 if cells.kind_C[comm] == DOWN else 1], np.ones(1)
    if not edge.num_rows:
        return np.zeros((0, 2), np.int64), np.zeros(0)
    mine = edge.filter(pc.equal(edge["comm"].cast(pa.string()), arrived.names[arrived.name_C[comm]]))
    held_E, src_E, dst_E = floats(mine, "held_s"), ints(mine, "src_rank"), ints(mine, "dst_rank")
    keep = np.flatnonzero(np.isfinite(held_E) & (held_E > 0))
    keys, which = np.unique(np.column_stack([src_E[keep], dst_E[keep]]), axis=0, return_inverse=True)
    sum_E = np.bincount(which.ravel(), held_E[keep], len(keys)).astype(np.float64)
    order = np.lexsort((np.arange(len(keys)), -sum_E))
    return keys[order], sum_E[order]


def slow_rank(ends_E2: Ints, held_E: Floats) -> int | None:
    """The rank whose edges, into it as well as out of it, held nearly all that edges held; None: there is none.

    ends_E2: sender and receiver. held_E: > 0, s. Of two ranks that both may be it, neither is.
    """
    whole = float(held_E.sum())
    found = []
    for rank in np.unique(ends_E2).tolist():
        into, out = (float(held_E[ends_E2[:, side] == rank].sum()) for side in (1, 0))
        is_most = into + out >= OF_RANK_SHARE_MIN * whole
        if is_most and min(into, out) >= EACH_WAY_SHARE_MIN * (into + out):
            found.append(rank)
    return int(found[0]) if len(found) == 1 else None


def _dealt(mine: Pieces, held_E: Floats, *, is_ranks: bool) -> tuple[Pieces, Ints]:
    """The pieces of one communicator cut so that each part has one edge; -1: none is named.

    is_ranks: what is lost is not dealt, but of the rank that is named after the edges, and its lateness.
    """
    if not len(held_E):
        return mine, np.full(len(mine), -1)
    middle = float(np.median(held_E))
    lost_K = np.minimum(np.rint(mine.lost_K).astype(np.int64), mine.end_K - mine.begin_K)
    baseline, baseline_edge = _cut(mine, mine.begin_K, mine.end_K - lost_K, np.minimum(held_E, middle), is_lost=False)
    beyond_E = np.maximum(held_E - middle, 0)
    share_E = np.ones(1) if is_ranks else beyond_E if beyond_E.any() else held_E
    lost, lost_edge = _cut(mine, mine.end_K - lost_K, mine.end_K, share_E, is_lost=True)
    baseline_edge = np.where(baseline_edge < EDGES_MAX, baseline_edge, -1)
    lost_edge = np.where(lost_edge < EDGES_MAX, lost_edge, -1)
    if is_ranks:
        late = np.full(len(lost), PLACE_OF[Category.STRAGGLER])
        lost = replace(lost, category_K=late, sure_K=np.minimum(lost.sure_K, SURE_RANK))
        lost_edge = np.full(len(lost), len(held_E))
    return Pieces.joined([baseline, lost]), np.concatenate([baseline_edge, lost_edge])


def _cut(mine: Pieces, begin_K: Ints, end_K: Ints, share_E: Floats, *, is_lost: bool) -> tuple[Pieces, Ints]:
    """Spans laid end to end and cut where one edge's share ends and the next one's begins."""
    offset_K = np.concatenate([[0], np.cumsum(end_K - begin_K)])
    quota_E = np.rint(np.cumsum(share_E) / share_E.sum() * offset_K[-1]).astype(np.int64)
    cut = np.unique(np.concatenate([offset_K, quota_E]))
    at, until = cut[:-1], cut[1:]
    of = np.searchsorted(offset_K, at, side="right") - 1
    edge = np.searchsorted(quota_E, at, side="right")
    begin = begin_K[of] + at - offset_K[of]
    length = until - at
    found = mine.take(of)
    lost = length.astype(np.float64) if is_lost else np.zeros(len(of))
    return Pieces(begin, begin + length, found.category_K, found.whose_K, found.number_K, lost, found.sure_K), edge


def _segments(pieces: Pieces, owner_K: Ints, owners: list[str]) -> Segments:
    """In order of time, with the owners that occur, sorted."""
    names = sorted({owners[place] for place in np.unique(owner_K)})
    place_of = {name: place for place, name in enumerate(names)}
    place_O = np.array([place_of.get(name, -1) for name in owners], np.int64)
    kept = np.flatnonzero(pieces.begin_K < pieces.end_K)
    kept = kept[np.lexsort((pieces.end_K[kept], pieces.begin_K[kept]))]
    found = pieces.take(kept)
    length_K = (found.end_K - found.begin_K).astype(np.float64)
    return Segments(
        Depth.COLLECTIVES, found.begin_K, found.end_K, found.category_K, place_O[owner_K[kept]],
        np.clip(found.lost_K, 0, length_K), found.sure_K, names,
    )  # fmt: skip
