"""Which series are known: an open-addressing table from 128-bit series ids to the numbers 0, 1, 2, ...

Callers keep what they know per series in columns of their own, indexed by that number.

    slot    | low half of the id, number + 1 |   16 bytes; number 0 means empty; half of the slots stay empty
    ids     | low, high |                        by number: what the high half is compared with

A body brings its series in the order of the last one, so numbers are read nearly in sequence and `ids` stays in
the cache; only the slot is a random access. A million series take 48 MB (2**21 slots of 16 bytes, ids of 16).

Not for several threads at once: one writer, and readers under the same lock. The kernels let go of Python's
lock (nogil), so the caller's own lock is what keeps a lookup from seeing a table half grown.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.model.errors import UsageError
from leadline.wire.kernel import kernel

Ids = NDArray[np.uint64]
Ints = NDArray[np.int64]

_SLOTS_MIN = 1024
_K1, _K2 = np.uint64(0x9E3779B97F4A7C15), np.uint64(0xC2B2AE3D27D4EB4F)
_32 = np.uint64(32)
_MASK = (1 << 64) - 1


class SeriesIndex:
    """Numbers for series ids, at most `series_max` of them.

    `seed` keeps a sender from choosing ids that all fall on one slot: pass a random number in a server.
    """

    def __init__(self, series_max: int, seed: int = 0) -> None:
        if series_max < 1:
            raise UsageError(f"SeriesIndex: series_max must be at least 1, got {series_max}")
        self._series_max = series_max
        self._seed = np.uint64(seed & _MASK)
        self._slots = np.zeros((_SLOTS_MIN, 2), np.uint64)
        self._ids = np.empty((_SLOTS_MIN // 2, 2), np.uint64)
        self._size = 0

    def __len__(self) -> int:
        return self._size

    @property
    def ids(self) -> Ids:
        """(n, 2) uint64: the id of each number. A view: it is out of date after the next `insert`."""
        return self._ids[: self._size]

    def lookup(self, ids: Ids) -> Ints:
        """The number of each id (S, 2), -1 where it is not known."""
        number_S = np.empty(len(ids), np.int64)
        _lookup(self._slots, self._ids, self._seed, _pairs(ids), number_S)
        return number_S

    def insert(self, ids: Ids) -> Ints:
        """The number of each id, new ones numbered on in the order they come; -1 if there is no room left.

        The same id twice in one call gets one number.
        """
        ids = _pairs(ids)
        number_S = np.empty(len(ids), np.int64)
        done = 0
        while True:
            done, self._size = _insert(
                self._slots, self._ids, self._seed, self._size, self._series_max, ids, number_S, done
            )
            if done == len(ids):
                return number_S
            self._grow()

    def _grow(self) -> None:
        # Half of the slots stay empty, so that a chain is 1.5 slots long on average when found, 2.5 when not.
        slots = np.zeros((2 * len(self._slots), 2), np.uint64)
        larger = np.empty((len(slots) // 2, 2), np.uint64)
        larger[: self._size] = self._ids[: self._size]
        _fill(slots, larger, self._seed, self._size)
        self._slots, self._ids = slots, larger


def touch(number_S: Ints, sample_series_N: Ints, time_ns_N: Ints, last_ns: Ints) -> int:
    """Note the newest time of each series in `last_ns`, and count the samples that came late.

    Inputs: `number_S`, the number of each stream or -1 (its samples are passed over); `last_ns` by number, to
    be started at the smallest int64. Returns: how many samples are older than the newest of their series
    before them; one of the same time is not late.
    Errors: IndexError if a stream or a number leaves its column; `last_ns` may then be touched in part.
    """
    late = int(_touch(number_S, sample_series_N, time_ns_N, last_ns))
    if late < 0:
        raise IndexError("touch: sample_series must index number_S, and number_S last_ns")
    return late


def _pairs(ids: Ids) -> Ids:
    if ids.ndim != 2 or ids.shape[1] != 2:
        raise UsageError(f"series ids are an array (S, 2) of uint64; got the shape {ids.shape}")
    return np.ascontiguousarray(ids, np.uint64)


@kernel
def _slot(low, high, seed, mask):  # type: ignore[no-untyped-def]
    """Where the search for an id begins."""
    mixed = (low ^ seed) * _K1
    mixed = (mixed ^ (mixed >> _32) ^ high) * _K2
    return np.int64((mixed >> _32) & mask)


@kernel
def _find(slots, ids, seed, low, high):  # type: ignore[no-untyped-def]
    """(slot, number) of an id, or (the empty slot where it belongs, -1). One slot at least is empty."""
    mask = len(slots) - 1
    slot = _slot(low, high, seed, np.uint64(mask))
    while True:
        number = np.int64(slots[slot, 1]) - 1
        if number < 0:
            return slot, number
        if slots[slot, 0] == low and ids[number, 1] == high:
            return slot, number
        slot = (slot + 1) & mask


@kernel
def _lookup(slots, ids, seed, wanted, number_S):  # type: ignore[no-untyped-def]
    for row in range(len(wanted)):
        number_S[row] = _find(slots, ids, seed, wanted[row, 0], wanted[row, 1])[1]


@kernel
def _insert(slots, ids, seed, size, series_max, wanted, number_S, done):  # type: ignore[no-untyped-def]
    """Number `wanted[done:]` until the table is half full. Returns: (rows done, series known)."""
    for row in range(done, len(wanted)):
        low, high = wanted[row, 0], wanted[row, 1]
        slot, number = _find(slots, ids, seed, low, high)
        if number < 0 and size < series_max:
            if size >= len(ids):
                return row, size
            number = size
            slots[slot, 0], slots[slot, 1] = low, np.uint64(number + 1)
            ids[number, 0], ids[number, 1] = low, high
            size += 1
        number_S[row] = number
    return len(wanted), size


@kernel
def _fill(slots, ids, seed, size):  # type: ignore[no-untyped-def]
    for number in range(size):
        slot, _ = _find(slots, ids, seed, ids[number, 0], ids[number, 1])
        slots[slot, 0], slots[slot, 1] = ids[number, 0], np.uint64(number + 1)


@kernel
def _touch(number_S, sample_series_N, time_ns_N, last_ns):  # type: ignore[no-untyped-def]
    late = 0
    if len(time_ns_N) < len(sample_series_N):
        return -1
    for sample in range(len(sample_series_N)):
        stream = sample_series_N[sample]
        if stream < 0 or stream >= len(number_S):
            return -1
        number = number_S[stream]
        if number < 0:
            continue
        if number >= len(last_ns):
            return -1
        time = time_ns_N[sample]
        if time > last_ns[number]:
            last_ns[number] = time
        elif time < last_ns[number]:
            late += 1
    return late
