"""Whose the lost time of a communicator is, where no messages tell of edges.

    1. a link of the job's hosts that went down               its port
    2. a link that carries far more than the others (`busiest`)   the edge over it
    3. who ends last                                          that rank: its edges or itself

In a ring each rank passes on what it has got, so behind a slow edge or a slow member everybody ends late, and who
receives over it, or is it, ends last; the further on, the earlier. Ends alone would blame a clock that runs ahead.
So it is not asked who ends last, but who ends later in long collectives than in short ones:

    ends less their median      rank 0    1    2    3        gloo's ring over 4 ranks, means of a lab run
    short collectives               0   -13   -2   10  ms
    long ones                      10   188  -10 -199  ms    a congested port at the host of rank 1
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.columns import Bools, Floats, Ints, ints
from leadline.analysis.ledger.collectives.busiest import busiest_edge
from leadline.analysis.ledger.presence import RANKS_MAX, told_ranks
from leadline.analysis.ledger.segments import PLACE_OF, Segments
from leadline.analysis.spec import Window
from leadline.model.accounts import Category
from leadline.model.ids import EntityId, kind_of
from leadline.model.units import S

# So long before the window short collectives are looked for, since a window may hold none that went well. Source:
# judgement.
BEFORE_NS = 60 * S
# After a link came back: TCP tries again after up to so long, because its wait doubles from 0.2 s with each loss.
# Source: definition (0.2 s doubled six times is 12.8 s).
DOWN_NS = 10 * S
# Collectives of each kind, short and long, below which nobody is named: the last of fewer is last by chance. Source:
# judgement.
LONG_MIN = 5
# Share of the long ones in which the rank must be the last: of two ranks each is by chance last in half, of more in
# less. Source: definition.
LAST_SHARE_MIN = 0.5
# Share of their length by which it must end later than in short ones, beyond what clocks add. Source: judgement.
LATER_SHARE_MIN = 0.02
# Probabilities that are told with an owner, by what named it: a link that was down, the busiest link, who ended last.
# Owners by the last two were right in 0.95 of the time on runs that the rules were chosen on and 0.55 on others.
# Source: judgement.
SURE_PORT, SURE_BUSIEST, SURE_LAST = 0.8, 0.7, 0.6
# Times what a third of its size did not exceed from which a collective is long: more than healthy ones vary by. Source:
# judgement.
LONG_RATIO = 1.25
TYPICAL = 1 / 3  # quantile of lengths that is typical of a size, since most of them may suffer. Source: judgement.
RANKS_MIN = 3  # ranks at least, because of two nobody can say which one ends late. Source: definition.
# cells (ranks times collectives) beyond which nobody is looked for, so that memory is bounded. Source: bound.
CELLS_MAX = 10**7


def placed(
    told: Segments,
    collective: pa.Table,
    event: pa.Table,
    relation: pa.Table,
    flow_path: pa.Table,
    window: Window,
) -> Segments:
    """The same spans; what communicators lost in the window belongs to a port, an edge or a rank, if one can be named.

    collective: with look-back. flow_path: of the window. Owner of the rest, and of what is usual, stays the
    communicator. A rank that owns communication is where a collective ends last: its edges or the rank itself, ends
    alone do not tell which. Its own work does: where the rank is late by at least as much as communication lost, one
    cause explains both (a rank without processor time reduces as slowly as it computes), and all is its lateness.
    """
    mine_N = (told.category_N == PLACE_OF[Category.COMMUNICATION]) & (told.lost_N > 0)
    mine_N &= (told.end_N > window.from_ns) & (told.begin_N < window.to_ns)
    comms = {
        int(owner): told.owners[owner].removeprefix("comm:")
        for owner in np.unique(told.owner_N[mine_N]).tolist()
        if owner >= 0 and kind_of(told.owners[owner]) == "comm"
    }
    if not comms:
        return told
    port = downed_port(event, relation, window)
    edge = None if port else busiest_edge(flow_path, window.job)
    named: dict[int, _Name] = {}
    late = _lost_of(told, PLACE_OF[Category.STRAGGLER], window)
    for owner, comm in comms.items():
        rank = None if port or edge else last_rank(collective, comm, window)
        if port:
            named[owner] = _Name(port, SURE_PORT)
        elif edge:
            named[owner] = _Name(edge, SURE_BUSIEST)
        elif rank is not None:
            name = f"rank:{window.job}/{rank}"
            lost = _lost_of(told, PLACE_OF[Category.COMMUNICATION], window).get(told.owners[owner], 0.0)
            category = Category.STRAGGLER if late.get(name, 0.0) >= lost else Category.COMMUNICATION
            named[owner] = _Name(name, SURE_LAST, category)
    return _split(told, mine_N, named) if named else told


@dataclass(frozen=True, slots=True)
class _Name:
    """Whose lost communication is, how sure, and as what it is told."""

    owner: str
    sure: float
    category: Category = Category.COMMUNICATION


def _lost_of(told: Segments, category: int, window: Window) -> dict[str, float]:
    """What each owner lost in the window of a category, ns."""
    mine_N = (told.category_N == category) & (told.owner_N >= 0)
    inside_N = np.minimum(told.end_N, window.to_ns) - np.maximum(told.begin_N, window.from_ns)
    lost_N = told.lost_N * np.maximum(inside_N, 0) / np.maximum(told.end_N - told.begin_N, 1)
    sum_O = np.bincount(told.owner_N[mine_N], lost_N[mine_N], len(told.owners))
    return {told.owners[place]: float(sum_O[place]) for place in np.flatnonzero(sum_O).tolist()}


def downed_port(event: pa.Table, relation: pa.Table, window: Window) -> str | None:
    """The port of the job's hosts whose link went down, in the window or shortly before; None: none, or several."""
    hosts = {
        parent
        for rows in told_ranks(relation, window.job).values()
        for _, _, kind, parent in rows
        if kind == "runs-on" and kind_of(parent) == "host"
    }
    down = event.filter(pc.equal(event["kind"].cast(pa.string()), "link-down"))
    ports = {
        entity
        for entity, time_ns in zip(down["entity"].to_pylist(), down["time_ns"].to_pylist(), strict=True)
        if time_ns > window.from_ns - DOWN_NS and f"host:{EntityId.of(entity).holder}" in hosts
    }
    return min(ports) if len(ports) == 1 else None


