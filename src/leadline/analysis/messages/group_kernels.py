"""Kernels that number equal rows: a hash table that compares whole keys, so that a collision costs time, not truth."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.columns import Ints
from leadline.analysis.compiled import compiled

_SEED = np.uint64(0x9E3779B97F4A7C15)
_MIX = np.uint64(0xBF58476D1CE4E5B9)
_SHIFT = np.uint64(29)


@compiled()
def _hash(key_K: Ints) -> np.uint64:
    """Mixing step of splitmix64 (Steele, Lea, Flood, OOPSLA 2014), once for each number of the key."""
    mixed = _SEED
    for k in range(len(key_K)):
        mixed = (mixed ^ np.uint64(key_K[k])) * _MIX
        mixed ^= mixed >> _SHIFT
    return mixed


@compiled()
def grouped(key_NK: NDArray[np.int64]) -> tuple[Ints, Ints]:
    """Group of each of N rows of K numbers, and the first row of each group; groups are numbered as they come."""
    rows = len(key_NK)
    size = 8
    while size < 2 * rows:
        size *= 2
    mask = np.uint64(size - 1)
    slot_T = np.full(size, -1, np.int64)
    group_N, first_G, groups = np.empty(rows, np.int64), np.empty(rows, np.int64), 0
    for n in range(rows):
        at = _hash(key_NK[n]) & mask
        while True:
            held = slot_T[at]
            if held < 0:
                slot_T[at] = groups
                first_G[groups] = n
                group_N[n] = groups
                groups += 1
                break
            same = True
            for k in range(key_NK.shape[1]):
                if key_NK[first_G[held], k] != key_NK[n, k]:
                    same = False
                    break
            if same:
                group_N[n] = held
                break
            at = (at + np.uint64(1)) & mask
    return group_N, first_G[:groups].copy()


@compiled()
def listed(group_N: Ints, groups: int) -> tuple[Ints, Ints]:
    """Rows of each group: those of g are order_N[begin_G[g] : begin_G[g + 1]], in the order of rows."""
    begin_G = np.zeros(groups + 1, np.int64)
    for n in range(len(group_N)):
        begin_G[group_N[n] + 1] += 1
    for g in range(groups):
        begin_G[g + 1] += begin_G[g]
    place_G, order_N = begin_G.copy(), np.empty(len(group_N), np.int64)
    for n in range(len(group_N)):
        order_N[place_G[group_N[n]]] = n
        place_G[group_N[n]] += 1
    return begin_G, order_N


@compiled()
def sorted_within(begin_G: Ints, value_N: Ints) -> Ints:
    """Values in ascending order within each group; those of g are value_N[begin_G[g] : begin_G[g + 1]]."""
    sorted_N = value_N.copy()
    for g in range(len(begin_G) - 1):
        sorted_N[begin_G[g] : begin_G[g + 1]].sort()
    return sorted_N
