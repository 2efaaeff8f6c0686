"""MurmurHash3 x64 128 (seed 0) over a slice of bytes: the hash of `model.ids.murmur3_128`, as a kernel.

Source: Austin Appleby, MurmurHash3.cpp (public domain), MurmurHash3_x64_128.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.words import byte_at, word_at

_C1 = np.uint64(0x87C37B91114253D5)
_C2 = np.uint64(0x4CF5AD432745937F)
_F1 = np.uint64(0xFF51AFD7ED558CCD)
_F2 = np.uint64(0xC4CEB9FE1A85EC53)
_A1 = np.uint64(0x52DCE729)
_A2 = np.uint64(0x38495AB5)
_5 = np.uint64(5)
_27, _31, _33 = np.uint64(27), np.uint64(31), np.uint64(33)
_37 = np.uint64(37)


@kernel
def _mix1(k: np.uint64) -> np.uint64:
    k *= _C1
    return ((k << _31) | (k >> _33)) * _C2


@kernel
def _mix2(k: np.uint64) -> np.uint64:
    k *= _C2
    return ((k << _33) | (k >> _31)) * _C1


@kernel
def _final(h: np.uint64) -> np.uint64:
    h = (h ^ (h >> _33)) * _F1
    h = (h ^ (h >> _33)) * _F2
    return h ^ (h >> _33)


@kernel
def murmur3_slice(data: NDArray[np.uint8], start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Low and high 64 bits of the hash of `data[start:end]`.

    Errors: IndexError unless 0 <= start <= end <= len(data).
    """
    if start < 0 or end < start or end > len(data):
        raise IndexError("murmur3_slice: the slice leaves the array")
    h1 = np.uint64(0)
    h2 = np.uint64(0)
    at = start
    while end - at >= 16:
        h1 ^= _mix1(word_at(data, at))
        h1 = (((h1 << _27) | (h1 >> _37)) + h2) * _5 + _A1
        h2 ^= _mix2(word_at(data, at + 8))
        h2 = (((h2 << _31) | (h2 >> _33)) + h1) * _5 + _A2
        at += 16
    k1, k2 = np.uint64(0), np.uint64(0)
    for i in range(min(8, end - at)):
        k1 |= np.uint64(byte_at(data, at + i)) << np.uint64(8 * i)
    for i in range(8, end - at):
        k2 |= np.uint64(byte_at(data, at + i)) << np.uint64(8 * (i - 8))
    size = np.uint64(end - start)
    h1 = h1 ^ _mix1(k1) ^ size  # mixing a zero word gives zero: an absent tail needs no branch
    h2 = h2 ^ _mix2(k2) ^ size
    h1 += h2
    h2 += h1
    h1, h2 = _final(h1), _final(h2)
    h1 += h2
    h2 += h1
    return h1, h2


@kernel
def murmur3_slices(
    data: NDArray[np.uint8], start_S: NDArray[np.int64], end_S: NDArray[np.int64], ids: NDArray[np.uint64]
) -> None:
    """Hash S slices of `data` into `ids` (S, 2): low, high. Errors: IndexError as in `murmur3_slice`."""
    if len(start_S) != len(end_S) or len(ids) < len(start_S):
        raise IndexError("murmur3_slices: start, end and ids differ in length")
    for row in range(len(start_S)):
        low, high = murmur3_slice(data, start_S[row], end_S[row])
        ids[row, 0] = low
        ids[row, 1] = high