def last_rank(collective: pa.Table, comm: str, window: Window) -> int | None:
    """Who of a communicator ends later in the window's long collectives than in short ones; None: nobody clearly."""
    near = collective.filter(
        pc.and_(
            pc.and_(
                pc.equal(collective["comm"].cast(pa.string()), comm),
                pc.greater_equal(collective["enqueued_ns"], window.from_ns - BEFORE_NS),
            ),
            pc.is_valid(collective["finished_ns"]),
        )
    )
    grid = _ends(near)
    if grid is None:
        return None
    rank_R, end_GR, length_G, size_G = grid
    off_GR = (end_GR - np.median(end_GR, axis=1, keepdims=True)).astype(np.float64)
    is_now_G = end_GR.max(axis=1) > window.from_ns
    baseline_G = _typical(size_G, length_G)
    long_G, short_G = is_now_G & (length_G > LONG_RATIO * baseline_G), length_G <= baseline_G
    if long_G.sum() < LONG_MIN or short_G.sum() < LONG_MIN:
        return None
    later_GR = off_GR[long_G] - np.median(off_GR[short_G], axis=0)
    weight_G = length_G[long_G] / length_G[long_G].sum()
    last = int(np.argmax(weight_G @ later_GR))
    is_last = float(weight_G @ (later_GR.argmax(axis=1) == last)) >= LAST_SHARE_MIN
    is_later = float(weight_G @ later_GR[:, last]) >= LATER_SHARE_MIN * float(weight_G @ length_G[long_G])
    return int(rank_R[last]) if is_last and is_later else None


