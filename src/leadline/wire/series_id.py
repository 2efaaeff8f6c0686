"""The id of a series from its canonical label bytes: `model.ids.series_id` as a kernel (docs/formats/series-id.md)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.wire.kernel import kernel
from leadline.wire.murmur import murmur3_slice
from leadline.wire.words import byte_at, word_at

_NAME = np.uint64(int.from_bytes(b"__name__", "little"))
_LOW_32 = np.uint64(0xFFFFFFFF)
_32 = np.uint64(32)


@kernel
def series_slice(data: NDArray[np.uint8], start: int, end: int) -> tuple[np.uint64, np.uint64]:
    """Low and high 64 bits of the id of the series whose canonical label bytes are `data[start:end]`.

    Errors: IndexError unless 0 <= start <= end <= len(data).
    """
    low, high = murmur3_slice(data, start, end)
    name, name_end = _name(data, start, end)
    of_name, _ = murmur3_slice(data, name, name_end)
    return low, (of_name << _32) | (high & _LOW_32)


@kernel
def series_slices(
    data: NDArray[np.uint8], start_S: NDArray[np.int64], end_S: NDArray[np.int64], ids: NDArray[np.uint64]
) -> None:
    """Ids of S series into `ids` (S, 2): low, high. Errors: IndexError as in `series_slice`."""
    if len(start_S) != len(end_S) or len(ids) < len(start_S):
        raise IndexError("series_slices: start, end and ids differ in length")
    for row in range(len(start_S)):
        low, high = series_slice(data, start_S[row], end_S[row])
        ids[row, 0] = low
        ids[row, 1] = high


@kernel
def _name(data, at, end):  # type: ignore[no-untyped-def]
    """Where the value of `__name__` lies; an empty slice where there is none, as in bytes that are not canonical."""
    while at + 2 < end:
        size, p = _length(data, at + 1, end)
        stop = p + size
        if size < 0 or stop > end or p >= stop:
            break
        name_size, p = _length(data, p + 1, stop)
        after = p + name_size
        if name_size < 0 or after >= stop:
            break
        if name_size == 8 and word_at(data, p) == _NAME:
            value_size, p = _length(data, after + 1, stop)
            if value_size < 0 or p + value_size > stop:
                break
            return p, p + value_size
        at = stop
    return end, end


@kernel
def _length(data, at, end):  # type: ignore[no-untyped-def]
    """A varint before `end` that is a length, and the place after it; -1 if it is none."""
    value, shift = 0, 0
    while at < end and shift < 35:
        byte = byte_at(data, at)
        value |= (byte & 0x7F) << shift
        at += 1
        if byte < 0x80:
            return value, at
        shift += 7
    return -1, at
