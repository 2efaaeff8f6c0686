"""Kernel of the critical paths: from the last message of a collective back to the last arrival.

    rank 0  --posted--[ 0 > 1 ]                      what everybody waited for: 0 > 1, then 1 > 2; between them rank 1
    rank 1                     [work]--posted--[ 1 > 2 ]     was at work, which is no edge's
            ^ last arrival                             ^ last end

A message waits for the later of its two ends to be posted; that rank posted it when its message before on the channel
was through. Lamport's happened-before (CACM 21(7), 1978) between ends, followed backwards: the critical path.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.messages.group_kernels import grouped, listed

# Columns of `what_HK`.
CHANNEL, STEP, SRC, DST, SENT_FROM, SENT, RECV_FROM, RECEIVED = range(8)


@compiled()
def _later(what_HK: Ints, one: int, one_ns: int, other: int, other_ns: int) -> bool:
    """Whether an end comes after another; of ends at one time the later step, then the numbers decide."""
    if one_ns != other_ns:
        return one_ns > other_ns
    for k in (STEP, CHANNEL, SRC, DST, RECEIVED, SENT):
        if what_HK[one, k] != what_HK[other, k]:
            return bool(what_HK[one, k] > what_HK[other, k])
    return False


@compiled()
def _before(what_HK: Ints, rows: Ints, rank: int, h: int, posted: int) -> tuple[int, int]:
    """The message that was through at a rank last when message h was posted there, and when; -1 if there is none."""
    found, found_ns = -1, 0
    for r in range(len(rows)):
        x = rows[r]
        if x == h:
            continue
        for at_rank, ends in ((DST, RECEIVED), (SRC, SENT)):
            end = what_HK[x, ends]
            if what_HK[x, at_rank] == rank and end <= posted and (
                found < 0 or _later(what_HK, x, end, found, found_ns)
            ):  # fmt: skip
                found, found_ns = x, end
    return found, found_ns


@compiled()
def held(in_H: Ints, what_HK: Ints, arrival_C: Ints, end_C: Ints) -> Ints:
    """How long each message was what its collective waited for, ns, (H,).

    The spans of one collective do not overlap and lie between its arrival and its end, so their sum is at most that.
    in_H: its collective. what_HK: channel, step, ranks, both posts and both ends of each message.
    """
    held_H = np.zeros(len(in_H), np.int64)
    place_A, rank_A = np.empty((2 * len(in_H), 3), np.int64), 0
    for h in range(len(in_H)):
        for at_rank in (SRC, DST):
            place_A[rank_A, 0], place_A[rank_A, 1] = in_H[h], what_HK[h, CHANNEL]
            place_A[rank_A, 2] = what_HK[h, at_rank]
            rank_A += 1
    group_A, first_R = grouped(place_A)
    begin_R, order_A = listed(group_A, len(first_R))
    last_C = np.full(len(arrival_C), -1, np.int64)
    count_C = np.zeros(len(arrival_C), np.int64)
    for h in range(len(in_H)):
        c = in_H[h]
        count_C[c] += 1
        last = last_C[c]
        if last < 0 or _later(what_HK, h, what_HK[h, RECEIVED], last, what_HK[last, RECEIVED]):
            last_C[c] = h
    for c in range(len(arrival_C)):
        h = last_C[c]
        until = min(end_C[c], what_HK[h, RECEIVED]) if h >= 0 else 0
        for _ in range(count_C[c]):
            if h < 0 or until <= arrival_C[c]:
                break
            by_sender = what_HK[h, SENT_FROM] >= what_HK[h, RECV_FROM]
            posted = max(what_HK[h, SENT_FROM], what_HK[h, RECV_FROM])
            begin = max(posted, arrival_C[c])
            held_H[h] += max(until - begin, 0)
            until = min(until, begin)
            group = group_A[2 * h] if by_sender else group_A[2 * h + 1]
            rank = what_HK[h, SRC] if by_sender else what_HK[h, DST]
            h, end = _before(what_HK, order_A[begin_R[group] : begin_R[group + 1]] // 2, rank, h, posted)
            until = min(until, end)
    return held_H
