"""Kernel of the pairing: within each key, ends in the order of time meet the oldest that waits on the other side.

    send  s1 ----------- waits 20 s ----------- > told alone
    recv          r1                              meets s1, told at r1
    recv              r2 -- waits 5 s -> told alone, conflicting: r1 was there before

What is decided at a time depends on what came before it, never on what comes later: so every window that sees these
ends decides the same, and a message is told in one of them.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.columns import Bools, Ints
from leadline.analysis.compiled import compiled
from leadline.analysis.messages.ends import LONGEST_NS, RECEIVED_WAITS_NS, SENT_WAITS_NS, SPAN_NS

_END, _SIDE, _BEGIN, _BYTES = 0, 1, 2, 3  # columns of `what_NK`; those behind them only put equal ends in order


@compiled()
def _ordered(rows: Ints, what_NK: Ints) -> Ints:
    """Rows of one key by time, then by all that tells them apart, so that the order in which they came is nothing."""
    if len(rows) == 2:
        for k in range(what_NK.shape[1]):
            one, other = what_NK[rows[0], k], what_NK[rows[1], k]
            if one != other:
                return rows if one < other else rows[::-1].copy()
        return rows
    for k in range(what_NK.shape[1] - 1, -1, -1):
        rows = rows[np.argsort(what_NK[rows, k], kind="mergesort")]
    return rows


@compiled()
def _same(what_NK: Ints, one: int, other: int) -> bool:
    """Whether two ends are one that was told twice."""
    alike = 0
    for k in range(_BYTES + 1):
        alike += what_NK[one, k] == what_NK[other, k]
    return alike == _BYTES + 1


@compiled()
def paired(begin_G: Ints, order_N: Ints, what_NK: Ints) -> tuple[Ints, Ints, Ints, Ints, Bools]:
    """Messages of ends: their send and receive (-1: none), key, when they are told (ns), whether ends of a key repeat.

    begin_G, order_N: rows by key, see `listed`. what_NK: end, side, begin, bytes, ... of each.
    """
    count = len(order_N)
    send_M, recv_M = np.full(count, -1, np.int64), np.full(count, -1, np.int64)
    key_M, told_M, again_M, told = np.zeros(count, np.int64), np.zeros(count, np.int64), np.zeros(count, np.bool_), 0
    waiting = np.empty((2, np.diff(begin_G).max() if count else 0), np.int64)  # messages, by side of their first end
    head, tail, before = np.zeros(2, np.int64), np.zeros(2, np.int64), np.zeros(2, np.int64)
    for g in range(len(begin_G) - 1):
        rows = order_N[begin_G[g] : begin_G[g + 1]]
        if len(rows) > 1:
            rows = _ordered(rows, what_NK)
        head[:], tail[:], before[:] = 0, 0, -1
        for x in range(len(rows)):
            n = rows[x]
            if x and _same(what_NK, rows[x - 1], n):
                continue
            end, side = what_NK[n, _END], what_NK[n, _SIDE]
            message = told
            told += 1
            key_M[message] = g
            again_M[message] = before[side] >= 0 and end - what_NK[before[side], _END] <= SPAN_NS
            before[side] = n
            if side == 0:
                send_M[message] = n
            else:
                recv_M[message] = n
            told_M[message] = end + (SENT_WAITS_NS if side == 0 else RECEIVED_WAITS_NS)
            if end - what_NK[n, _BEGIN] > LONGEST_NS:
                continue
            other = 1 - side
            while head[other] < tail[other] and told_M[waiting[other, head[other]]] < end:
                head[other] += 1
            if head[other] < tail[other]:
                met = waiting[other, head[other]]
                head[other] += 1
                told -= 1  # the message is the one that waited
                again_M[met] = again_M[met] or again_M[message]
                again_M[message] = False
                send_M[message], recv_M[message] = -1, -1
                if side == 0:
                    send_M[met] = n
                else:
                    recv_M[met] = n
                told_M[met] = end
            else:
                waiting[side, tail[side]] = message
                tail[side] += 1
    return send_M[:told], recv_M[:told], key_M[:told], told_M[:told], again_M[:told]