def _ends(near: pa.Table) -> tuple[Ints, Ints, Floats, Ints] | None:
    """Of the G collectives that all R ranks ended: ranks (R,), ends (G, R) from the first, lengths and bytes (G,)."""
    seq_N, rank_N, end_N, asked_N = (ints(near, name) for name in ("seq", "rank", "finished_ns", "enqueued_ns"))
    keep_N = (rank_N >= 0) & (rank_N < RANKS_MAX) & (end_N < 2**62) & (end_N >= asked_N)
    if not keep_N.any():
        return None
    seq_N, rank_N, end_N, asked_N = (each[keep_N] for each in (seq_N, rank_N, end_N, asked_N))
    bytes_N = ints(near, "bytes")[keep_N]
    rank_R, place_N = np.unique(rank_N, return_inverse=True)
    seq_G, group_N = np.unique(seq_N, return_inverse=True)
    if len(rank_R) < RANKS_MIN or len(rank_R) * len(seq_G) > CELLS_MAX:
        return None
    cell_N = group_N * len(rank_R) + place_N
    end_X = np.full(len(seq_G) * len(rank_R), -1, np.int64)
    np.maximum.at(end_X, cell_N, end_N)
    asked_G, bytes_G = np.full(len(seq_G), -(2**62)), np.zeros(len(seq_G), np.int64)
    np.maximum.at(asked_G, group_N, asked_N)
    np.maximum.at(bytes_G, group_N, bytes_N)
    end_GR = end_X.reshape(len(seq_G), len(rank_R))
    whole_G = end_GR.min(axis=1) >= 0
    length_G = np.maximum(end_GR.max(axis=1) - asked_G, 1).astype(np.float64)
    return rank_R, end_GR[whole_G], length_G[whole_G], bytes_G[whole_G]


def _typical(size_G: Ints, length_G: Floats) -> Floats:
    """Of each collective the length that a third of those of its size did not exceed."""
    typical_G = np.zeros(len(size_G))
    for size in np.unique(size_G).tolist():
        typical_G[size_G == size] = np.quantile(length_G[size_G == size], TYPICAL)
    return typical_G


def _split(told: Segments, mine_N: Bools, named: Mapping[int, _Name]) -> Segments:
    """Cut the lost end off spans of these owners, and give it to those who are named."""
    cut_N = np.where(mine_N & np.isin(told.owner_N, list(named)), told.end_N - np.rint(told.lost_N).astype(np.int64), 0)
    at_N = np.flatnonzero((cut_N > 0) & (cut_N >= told.begin_N))
    owners: Sequence[str] = [*told.owners, *sorted({each.owner for each in named.values()})]
    place = {name: number for number, name in enumerate(owners)}
    owner_M = np.array([place[named[owner].owner] for owner in told.owner_N[at_N].tolist()], np.int64)
    category_M = np.array([PLACE_OF[named[owner].category] for owner in told.owner_N[at_N].tolist()], np.int64)
    sure_M = np.array([named[owner].sure for owner in told.owner_N[at_N].tolist()], np.float64)
    end_N, lost_N = told.end_N.copy(), told.lost_N.copy()
    end_N[at_N], lost_N[at_N] = cut_N[at_N], 0.0
    both = Segments(
        told.depth,
        np.concatenate([told.begin_N, cut_N[at_N]]),
        np.concatenate([end_N, told.end_N[at_N]]),
        np.concatenate([told.category_N, category_M]),
        np.concatenate([told.owner_N, owner_M]),
        np.concatenate([lost_N, (told.end_N - cut_N)[at_N].astype(np.float64)]),
        np.concatenate([told.confidence_N, np.minimum(told.confidence_N[at_N], sure_M)]),
        owners,
    )
    keep_N = both.begin_N < both.end_N
    order_N = np.argsort(both.begin_N[keep_N], kind="stable")
    columns = ("begin_N", "end_N", "category_N", "owner_N", "lost_N", "confidence_N")
    return replace(both, **{name: getattr(both, name)[keep_N][order_N] for name in columns})
