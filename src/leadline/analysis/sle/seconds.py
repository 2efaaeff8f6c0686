"""Values by second, from samples: what covers a second, what is held, what is silent; medians of pasts and of peers.

sample i of a stream     since_N[i] ──covers──> time_N[i] ──held for `hold`──> then silent
columns                  ends_C, the ends of seconds; a column has the sample that covers it, or else the held one
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.model.units import S

NS_MIN = -(2**62)  # no time of ours is so early; so that differences of times do not overflow


@dataclass(frozen=True, slots=True)
class Samples:
    """Samples of R rows, in order of row and time. N samples; those of row r are begin_R[r] to begin_R[r + 1]."""

    begin_R: Ints  # R + 1
    time_N: Ints
    since_N: Ints  # a sample says what was from here to its time; equal to it: at its time only
    value_N: Floats  # NaN: told to be none

    def __len__(self) -> int:
        return len(self.begin_R) - 1

    @property
    def row_N(self) -> Ints:
        """Row of each sample."""
        return np.repeat(np.arange(len(self)), np.diff(self.begin_R))

    def of(self, rows_K: Ints) -> Samples:
        """The samples of some rows, these rows numbered anew."""
        count_K = np.diff(self.begin_R)[rows_K]
        begin_K = np.concatenate([np.zeros(1, np.int64), np.cumsum(count_K)])
        take_N = np.arange(begin_K[-1]) + np.repeat(self.begin_R[rows_K] - begin_K[:-1], count_K)
        return Samples(begin_K, self.time_N[take_N], self.since_N[take_N], self.value_N[take_N])


def in_order(row_N: Ints, rows: int, time_N: Ints, since_N: Ints, value_N: Floats) -> Samples:
    """Samples in order; of several of one row and time the one with the largest value counts."""
    order_N = np.lexsort((value_N, time_N, row_N))
    row_N, time_N = row_N[order_N], time_N[order_N]
    last_N = np.ones(len(row_N), bool)
    last_N[:-1] = (row_N[1:] != row_N[:-1]) | (time_N[1:] != time_N[:-1])
    kept_N = order_N[last_N]
    begin_R = np.searchsorted(row_N[last_N], np.arange(rows + 1)).astype(np.int64)
    return Samples(begin_R, time_N[last_N], since_N[kept_N], value_N[kept_N])


def ends_of(to_ns: int, columns: int, step_ns: int = S) -> Ints:
    """Ends of that many seconds (or steps), the last at `to_ns`."""
    return to_ns - step_ns * np.arange(columns - 1, -1, -1, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Latest:
    """Which sample is the last at or before the end of each column; -1 where the row has none yet."""

    last_RC: NDArray[np.int32]
    ends_C: Ints

    def age_s(self, samples: Samples) -> Floats:
        """Seconds since the last sample, (R, C); NaN before the first."""
        if not len(samples.time_N):
            return np.full(self.last_RC.shape, np.nan)
        age_RC: Floats = (self.ends_C - samples.time_N[self.last_RC]) / S
        age_RC[self.last_RC < 0] = np.nan
        return age_RC


def latest(samples: Samples, ends_C: Ints) -> Latest:
    """Where each column stands among the samples of each row. `ends_C` is evenly spaced."""
    rows, columns = len(samples), len(ends_C)
    last_RC = np.full((rows, columns), -1, np.int32)
    step_ns = int(ends_C[1] - ends_C[0]) if columns > 1 else S
    column_N = np.maximum(-((ends_C[0] - samples.time_N) // step_ns), 0)
    row_N = samples.row_N
    inside = np.flatnonzero(column_N < columns)
    last_RC[row_N[inside], column_N[inside]] = inside  # in order of time: the last that falls there stays
    np.maximum.accumulate(last_RC, axis=1, out=last_RC)
    return Latest(last_RC, ends_C)


def values(samples: Samples, at: Latest, hold_R: Ints) -> Floats:
    """The value of each row in each column, (R, C); NaN where nothing is known.

    A sample that covers the column's end counts before one that is held from earlier. `hold_R`: ns that one is held.
    """
    count = len(samples.time_N)
    if not count:
        return np.full(at.last_RC.shape, np.nan)
    last_RC = at.last_RC
    held_RC = (last_RC >= 0) & (at.ends_C - samples.time_N[last_RC] <= hold_R[:, None])
    found_RC = np.where(held_RC, samples.value_N[last_RC], np.nan)
    next_RC = np.where(last_RC < 0, samples.begin_R[:-1, None], last_RC + 1)
    there_RC = next_RC < samples.begin_R[1:, None]
    next_RC = np.minimum(next_RC, count - 1)
    covers_RC = there_RC & (samples.since_N[next_RC] < at.ends_C)
    return np.where(covers_RC, samples.value_N[next_RC], found_RC)


def begun(samples: Samples, ends_C: Ints) -> Bools:
    """Columns that end after a row's first sample began to say something, (R, C)."""
    first_R = np.full(len(samples), 2**62, np.int64)
    full_R = np.diff(samples.begin_R) > 0
    first_R[full_R] = samples.since_N[samples.begin_R[:-1][full_R]]
    return ends_C[None, :] >= first_R[:, None]


def usual_interval_ns(samples: Samples) -> Ints:
    """Median time between samples of each row; 0 where there are fewer than three."""
    gap_N = np.diff(samples.time_N, prepend=np.int64(0))
    row_N = samples.row_N
    inner_N = np.ones(len(row_N), bool)
    inner_N[samples.begin_R[:-1][np.diff(samples.begin_R) > 0]] = False
    gap_N, row_N = gap_N[inner_N], row_N[inner_N]
    order_N = np.lexsort((gap_N, row_N))
    count_R = np.bincount(row_N, minlength=len(samples))
    begin_R = np.concatenate([np.zeros(1, np.int64), np.cumsum(count_R)])[:-1]
    found_R = np.zeros(len(samples), np.int64)
    enough_R = count_R >= 2
    found_R[enough_R] = gap_N[order_N[(begin_R + count_R // 2)[enough_R]]]
    return found_R


def medians(values_KC: Floats) -> tuple[Floats, Floats, Ints]:
    """Median, median absolute deviation from it, and number of values of each column of (K, C); NaN is no value."""
    count_C = np.sum(~np.isnan(values_KC), axis=0)
    middle_C = _middle(values_KC, count_C)
    with np.errstate(invalid="ignore"):
        spread_C = _middle(np.abs(values_KC - middle_C), np.sum(~np.isnan(values_KC - middle_C), axis=0))
    return middle_C, spread_C, count_C


def _middle(values_KC: Floats, count_C: Ints) -> Floats:
    sorted_KC = np.sort(values_KC, axis=0)  # NaN come last
    columns_C = np.arange(values_KC.shape[1])
    low_C = sorted_KC[np.maximum(count_C - 1, 0) // 2, columns_C]
    high_C = sorted_KC[np.minimum(count_C // 2, len(values_KC) - 1), columns_C]
    with np.errstate(over="ignore", invalid="ignore"):
        middle_C = low_C / 2 + high_C / 2
    return np.where(count_C > 0, middle_C, np.nan)


def held_for(broken_RC: Bools, columns: int) -> Bools:
    """Columns that end a run of at least so many broken ones, (R, C)."""
    if columns <= 1:
        return broken_RC
    place_C = np.arange(broken_RC.shape[1])
    last_good_RC = np.maximum.accumulate(np.where(broken_RC, -1, place_C), axis=1)
    return broken_RC & (place_C - last_good_RC >= columns)
