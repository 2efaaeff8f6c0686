"""What is kept of each host's clock: means of its offset over blocks of time, in a ring, so that nobody looks back.

    clock_fit of a window --fed--> History: (hosts, blocks) sums --series--> offsets by block, gaps filled, steps cut

A block holds sums only, so rows may come in any order and a window late; who feeds a row twice counts it twice.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.robust import MAD_TO_SIGMA
from leadline.model.units import S

BLOCK_NS = 2 * S  # as long as the span over which a clock is fitted: blocks then hardly share their noise
BLOCKS = 150  # 300 s. 1,000 hosts: 1,000 * 150 * 3 * 8 bytes = 3.6 MB; a pod of 5,000: 18 MB
GAP_MAX = 2  # blocks in a row that are filled by a straight line: wander adds less to them than noise does
STEP_TIMES = 12.0  # spreads of second differences beyond which a clock did not wander, but stepped or was steered
STEP_LEAST_NS = 100.0


@dataclass(frozen=True, slots=True)
class History:
    """Offsets of hosts, as sums by block. Arrays over H (hosts), B (blocks, oldest first)."""

    hosts: tuple[str, ...] = ()
    first: int = 0  # number of the oldest block, since the epoch
    block_ns: int = BLOCK_NS
    base_H: Ints | None = None  # the first offset of each host, ns: taken off, so that float64 holds the rest
    island_H: Ints | None = None  # hosts of one island share a time
    sum_HB: Floats | None = None  # of offsets less the base, ns
    since_HB: Floats | None = None  # of times since the middle of the block, s
    count_HB: Floats | None = None

    @property
    def arrays(self) -> tuple[Ints, Ints, Floats, Floats, Floats]:
        """Base, islands, sums, times, counts: empty ones where nothing was fed yet."""
        if self.base_H is None or self.island_H is None or self.sum_HB is None or self.since_HB is None:
            none = np.zeros((0, BLOCKS))
            return np.zeros(0, np.int64), np.zeros(0, np.int64), none, none.copy(), none.copy()
        assert self.count_HB is not None
        return self.base_H, self.island_H, self.sum_HB, self.since_HB, self.count_HB


@dataclass(frozen=True, slots=True)
class Series:
    """Offsets by block, ready to be compared. Arrays over H, B."""

    hosts: tuple[str, ...]
    island_H: Ints
    offset_HB: Floats  # ns, less the host's first; NaN before `begin_H`
    begin_H: Ints  # first block since which there is no step and no gap
    first: int  # number of the oldest block
    block_ns: int

    @property
    def length_H(self) -> Ints:
        """Blocks that can be compared."""
        found: Ints = self.offset_HB.shape[1] - self.begin_H
        return found


def fed(
    history: History, hosts: Sequence[str], host_N: Ints, time_N: Ints, offset_N: Ints, island_N: Ints | None = None
) -> History:
    """The history with more offsets.

    Inputs, over N rows of `clock_fit` (those `carried` or `lost` left out: a prediction is no witness): place of the
    host in `hosts`, cluster time (ns), host's time less cluster time (ns), the island (none: all are of one). Rows
    older than the ring are left out. A host whose island changes begins anew. Hosts of which the ring holds nothing
    are forgotten.
    """
    if not len(host_N):
        return history
    old_hosts, (base, island, sums, since, count) = history.hosts, history.arrays
    names = sorted({*old_hosts, *(hosts[each] for each in np.unique(host_N).tolist())})
    place = {name: number for number, name in enumerate(names)}
    block_N = time_N // history.block_ns
    last = max(int(block_N.max()), history.first + BLOCKS - 1 if old_hosts else int(block_N.max()))
    first = last - BLOCKS + 1
    at = np.array([place[name] for name in old_hosts], np.int64)
    shift = min(first - history.first, BLOCKS) if old_hosts else 0

    def moved(values: Floats) -> Floats:
        out = np.zeros((len(names), BLOCKS))
        out[at, : BLOCKS - shift] = values[:, shift:]
        return out

    sum_HB, since_HB, count_HB = moved(sums), moved(since), moved(count)
    base_H, island_H = np.zeros(len(names), np.int64), np.full(len(names), -1, np.int64)
    base_H[at], island_H[at] = base, island
    row_N = np.array([place.get(name, -1) for name in hosts], np.int64)[host_N]
    inside = np.flatnonzero(block_N >= first)
    row, block = row_N[inside], block_N[inside] - first
    offset, time = offset_N[inside], time_N[inside]
    newest = np.full(len(names), -1, np.int64)
    order = np.argsort(time, kind="stable")
    newest[row[order]] = order
    told = np.flatnonzero(newest >= 0)
    new = told[~np.isin(told, at)]
    base_H[new] = offset[newest[new]]
    isle = np.zeros(len(row), np.int64) if island_N is None else island_N[inside]
    other = told[(island_H[told] >= 0) & (island_H[told] != isle[newest[told]])]
    for values in (sum_HB, since_HB, count_HB):
        values[other] = 0
    island_H[told] = isle[newest[told]]
    same = isle == island_H[row]
    row, block, offset, time = row[same], block[same], offset[same], time[same]
    middle = (block + first) * history.block_ns + history.block_ns // 2
    np.add.at(sum_HB, (row, block), (offset - base_H[row]).astype(np.float64))
    np.add.at(since_HB, (row, block), (time - middle) / S)
    np.add.at(count_HB, (row, block), 1)
    kept: Bools = np.asarray((count_HB > 0).any(axis=1), bool)
    return replace(
        history,
        hosts=tuple(name for name, keep in zip(names, kept.tolist(), strict=True) if keep),
        first=first,
        base_H=base_H[kept],
        island_H=island_H[kept],
        sum_HB=sum_HB[kept],
        since_HB=since_HB[kept],
        count_HB=count_HB[kept],
    )


def series(history: History) -> Series:
    """Offsets by block up to the newest whole one: a block counts with half of the rows that blocks mostly have.

    The mean of a block that misses rows lies beside its middle; the host's own rate brings it there.
    """
    _, island_H, sum_HB, since_HB, count_HB = history.arrays
    if not len(history.hosts):
        return Series((), island_H, np.zeros((0, 0)), np.zeros(0, np.int64), history.first, history.block_ns)
    usual = float(np.median(count_HB[count_HB > 0]))
    there_HB = count_HB >= max(1.0, usual / 2)
    share_B = there_HB.mean(axis=0)
    # Half of those that are there at all; or as many as ever are, where they came one after the other.
    last = int(np.flatnonzero(share_B >= min(0.5 * there_HB.any(axis=1).mean(), share_B.max()))[-1]) + 1
    there_HB, count = there_HB[:, :last], np.maximum(count_HB[:, :last], 1)
    mean_HB = np.where(there_HB, sum_HB[:, :last] / count, np.nan)
    since_HB = since_HB[:, :last] / count
    rate_H = _middle(np.diff(mean_HB, axis=1), axis=1) / (history.block_ns / S)  # ns/s
    offset_HB = _filled(mean_HB - np.nan_to_num(rate_H)[:, None] * since_HB)
    gap_H = _after(np.isnan(offset_HB))
    begin_H = np.maximum(gap_H, _stepped(offset_HB))
    offset_HB = np.where(np.arange(last)[None, :] >= begin_H[:, None], offset_HB, np.nan)
    return Series(history.hosts, island_H, offset_HB, begin_H, history.first, history.block_ns)


def _filled(offset_HB: Floats) -> Floats:
    """Gaps of at most `GAP_MAX` blocks with values on both sides, filled by straight lines."""
    blocks = offset_HB.shape[1]
    lacks = np.isnan(offset_HB)
    rows = np.flatnonzero(lacks.any(axis=1) & ~lacks.all(axis=1))
    at = np.arange(blocks)
    out = offset_HB.copy()
    for row in rows.tolist():
        known = np.flatnonzero(~lacks[row])
        before, after = np.searchsorted(known, at) - 1, np.searchsorted(known, at)
        within = lacks[row] & (before >= 0) & (after < len(known))
        gap = known[np.minimum(after, len(known) - 1)] - known[np.maximum(before, 0)] - 1
        fill = within & (gap <= GAP_MAX)
        out[row, fill] = np.interp(at[fill], known, offset_HB[row, known])
    return out


def _stepped(offset_HB: Floats) -> Ints:
    """The first block after the last step of each clock, or change of its rate by somebody's hand, (H,).

    What all clocks do at once is cluster time that was anchored anew, and cancels between any two.
    """
    hosts, blocks = offset_HB.shape
    if blocks < 4:
        return np.zeros(hosts, np.int64)
    bend_HB = np.diff(offset_HB, 2, axis=1)
    bend_HB = bend_HB - np.nan_to_num(_middle(bend_HB, axis=0))[None, :]
    usual_H = MAD_TO_SIGMA * _middle(np.abs(bend_HB), axis=1)
    usual_H = np.maximum(np.maximum(usual_H, np.nan_to_num(_middle(usual_H, axis=0))), STEP_LEAST_NS / STEP_TIMES)
    is_step_HB = np.abs(bend_HB) > STEP_TIMES * usual_H[:, None]
    begin_H = _after(is_step_HB)
    found: Ints = np.where(begin_H > 0, begin_H + 1, 0)  # bend b is made of blocks b to b + 2
    return found


def _after(is_so_HB: Bools) -> Ints:
    """One more than the last place at which it is so, 0 if it never is, (H,)."""
    places = np.arange(1, is_so_HB.shape[1] + 1)
    found: Ints = np.where(is_so_HB, places[None, :], 0).max(axis=1, initial=0)
    return found


def _middle(values: Floats, axis: int) -> Floats:
    """Median without NaN; NaN where there is nothing else."""
    ordered = np.sort(values, axis=axis)  # NaN last
    count = (~np.isnan(values)).sum(axis=axis)
    low, high = np.maximum(count - 1, 0) // 2, np.maximum(count, 1) // 2
    ends = [np.take_along_axis(ordered, np.expand_dims(each, axis), axis).squeeze(axis) for each in (low, high)]
    found: Floats = (ends[0] + ends[1]) / 2
    return found
