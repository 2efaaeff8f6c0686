"""How odd each stream is in each bin of time: beside its own past, and beside its peers.

samples ──rates──> x ──bins──> grid (K streams, B bins; bin 0 is the newest)
    others = median of the others of the peer group          d = grid - others
    past     (y - median of y's past) / scale of y's past     y = d of loads that have peers, else the grid itself
    peers     d / scale of d in the whole group
    both      ──tail of the group's own deviations──> score, as many standard deviations of a normal distribution
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.anomaly.grid_kernels import (
    binned,
    of_others,
    pasts,
    pooled,
    rates,
    tails,
)
from leadline.analysis.anomaly.kinds import Kind, Way
from leadline.analysis.anomaly.streams import Streams
from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.robust import MAD_TO_SIGMA
from leadline.analysis.spec import S

WIDTHS_S = (5, 10, 15, 30, 60)  # of bins: the smallest that is not shorter than the usual time between samples
BIN_S_USUAL = 10  # of a group of which no stream has two samples
HOLD = 1  # bins that a value is held
GUARD = 4  # the newest bins, which are judged, do not count as past
PAST_MIN = 4  # bins of past before it can be a witness
PAST_ALONE = 20  # of a load without peers, which may do what it likes
OTHERS_MIN = 2  # three ranks, hosts or switches: the odd one can be told, though it takes much
OTHERS_OF_LOAD = 7  # loads differ between peers for good reasons; what the usual difference is takes some peers to know
TAIL_SHARE = 0.05
GAUSS_Q, GAUSS_BEYOND = 1.96, 0.38  # two-sided 5 % quantile of a normal distribution; mean excess beyond it
POOL_SMALL = 20.0  # values in a tail whose excess is taken for twice as large: few values do not show their tail
CANDIDATE_Z = 6.0
CANDIDATES_SHARE = 0.25  # more of a group than this are no exceptions: they are how the group is
COUNTED_NONE = {Way.COUNT: 4.0, Way.RARE: 1 / 144}
"""Variance of a count that has always been 0: one standard deviation is two pieces of what happens now and then, and
a twelfth of a piece of what should never happen."""
STATE_RATIO = 0.02  # states are exact: one of sixteen lanes less is no noise
PAST, PEERS = 0, 1
WITNESSES = ("past", "peers")


@dataclass(frozen=True, slots=True)
class Tier:
    """K streams whose samples come about equally often, those of one group together."""

    row_K: Ints  # into the streams
    begin_G: Ints  # of G groups
    width_ns: int
    grid_KB: Floats
    others_KB: Floats  # what the others of the group do, NaN where there are too few
    expected_WKB: Floats  # by witness: what was expected of the grid
    score_WKB: Floats  # by witness, with sign; 0 where nothing can be said
    lesser_KB: Floats  # the one that is nearer to 0 of those that say something, 0 if they differ in sign; NaN: none
    y_KB: Floats  # as it is judged beside its past
    peers_KB: Floats  # score beside the peers, NaN where there is none
    floor_K: Floats  # the smallest deviation that counts as one at the level of these bins
    side_K: Floats


@dataclass(frozen=True, slots=True)
class Scored:
    """All tiers, and what the samples say (see `rates`)."""

    tiers: list[Tier]
    x_N: Floats
    since_N: Ints


def scored(streams: Streams, group_R: Ints, since_R: Ints, known: Mask | None, to_ns: int, look_back_ns: int) -> Scored:
    """How odd each stream is.

    since_R: from when on its samples count; samples before it are as if there were none, but for what should never
    happen. known: spans that do not
    count as past, because they are known to have been odd.
    """
    samples = streams.samples
    value_N = _of_bits(streams)
    x_N, since_N = rates(samples.begin_R, samples.time_N, value_N, streams.counter_R, look_back_ns)
    if len(since_R) and int(since_R.max()) > to_ns - look_back_ns:
        since_R = np.where(_each(streams, lambda kind: kind.way >= Way.RARE) > 0, -(2**62), since_R)
        x_N[since_N < np.repeat(since_R, np.diff(samples.begin_R))] = np.nan
    width_R = _widths(streams, group_R)
    tiers = []
    for width_s in WIDTHS_S:
        row_K = np.flatnonzero(width_R == width_s)
        if len(row_K):
            row_K = row_K[np.argsort(group_R[row_K], kind="stable")]
            bins = max(look_back_ns // (width_s * S), GUARD + 1)
            grid_KB = binned(row_K, samples.begin_R, samples.time_N, since_N, x_N, streams.counter_R,
                             width_s * S, to_ns, bins, HOLD)  # fmt: skip
            tiers.append(tier_of(streams, group_R, row_K, grid_KB, width_s * S, known, to_ns))
    return Scored(tiers, x_N, since_N)


@dataclass(frozen=True, slots=True)
class Mask:
    """Spans of streams, ns."""

    row_M: Ints
    from_M: Ints
    until_M: Ints


def _of_bits(streams: Streams) -> Floats:
    """Values; of sets of bits only the bits that count."""
    value_N = streams.samples.value_N
    bits_R = _each(streams, lambda kind: kind.bits)
    if not bits_R.any():
        return value_N
    bits_N = np.repeat(bits_R, np.diff(streams.samples.begin_R)).astype(np.int64)
    some = np.flatnonzero((bits_N > 0) & (np.abs(value_N) < 2**62))
    out_N = value_N.copy()
    out_N[some] = (value_N[some].astype(np.int64) & bits_N[some]).astype(np.float64)
    return out_N


def _each(streams: Streams, of: object) -> NDArray[np.float64]:
    values_M = np.array([*(of(kind) for kind in streams.kinds), 0.0], np.float64)  # type: ignore[operator]
    return values_M[streams.metric_R]


def _widths(streams: Streams, group_R: Ints) -> Ints:
    """Width of the bins of each stream, s: of its group's usual time between samples."""
    begin_R, time_N = streams.samples.begin_R, streams.samples.time_N
    count_R = np.diff(begin_R)
    apart_R = np.full(len(count_R), np.nan)
    many = np.flatnonzero(count_R > 1)
    apart_R[many] = (time_N[begin_R[many + 1] - 1] - time_N[begin_R[many]]) / (count_R[many] - 1)
    groups = int(group_R.max(initial=-1)) + 1
    order = np.lexsort((apart_R, group_R))  # NaN come last in their group
    there_G = np.bincount(group_R[many], minlength=groups)
    begin_G = np.searchsorted(group_R[order], np.arange(groups))
    median_G = np.full(groups, float(BIN_S_USUAL * S))
    full = np.flatnonzero(there_G > 0)
    median_G[full] = apart_R[order[begin_G[full] + (there_G[full] - 1) // 2]]
    # A scrape every 5 s that comes some ms late still fits bins of 5 s: that is what holding is for.
    place_G = np.searchsorted(np.array(WIDTHS_S) * S * 1.1, median_G)
    return np.array(WIDTHS_S, np.int64)[np.minimum(place_G, len(WIDTHS_S) - 1)][group_R]


def tier_of(
    streams: Streams, group_R: Ints, row_K: Ints, grid_KB: Floats, width_ns: int, known: Mask | None, to_ns: int
) -> Tier:
    """How odd K streams are in each of their bins; those of one group follow each other. Of the streams only their
    kinds are asked for here."""
    group_K = group_R[row_K]
    begin_G = np.append(np.flatnonzero(np.diff(group_K, prepend=-1)), len(group_K)).astype(np.int64)
    size_K = np.repeat(np.diff(begin_G), np.diff(begin_G))
    others_KB = of_others(begin_G, grid_KB, OTHERS_MIN)
    kinds = _Kinds.of(streams, row_K)
    apart_KB = grid_KB - others_KB
    peered_K = ((kinds.way_K == Way.LOAD) | (kinds.way_K == Way.COUNT)) & ~np.isnan(others_KB).all(axis=1)
    y_KB = np.where(peered_K[:, None], apart_KB, grid_KB)
    least_K = np.where(
        kinds.way_K >= Way.RARE, 2, np.where((kinds.way_K == Way.LOAD) & ~peered_K, PAST_ALONE, PAST_MIN)
    )
    past_KB = y_KB if known is None else _masked(y_KB, row_K, known, width_ns, to_ns, len(streams))
    level_K, scale_K, count_K = pasts(past_KB, GUARD)
    short_K = (count_K < least_K) & ~np.isnan(kinds.healthy_K)
    level_K[short_K], scale_K[short_K], count_K[short_K] = kinds.healthy_K[short_K], 0.0, PAST_MIN
    expected_past_KB = np.where(peered_K[:, None], others_KB + level_K[:, None], level_K[:, None])
    expected_past_KB = _nearest(grid_KB, expected_past_KB, _in_step(past_KB, grid_KB, others_KB, peered_K))
    scale_K = np.maximum(scale_K, 0.7 * _of_group(begin_G, scale_K))
    scale_K = scale_K * np.where(kinds.way_K >= Way.RARE, 1.5, 1.0 + 10.0 / np.maximum(count_K, 1))
    z_past_KB = kinds.deviations(grid_KB, expected_past_KB, scale_K, begin_G, width_ns)
    z_past_KB[count_K < least_K] = np.nan
    spread_K = np.repeat(pooled(begin_G, apart_KB), np.diff(begin_G)) * (1.0 + 4.0 / np.maximum(size_K - 1, 1))
    z_peers_KB = kinds.deviations(grid_KB, others_KB, spread_K, begin_G, width_ns)
    alike_K = kinds.alike_K | (kinds.way_K != Way.LOAD)
    z_peers_KB[~alike_K & (size_K - 1 < OTHERS_OF_LOAD)] = np.nan
    score_WKB = np.stack([_calibrated(each, begin_G) for each in (z_past_KB, z_peers_KB)])
    expected_WKB = np.stack([expected_past_KB, others_KB])
    lesser_KB = lesser(z_past_KB, z_peers_KB, score_WKB[PAST], score_WKB[PEERS])
    peers_KB = np.where(np.isnan(z_peers_KB), np.nan, score_WKB[PEERS])
    floor_K = kinds.floors(grid_KB, begin_G, width_ns)
    return Tier(row_K, begin_G, width_ns, grid_KB, others_KB, expected_WKB, score_WKB, lesser_KB, y_KB, peers_KB,
                floor_K, kinds.side_K)  # fmt: skip


def _in_step(past_KB: Floats, grid_KB: Floats, others_KB: Floats, peered_K: Bools) -> Floats:
    """What loads would be if they were the same multiple of the others' as before: when a job stops, all of it does."""
    out_KB = np.full(grid_KB.shape, np.nan)
    some = np.flatnonzero(peered_K)
    gone_KB = np.isnan(past_KB[some])
    own_K, _, _ = pasts(np.where(gone_KB, np.nan, grid_KB[some]), GUARD)
    theirs_K, _, _ = pasts(np.where(gone_KB, np.nan, others_KB[some]), GUARD)
    times_K = np.where((own_K > 0) & (theirs_K > 0), own_K / np.where(theirs_K > 0, theirs_K, 1.0), np.nan)
    out_KB[some] = others_KB[some] * times_K[:, None]
    return out_KB


def _nearest(value_KB: Floats, one_KB: Floats, other_KB: Floats) -> Floats:
    """Of two expectations the one that is nearer to the value; the first where the second is not known."""
    with np.errstate(invalid="ignore", over="ignore"):
        return np.where(np.abs(value_KB - other_KB) < np.abs(value_KB - one_KB), other_KB, one_KB)


def _masked(y_KB: Floats, row_K: Ints, known: Mask, width_ns: int, to_ns: int, rows: int) -> Floats:
    """The grid without what is known to have been odd."""
    place_R = np.full(rows, -1, np.int64)
    place_R[row_K] = np.arange(len(row_K))
    out_KB = y_KB.copy()
    for row, from_ns, until_ns in zip(known.row_M.tolist(), known.from_M.tolist(), known.until_M.tolist(), strict=True):
        first, last = (to_ns - 1 - until_ns) // width_ns, (to_ns - 1 - from_ns) // width_ns
        if place_R[row] >= 0 and last >= 0:
            out_KB[place_R[row], max(first, 0) : last + 1] = np.nan
    return out_KB


def _of_group(begin_G: Ints, value_K: Floats) -> Floats:
    """The median of each group, told to each of its rows; 0 of nothing."""
    found = pooled(begin_G, value_K[:, None]) / MAD_TO_SIGMA
    return np.nan_to_num(np.repeat(found, np.diff(begin_G)))


@dataclass(frozen=True, slots=True)
class _Kinds:
    """What `Kind` says, as columns."""

    way_K: Ints
    side_K: Floats
    floor_K: Floats
    ratio_K: Floats
    healthy_K: Floats  # NaN: not known
    alike_K: Bools
    counter_K: Bools

    @classmethod
    def of(cls, streams: Streams, row_K: Ints) -> _Kinds:
        def column(of: object) -> Floats:
            return _each(streams, of)[row_K]

        def floor(kind: Kind) -> float:
            return kind.floor

        return cls(
            column(lambda kind: kind.way).astype(np.int64), column(lambda kind: kind.side), column(floor),
            column(lambda kind: kind.floor_ratio),
            column(lambda kind: np.nan if kind.healthy is None else kind.healthy),
            column(lambda kind: kind.alike) > 0, streams.counter_R[row_K],
        )  # fmt: skip

    def deviations(self, grid_KB: Floats, expected_KB: Floats, scale_K: Floats, begin_G: Ints, width_ns: int) -> Floats:
        """How many standard deviations the values are off, with what their kinds say of one."""
        units = self._units(grid_KB, begin_G, width_ns)
        return deviations(grid_KB, expected_KB, scale_K, *units, self.side_K)

    def floors(self, grid_KB: Floats, begin_G: Ints, width_ns: int) -> Floats:
        """The smallest standard deviation of each at the usual level of its bins: what the kernel takes at least."""
        floor_K, ratio_K, none_K, seconds_K = self._units(grid_KB, begin_G, width_ns)
        size_K = np.nan_to_num(np.abs(pasts(grid_KB, 0)[0]))
        counted_K = np.where(none_K > 0, np.sqrt(size_K * seconds_K + none_K) / seconds_K, 0.0)
        floors_K: Floats = np.maximum.reduce([floor_K, ratio_K * size_K, counted_K, np.full(len(floor_K), 1e-12)])
        return floors_K

    def _units(self, grid_KB: Floats, begin_G: Ints, width_ns: int) -> tuple[Floats, Floats, Floats, Floats]:
        """Floor, ratio, variance of none, seconds. Where nothing is known of a unit, the floor is a tenth of the
        largest in the group."""
        floor_K, ratio_K = self.floor_K.copy(), self.ratio_K.copy()
        untold_K = (floor_K == 0) & (self.way_K <= Way.HARM)
        if untold_K.any():
            largest_K = np.nanmax(np.where(np.isnan(grid_KB), 0.0, np.abs(grid_KB)), axis=1, initial=0.0)
            largest_K = np.repeat(np.maximum.reduceat(largest_K, begin_G[:-1]), np.diff(begin_G))
            floor_K[untold_K] = 0.1 * largest_K[untold_K]
        state_K = self.way_K == Way.STATE
        floor_K[state_K] = ratio_K[state_K] = STATE_RATIO
        none_K = np.zeros(len(floor_K))
        for way, none in COUNTED_NONE.items():
            none_K[self.way_K == way] = none
        return floor_K, ratio_K, none_K, np.where(self.counter_K, width_ns / S, 1.0)


def _calibrated(z_KB: Floats, begin_G: Ints) -> Floats:
    """Deviations as standard deviations of a normal distribution, by the tail of their group's own past.

    Beyond its 95 % quantile q the tail of |z| is taken for exponential with the mean excess that it has, or that of a
    normal distribution if that is more (peaks over threshold, shape 0). Streams that are out now are left out of
    the tail, as long as they are few. Source: Siffer et al., "Anomaly Detection in Streams with Extreme Value Theory"
    (KDD'17), section 3; theirs has a shape as well, which 50 to 1,000 values do not tell.
    """
    size_G = np.diff(begin_G)
    size_KB = np.nan_to_num(np.abs(z_KB))
    candidate_K = size_KB[:, :GUARD].max(axis=1, initial=0.0) >= CANDIDATE_Z
    count_G = np.add.reduceat(candidate_K.astype(np.int64), begin_G[:-1]) if len(size_G) else size_G
    few_G = (count_G <= np.maximum(1, CANDIDATES_SHARE * size_G)) & (size_G > OTHERS_MIN)
    q_G, beyond_G, pool_G = tails(begin_G, z_KB, candidate_K & np.repeat(few_G, size_G), GUARD, TAIL_SHARE)
    q_K = np.repeat(np.maximum(q_G, GAUSS_Q), size_G)
    beyond_G = np.maximum(beyond_G, GAUSS_BEYOND) * (1.0 + POOL_SMALL / np.maximum(pool_G, POOL_SMALL / 2))
    q_KB = np.broadcast_to(q_K[:, None], size_KB.shape)
    score_KB = size_KB * (GAUSS_Q / q_KB)
    beyond_KB = np.broadcast_to(np.repeat(beyond_G, size_G)[:, None], size_KB.shape)
    far = size_KB > q_KB  # few: what is within the quantile needs no tail
    score_KB[far] = normal_of((size_KB[far] - q_KB[far]) / beyond_KB[far] - np.log(TAIL_SHARE))
    return np.copysign(score_KB, np.nan_to_num(z_KB))


def normal_of(surprise: Floats) -> Floats:
    """The two-sided standard deviation z of a normal distribution with P(|Z| > z) = exp(-surprise).

    Accuracy: 5e-4 for surprises from 0.7 up. Source: Abramowitz, Stegun: Handbook of Mathematical Functions, 26.2.23.
    """
    t = np.sqrt(2.0 * (np.maximum(surprise, 0.7) + np.log(2.0)))
    top, bottom = 2.515517 + t * (0.802853 + t * 0.010328), 1.0 + t * (1.432788 + t * (0.189269 + t * 0.001308))
    found: Floats = t - top / bottom
    return found


def deviations(
    value_KB: Floats, expected_KB: Floats, scale_K: Floats, floor_K: Floats, ratio_K: Floats, none_K: Floats,
    seconds_K: Floats, side_K: Floats,
) -> Floats:  # fmt: skip
    """How many standard deviations each value is from what is expected, (K, B); NaN where one of them is not known.

    One standard deviation is `scale`, or more: `floor`, `ratio` of what is expected, and where things are counted
    (`none` is not 0) the Poisson deviation of what is expected in a bin of `seconds`, with the variance `none` where
    that is 0. Deviations to the side that is not odd are 0.
    """
    least_K = np.fmax(np.maximum(floor_K, 1e-12), scale_K)  # of a scale that is not known only the floor counts
    size_KB = np.abs(expected_KB)
    one_KB = np.maximum(least_K[:, None], ratio_K[:, None] * size_KB)
    counts_J = np.flatnonzero(none_K > 0.0)
    if len(counts_J):
        seconds_J1, none_J1 = seconds_K[counts_J, None], none_K[counts_J, None]
        counted_JB = np.sqrt(size_KB[counts_J] * seconds_J1 + none_J1) / seconds_J1
        one_KB[counts_J] = np.maximum(one_KB[counts_J], counted_JB)
    with np.errstate(invalid="ignore", over="ignore"):  # infinities are values, too
        z_KB = (value_KB - expected_KB) / one_KB
    z_KB[z_KB * side_K[:, None] < 0.0] = 0.0
    return np.clip(z_KB, -1e9, 1e9)


def lesser(z_past_KB: Floats, z_peers_KB: Floats, past_KB: Floats, peers_KB: Floats) -> Floats:
    """Of two scores the one nearer to 0, 0 if one is high and one low; where one of the deviations `z` that they are
    made of is not known (NaN) the other; NaN where neither is. (K, B) all."""
    both_KB = np.where(np.abs(past_KB) < np.abs(peers_KB), past_KB, peers_KB)
    both_KB[past_KB * peers_KB <= 0.0] = 0.0
    alone_KB = np.where(np.isnan(z_past_KB), np.nan, past_KB)
    found_KB = np.where(np.isnan(z_past_KB), peers_KB, both_KB)
    return np.where(np.isnan(z_peers_KB), alone_KB, found_KB)
