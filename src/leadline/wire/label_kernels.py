"""Canonical labels built by kernels: spans of names and values in, the bytes a series id is the hash of out.

The text and OTLP scanners find labels as spans of one byte array. A row of `labels` is one label:

    [name start, name length, value start, value length]

Form of the output: `model.ids`. Rows are sorted here by insertion, because senders write labels in nearly the
same order every time; `LABELS_MAX` bounds what a hostile order costs (256 labels: at most 32,640 comparisons).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from leadline.wire.words import byte_at

LABELS_MAX = 256  # per stream; more are dropped under `labels_too_many`, as no real sender has so many

# What `write_canonical` returns instead of an end, < 0.
TWICE = -1  # a name occurs twice and the caller does not allow it
NO_NAME = -2  # a label whose name is empty
NO_ROOM = -3  # `out` is too small: a mistake of the caller's arithmetic


@njit(nogil=True, cache=True, inline="always")
def _order(data: NDArray[np.uint8], a: int, a_size: int, b: int, b_size: int) -> int:
    """-1, 0 or 1 as the bytes from `a` are before, equal to or after those from `b`."""
    for i in range(min(a_size, b_size)):
        difference = byte_at(data, a + i) - byte_at(data, b + i)
        if difference != 0:
            return -1 if difference < 0 else 1
    if a_size == b_size:
        return 0
    return -1 if a_size < b_size else 1


@njit(nogil=True, cache=True)
def _sort(data: NDArray[np.uint8], labels: NDArray[np.int64], count: int) -> None:
    """Stable insertion sort of the first `count` rows by name."""
    for row in range(1, count):
        place = row
        a, b, c, d = labels[row, 0], labels[row, 1], labels[row, 2], labels[row, 3]
        while place > 0 and _order(data, labels[place - 1, 0], labels[place - 1, 1], a, b) > 0:
            for column in range(4):
                labels[place, column] = labels[place - 1, column]
            place -= 1
        labels[place, 0], labels[place, 1], labels[place, 2], labels[place, 3] = a, b, c, d


@njit(nogil=True, cache=True, inline="always")
def varint_size(value: int) -> int:
    """Bytes of the shortest varint of a value >= 0."""
    size = 1
    while value > 0x7F:
        value >>= 7
        size += 1
    return size


@njit(nogil=True, cache=True, inline="always")
def _put_varint(out: NDArray[np.uint8], at: int, value: int) -> int:
    while value > 0x7F:
        out[at] = value & 0x7F | 0x80
        value >>= 7
        at += 1
    out[at] = value
    return at + 1


@njit(nogil=True, cache=True, inline="always")
def put_span(out: NDArray[np.uint8], at: int, data: NDArray[np.uint8], start: int, size: int) -> int:
    """Copy `size` bytes of `data` from `start` to `out` at `at`; returns the end. Bounds are the caller's."""
    for i in range(size):
        out[at + i] = byte_at(data, start + i)
    return at + size


@njit(nogil=True, cache=True, inline="always")
def _put_label(out: NDArray[np.uint8], at: int, data: NDArray[np.uint8], label: NDArray[np.int64]) -> int:
    """Write one label; returns its end, or NO_ROOM."""
    name, name_size, value, value_size = label[0], label[1], label[2], label[3]
    inner = name_size + value_size + 2 + varint_size(name_size) + varint_size(value_size)
    if at + inner + 1 + varint_size(inner) > len(out):
        return NO_ROOM
    out[at] = 0x0A
    at = _put_varint(out, at + 1, inner)
    out[at] = 0x0A
    at = _put_varint(out, at + 1, name_size)
    at = put_span(out, at, data, name, name_size)
    out[at] = 0x12
    at = _put_varint(out, at + 1, value_size)
    return put_span(out, at, data, value, value_size)


@njit(nogil=True, cache=True)
def write_canonical(
    data: NDArray[np.uint8],
    labels: NDArray[np.int64],
    count: int,
    last_wins: bool,
    out: NDArray[np.uint8],
    at: int,
) -> int:
    """Sort the first `count` rows of `labels` and write them to `out` from `at` on, without empty values.

    Inputs: spans in `data`, which the caller has checked; rows are sorted in place. Of labels with the same
    name the later row is kept if `last_wins`, otherwise that is TWICE.
    Returns: the end of what was written, or TWICE, NO_NAME or NO_ROOM.
    """
    _sort(data, labels, count)
    for row in range(count):
        if labels[row, 1] == 0:
            return NO_NAME
        same_as_next = row + 1 < count and (
            _order(data, labels[row, 0], labels[row, 1], labels[row + 1, 0], labels[row + 1, 1]) == 0
        )
        if same_as_next:
            if not last_wins:
                return TWICE
            continue
        if labels[row, 3] == 0:
            continue
        at = _put_label(out, at, data, labels[row])
        if at < 0:
            return at
    return at
