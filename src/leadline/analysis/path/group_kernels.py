"""Kernels that count samples: open-addressing hash tables over 10 M rows, one pass each.

Numbers are given in the order of first appearance, so callers sort afterwards: results must not depend on row order.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Bools, Ids, Ints
from leadline.analysis.compiled import compiled

Smalls = NDArray[np.int32]

_MIX = np.uint64(0x9E3779B97F4A7C15)
_MIX2 = np.uint64(0xBF58476D1CE4E5B9)


@compiled()
def flow_numbers(flow_N2: Ids) -> tuple[Ints, Ints]:
    """A number for each distinct id, and its first row: (number_N, row_F)."""
    count = len(flow_N2)
    size = 1 << 12
    slot = np.full(size, -1, np.int64)
    row_F = np.empty(1 << 10, np.int64)
    number_N = np.empty(count, np.int64)
    flows = 0
    for n in range(count):
        low, high = flow_N2[n, 0], flow_N2[n, 1]
        at = np.int64(((low ^ (high * _MIX)) * _MIX2) >> np.uint64(20)) & (size - 1)
        while slot[at] >= 0 and not (flow_N2[row_F[slot[at]], 0] == low and flow_N2[row_F[slot[at]], 1] == high):
            at = (at + 1) & (size - 1)
        if slot[at] < 0:
            if flows == len(row_F):
                more = np.empty(2 * flows, np.int64)
                more[:flows] = row_F
                row_F = more
            row_F[flows] = n
            slot[at] = flows
            flows += 1
            number_N[n] = flows - 1
            if 2 * flows > size:
                size *= 4
                slot = np.full(size, -1, np.int64)
                for f in range(flows):
                    low, high = flow_N2[row_F[f], 0], flow_N2[row_F[f], 1]
                    at = np.int64(((low ^ (high * _MIX)) * _MIX2) >> np.uint64(20)) & (size - 1)
                    while slot[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slot[at] = f
        else:
            number_N[n] = slot[at]
    return number_N, row_F[:flows].copy()


@compiled()
def places(
    switch_N: Smalls,
    in_N: Smalls,
    out_N: Smalls,
    rate_N: Ints,
    time_N: Ints,
    forwarded_N: Bools,
    number_S: Ints,
    number_I: Ints,
    number_O: Ints,
    ports: int,
    rates: int,
    from_ns: int,
) -> Ints:
    """One number for all that makes a group but the flow; `groups` has the way back.

    `number_S`, `number_I`, `number_O`: number of each text of the columns' own dictionaries, the last one for null.
    """
    out = np.empty(len(switch_N), np.int64)
    for n in range(len(out)):
        place = number_S[switch_N[n]]
        place = place * (ports + 1) + number_I[in_N[n]] + 1
        place = place * (ports + 1) + number_O[out_N[n]] + 1
        place = place * rates + rate_N[n]
        out[n] = place * 4 + 2 * (not forwarded_N[n]) + (time_N[n] >= from_ns)
    return out


@compiled()
def group_numbers(flow_N: Ints, place_N: Ints) -> tuple[Ints, Ints]:
    """The same for pairs (flow, place): (number_N, row_G)."""
    count = len(flow_N)
    size = 1 << 12
    slot = np.full(size, -1, np.int64)
    row_G = np.empty(1 << 10, np.int64)
    number_N = np.empty(count, np.int64)
    groups = 0
    for n in range(count):
        flow, place = flow_N[n], place_N[n]
        at = np.int64((np.uint64(flow) * _MIX ^ np.uint64(place) * _MIX2) * _MIX >> np.uint64(20)) & (size - 1)
        while slot[at] >= 0 and not (flow_N[row_G[slot[at]]] == flow and place_N[row_G[slot[at]]] == place):
            at = (at + 1) & (size - 1)
        if slot[at] < 0:
            if groups == len(row_G):
                more = np.empty(2 * groups, np.int64)
                more[:groups] = row_G
                row_G = more
            row_G[groups] = n
            slot[at] = groups
            groups += 1
            number_N[n] = groups - 1
            if 2 * groups > size:
                size *= 4
                slot = np.full(size, -1, np.int64)
                for g in range(groups):
                    flow, place = flow_N[row_G[g]], place_N[row_G[g]]
                    at = np.int64((np.uint64(flow) * _MIX ^ np.uint64(place) * _MIX2) * _MIX >> np.uint64(20))
                    at &= size - 1
                    while slot[at] >= 0:
                        at = (at + 1) & (size - 1)
                    slot[at] = g
        else:
            number_N[n] = slot[at]
    return number_N, row_G[:groups].copy()


@compiled()
def sums(number_N: Ints, groups: int, bytes_N: Ints, time_N: Ints) -> tuple[Ints, Ints, Ints, Ints, Ints, Ints]:
    """Per group: samples, bytes, squared bytes, first and last time, sum of the times since the first of all, us.

    Whole numbers all, so that the order of rows does not matter.
    """
    samples = np.zeros(groups, np.int64)
    total = np.zeros(groups, np.int64)
    squares = np.zeros(groups, np.int64)
    first = np.full(groups, np.iinfo(np.int64).max, np.int64)
    last = np.full(groups, np.iinfo(np.int64).min, np.int64)
    since = np.zeros(groups, np.int64)
    origin = time_N.min() if len(time_N) else 0
    for n in range(len(number_N)):
        g = number_N[n]
        samples[g] += 1
        total[g] += bytes_N[n]
        squares[g] += bytes_N[n] * bytes_N[n]
        first[g] = min(first[g], time_N[n])
        last[g] = max(last[g], time_N[n])
        since[g] += (time_N[n] - origin) // 1000  # us: a sum of 10 M rows fits
    return samples, total, squares, first, last, since
