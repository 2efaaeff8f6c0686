"""Kernel of the presence: when millions of rows were about something, by the second in which it began."""

from __future__ import annotations

from numba import njit

from leadline.analysis.columns import Ints


@njit(cache=True)
def by_second(begin_N: Ints, end_N: Ints, origin_ns: int, longest_ns: int, first_B: Ints, last_B: Ints) -> None:
    """First begin and last end of what began in each second from `origin_ns`, into (B,) arrays. ns.

    What ends before it begins, or after more than `longest_ns`, counts as 1 ns.
    """
    for row in range(len(begin_N)):
        begin = begin_N[row]
        if begin < origin_ns or begin - origin_ns >= len(first_B) * 1_000_000_000:
            continue
        second = (begin - origin_ns) // 1_000_000_000
        end = end_N[row]
        if end <= begin or end - begin > longest_ns:
            end = begin + 1
        first_B[second] = min(first_B[second], begin)
        last_B[second] = max(last_B[second], end)
