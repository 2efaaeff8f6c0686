"""Depths of the ledger laid over each other: each instant of a job's presence gets one owner, and sums are exact.

presence      |   ##################    |
frame         |   ####                  |   start-up, restart: rules even where the job's ranks talked
operations    |         ###             |
collectives   |      ########           |
steps         |   ##################    |
              +---------------------------> the first in this order that covers an instant says whose it is;
                                            instants of the presence that none covers are unknown

Inside, all is whole nanoseconds. What is told is whole ticks of 2**-20 s: the presence is rounded once, and its ticks
are dealt to the rows by their largest remainders (Hamilton's method), so that rows add up to it exactly.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.segments import CATEGORIES, PLACE_OF, Segments
from leadline.model.accounts import TICK_S, Category, Depth
from leadline.model.units import S

# ticks of a second, as `model.accounts` has their length, so that sums of them are exact. Source: definition.
TICKS_PER_S = round(1 / TICK_S)
Spans = Sequence[tuple[int, int]]
"""Spans of cluster time, ns, begin included, end not."""


@dataclass(frozen=True, slots=True)
class Account:
    """What one owner took of a window, in ticks of `TICK_S`: one row of the ledger, before GPUs are counted."""

    category: Category
    owner: str | None
    depth: Depth
    ticks: int
    lost_ticks: int  # 0 <= lost_ticks <= ticks
    confidence: float  # mean over its time


def merged(spans: Spans, from_ns: int, to_ns: int) -> list[tuple[int, int]]:
    """Spans as disjoint ones in order of time, cut to [from, to); empty and turned ones are left out."""
    found: list[tuple[int, int]] = []
    for begin, end in sorted((max(begin, from_ns), min(end, to_ns)) for begin, end in spans):
        if begin >= end:
            continue
        if found and begin <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], end)
        else:
            found.append((begin, end))
    return found


def ticks_of(ns: int) -> int:
    """Nanoseconds in whole ticks, to the nearest, halves up."""
    return (2 * ns * TICKS_PER_S + S) // (2 * S)


def accounts(presence: Spans, layers: Sequence[Segments], missing: str) -> list[Account]:
    """One account for each category, owner and depth; what no layer tells is unknown, owner `missing`.

    presence: disjoint, in order (`merged`), together below two hours. layers: the one that rules first.
    Returns: in order of category, owner, depth. Their ticks add up to `ticks_of` of the presence, exactly.
    """
    layers = [orderly(each) for each in layers]
    edges_E = _edges(presence, layers)
    begin_P, end_P = edges_E[:-1], edges_E[1:]  # P pieces; no begin or end of any span lies inside one
    inside_P = _place(begin_P, *_arrays(presence)) >= 0
    begin_P, length_P = begin_P[inside_P], (end_P - begin_P)[inside_P]
    free_P = np.ones(len(begin_P), bool)
    taken: dict[tuple[int, str, str], _Sum] = {}
    for layer in layers:
        place_P = _place(begin_P, layer.begin_N, layer.end_N)
        mine_P = free_P & (place_P >= 0)
        free_P &= ~mine_P
        _take(taken, layer, place_P[mine_P], length_P[mine_P])
    if left_ns := int(length_P[free_P].sum()):
        taken[PLACE_OF[Category.UNKNOWN], missing, Depth.NONE] = _Sum(left_ns, 0.0, 0.0)
    return _told(taken)


def orderly(segments: Segments) -> Segments:
    """The same in order of time and disjoint, whatever was given: of two that overlap the later one is cut."""
    order_N = np.lexsort((segments.end_N, segments.begin_N))
    begin_N, end_N = segments.begin_N[order_N], segments.end_N[order_N]
    until_N = np.maximum.accumulate(end_N) if len(end_N) else end_N
    cut_N = begin_N.copy()
    cut_N[1:] = np.maximum(begin_N[1:], until_N[:-1])
    keep_N = cut_N < end_N
    if keep_N.all() and (cut_N == segments.begin_N).all():
        return segments
    order_N, begin_N, cut_N, end_N = order_N[keep_N], begin_N[keep_N], cut_N[keep_N], end_N[keep_N]
    share_N = (end_N - cut_N) / np.maximum(end_N - begin_N, 1)
    return Segments(
        segments.depth,
        cut_N,
        end_N,
        segments.category_N[order_N],
        segments.owner_N[order_N],
        segments.lost_N[order_N] * share_N,
        segments.confidence_N[order_N],
        segments.owners,
    )


def covered(segments: Segments) -> list[tuple[int, int]]:
    """Spans that segments cover without a gap."""
    if not len(segments):
        return []
    begin_N, end_N = segments.begin_N, segments.end_N
    first_G = np.flatnonzero(np.append(True, begin_N[1:] > end_N[:-1]))
    last_G = np.append(first_G[1:], len(begin_N)) - 1
    return list(zip(begin_N[first_G].tolist(), end_N[last_G].tolist(), strict=True))


@dataclass(slots=True)
class _Sum:
    ns: int
    lost_ns: float
    sure_ns: float  # confidence times ns


def _arrays(spans: Spans) -> tuple[Ints, Ints]:
    both = np.array(spans, np.int64).reshape(-1, 2)
    return both[:, 0], both[:, 1]


def _edges(presence: Spans, layers: Sequence[Segments]) -> Ints:
    begin_S, end_S = _arrays(presence)
    times = [begin_S, end_S, *(each.begin_N for each in layers), *(each.end_N for each in layers)]
    every = np.concatenate(times)
    if not len(begin_S):
        return np.zeros(0, np.int64)
    return np.unique(np.clip(every, begin_S[0], end_S[-1]))


def _place(at_P: Ints, begin_N: Ints, end_N: Ints) -> Ints:
    """Which of N disjoint spans in order of time each instant lies in, or -1."""
    if not len(begin_N):
        return np.full(len(at_P), -1, np.int64)
    place_P = np.searchsorted(begin_N, at_P, side="right") - 1
    return np.where((place_P >= 0) & (at_P < end_N[place_P]), place_P, -1)


def _take(taken: dict[tuple[int, str, str], _Sum], layer: Segments, place_M: Ints, length_M: Ints) -> None:
    """Add the pieces that a layer has won, M of them, to the sums of their category and owner."""
    if not len(place_M):
        return
    whole_M = layer.end_N[place_M] - layer.begin_N[place_M]
    lost_N = np.clip(np.nan_to_num(layer.lost_N), 0, layer.end_N - layer.begin_N)
    lost_M = lost_N[place_M] * (length_M / whole_M)
    sure_M: Floats = np.clip(np.nan_to_num(layer.confidence_N), 0, 1)[place_M] * length_M
    owner_M = np.clip(layer.owner_N[place_M], -1, len(layer.owners) - 1)
    keys_G2, group_M = np.unique(np.column_stack([layer.category_N[place_M], owner_M]), axis=0, return_inverse=True)
    group_M = group_M.ravel()
    ns_G = np.zeros(len(keys_G2), np.int64)
    np.add.at(ns_G, group_M, length_M)
    lost_G, sure_G = (np.bincount(group_M, each, len(keys_G2)) for each in (lost_M, sure_M))
    for (category, owner), ns, lost, sure in zip(
        keys_G2.tolist(), ns_G.tolist(), lost_G.tolist(), sure_G.tolist(), strict=True
    ):
        key = category, layer.owners[owner] if owner >= 0 else "", str(layer.depth)
        sum_ = taken.setdefault(key, _Sum(0, 0.0, 0.0))
        sum_.ns, sum_.lost_ns, sum_.sure_ns = sum_.ns + ns, sum_.lost_ns + lost, sum_.sure_ns + sure


def _told(taken: dict[tuple[int, str, str], _Sum]) -> list[Account]:
    keys = sorted(taken)
    dealt = dealt_ticks([taken[key].ns for key in keys])
    found = []
    for (category, owner, depth), ticks in zip(keys, dealt, strict=True):
        sum_ = taken[category, owner, depth]
        if ticks:
            lost = min(ticks, ticks_of(round(sum_.lost_ns)))
            sure = min(1.0, max(0.0, sum_.sure_ns / sum_.ns))
            found.append(Account(CATEGORIES[category], owner or None, Depth(depth), ticks, lost, sure))
    return found


def dealt_ticks(ns: Sequence[int]) -> list[int]:
    """Lengths in whole ticks that add up to the ticks of their sum: each gets its floor, the largest remainders more.

    Of equal remainders the first gets it. Error of each: below one tick. Source: Hamilton's method of apportionment.
    """
    floors = [each * TICKS_PER_S // S for each in ns]
    left = ticks_of(sum(ns)) - sum(floors)
    by_remainder = sorted(range(len(ns)), key=lambda place: (-(ns[place] * TICKS_PER_S % S), place))
    for place in by_remainder[: max(left, 0)]:
        floors[place] += 1
    return floors
