"""Kernels of the presence: what millions of rows say of when a job was there, with which ranks, of how many.

Each looks at rows [begin, stop), so that two threads can share them (`in_parts`).
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.ledger.collectives.arrival_kernels import Bytes
from leadline.model.units import S


@compiled(nogil=True)
def by_second(
    begin: int,
    stop: int,
    begin_N: Ints,
    end_N: Ints,
    has_end: Bytes,
    first_bit: int,
    origin_ns: int,
    longest_ns: int,
    seconds: int,
) -> tuple[Ints, Ints]:
    """First begin and last end of what began in each of some seconds from `origin_ns`, (B,) each. ns.

    has_end: bit (first_bit + row), as Arrow has them; (0,) if all rows have one. What has no end, ends before it
    begins, or after more than `longest_ns`, counts as 1 ns. Of seconds without rows: 2**62 and -2**62.
    """
    first_B, last_B = np.full(seconds, 2**62), np.full(seconds, -(2**62))
    second, low, high = 0, origin_ns, origin_ns  # rows near each other are of one second: that spares a division
    for row in range(begin, stop):
        at = begin_N[row]
        if at < low or at >= high:
            if at < origin_ns or at - origin_ns >= seconds * S:
                continue
            second = (at - origin_ns) // S
            low = origin_ns + second * S
            high = low + S
        end = end_N[row]
        bit = first_bit + row
        if len(has_end) and not (has_end[bit >> 3] >> (bit & 7)) & 1:
            end = at
        if end <= at or end - at > longest_ns:
            end = at + 1
        first_B[second] = min(first_B[second], at)
        last_B[second] = max(last_B[second], end)
    return first_B, last_B
