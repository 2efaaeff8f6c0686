"""Kernels of lateness: which ranks came to which collective when, and who came last.

Calls stand in order of communicator and number, so those of a collective are neighbours: nothing is sorted but what a
median needs. Axes: N = call, G = collective that all of its ranks left, R = rank by number.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.symptoms.call_kernels import Int32s


@compiled(nogil=True)
def smallest(value_M: Ints, place: int) -> int:
    """The value that would stand at a place if they were in order; changes their order.

    Source: Hoare, Algorithm 65: Find, Communications of the ACM 4 (1961).
    """
    low, high = 0, len(value_M) - 1
    while low < high:
        pivot = value_M[(low + high) // 2]
        left, right = low, high
        while left <= right:
            while value_M[left] < pivot:
                left += 1
            while value_M[right] > pivot:
                right -= 1
            if left <= right:
                value_M[left], value_M[right] = value_M[right], value_M[left]
                left += 1
                right -= 1
        if place <= right:
            high = right
        elif place >= left:
            low = left
        else:
            break
    return int(value_M[place])


@compiled(nogil=True)
def met(comm_N: Int32s, seq_N: Ints, size_N: Int32s, entered_N: Ints, ended_N: Ints, fits_N: Bools) -> Ints:
    """Collectives that all ranks of their communicator called and left, of calls that fit.

    Returns: first call and the one after the last (others may lie between), first that fits, median entry, last end,
    (G, 5).
    """
    calls, groups, begin = len(comm_N), 0, 0
    for call in range(calls):
        groups += call == 0 or comm_N[call] != comm_N[call - 1] or seq_N[call] != seq_N[call - 1]
    found_G5, groups = np.empty((groups, 5), np.int64), 0
    entry_M = np.empty(calls, np.int64)
    while begin < calls:
        comm, seq = comm_N[begin], seq_N[begin]
        stop, count, first, end = begin, 0, -1, np.int64(0)
        while stop < calls and comm_N[stop] == comm and seq_N[stop] == seq:
            if fits_N[stop]:
                first = stop if first < 0 else first
                end = max(end, ended_N[stop])
                entry_M[count] = entered_N[stop]
                count += 1
            stop += 1
        if count > 1 and count == size_N[first]:
            found_G5[groups] = begin, stop, first, smallest(entry_M[:count], (count - 1) // 2), end
            groups += 1
        begin = stop
    return found_G5[:groups]


@compiled(nogil=True)
def baseline_offsets(
    begin_G: Ints, stop_G: Ints, middle_G: Ints, calm_G: Bools, number_N: Ints, entered_N: Ints, fits_N: Bools,
    ranks: int,
) -> Ints:  # fmt: skip
    """By how much each rank comes after the median, in the median of calm collectives; 0: it was in none. (R,)"""
    edge_R = np.zeros(ranks + 1, np.int64)
    for group in np.flatnonzero(calm_G):
        for call in range(begin_G[group], stop_G[group]):
            if fits_N[call]:
                edge_R[number_N[call] + 1] += 1
    edge_R = np.cumsum(edge_R)
    offset_M, next_R, found_R = np.empty(edge_R[-1], np.int64), edge_R.copy(), np.zeros(ranks, np.int64)
    for group in np.flatnonzero(calm_G):
        for call in range(begin_G[group], stop_G[group]):
            if fits_N[call]:
                rank = number_N[call]
                offset_M[next_R[rank]] = entered_N[call] - middle_G[group]
                next_R[rank] += 1
    for rank in range(ranks):
        count = edge_R[rank + 1] - edge_R[rank]
        if count:
            found_R[rank] = smallest(offset_M[edge_R[rank] : edge_R[rank + 1]], (count - 1) // 2)
    return found_R


@compiled(nogil=True)
def arrivals(
    begin_G: Ints, stop_G: Ints, usually_R: Ints, number_N: Ints, entered_N: Ints, fits_N: Bools
) -> tuple[Ints, Ints, Ints]:
    """Median and last arrival of each collective, less what ranks differ by anyway, and whose the last was. (G,) each.

    Of ranks that came last together it is the highest.
    """
    groups = len(begin_G)
    middle_G, last_G, who_G = np.empty(groups, np.int64), np.empty(groups, np.int64), np.empty(groups, np.int64)
    right_M = np.empty((stop_G - begin_G).max() if groups else 0, np.int64)
    for group in range(groups):
        count, last, who = 0, np.int64(-(2**63)), np.int64(-1)
        for call in range(begin_G[group], stop_G[group]):
            if not fits_N[call]:
                continue
            rank = number_N[call]
            right = entered_N[call] - usually_R[rank]
            right_M[count] = right
            count += 1
            if right > last or (right == last and rank > who):
                last, who = right, rank
        last_G[group], who_G[group] = last, who
        middle_G[group] = smallest(right_M[:count], (count - 1) // 2)
    return middle_G, last_G, who_G
