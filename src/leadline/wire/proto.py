"""Protobuf's wire format for numba kernels: varints, lengths, skipping what one does not know.

Every function takes the array, a position and the end of the message that it reads in, compares before it
reads, and returns the position after what it read, or minus a failure: its code in the low 8 bits, and above them
the byte where what could not be read begins. So a scanner looks like

    field, at = tag(data, at, end)
    if at < 0:
        return -at                       # the failure; `malformed` has the words for its code

and no input makes it read outside `data[:end]`. Negative positions cannot occur otherwise. A failed length is its
start and its end, so a reader given it as its message reads nothing and can hand it up as it is. (A failure kept in
an array instead would make that array an argument of every varint.)

Source: protobuf.dev/programming-guides/encoding. Like upb, we drop the bits of a ten-byte varint beyond the
64th. Unlike upb, we refuse groups: none of our formats ever had one.
"""

# To mypy a compiled kernel is Any (see `wire.kernel`), and so is what one returns to another.
# mypy: disable-error-code="no-any-return"

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from leadline.model.errors import DataError
from leadline.wire.kernel import kernel
from leadline.wire.words import byte_at, word_at

Bytes = NDArray[np.uint8]

OK = 0
TRUNCATED = 1
LONG_VARINT = 2
BAD_TAG = 3
GROUP = 4
BAD_WIRE_TYPE = 5
LONG_LENGTH = 6
BAD_PACKED = 7
SHORT_FIXED = 8

CODE_BITS = 8
CODE_MASK = (1 << CODE_BITS) - 1

_EXPLAINED = {
    TRUNCATED: ("a whole field", "the end of the message in the middle of one"),
    LONG_VARINT: ("a varint of at most 10 bytes", "more"),
    BAD_TAG: ("a field number from 1 to 536870911", "another"),
    GROUP: ("no groups (wire types 3 and 4)", "one"),
    BAD_WIRE_TYPE: ("a wire type of 0, 1, 2 or 5", "6 or 7"),
    LONG_LENGTH: ("a length that stays inside the message", "a longer one"),
    BAD_PACKED: ("packed doubles of 8 bytes each", "a rest"),
    SHORT_FIXED: ("a whole field", "the end of the message in the middle of one"),
}


def malformed(what: str, code: int, position: int) -> DataError:
    """The error for a scanner's code: `what` names the message, `position` the byte where the field began."""
    expected, got = _EXPLAINED[code]
    return DataError(f"{what}, byte {position}", expected, got)


@kernel
def failure(code: int, at: int) -> int:
    """What is returned in place of a position when reading failed at byte `at`: always negative."""
    return -(at << CODE_BITS | code)


@kernel
def varint(data: Bytes, at: int, end: int) -> tuple[np.uint64, int]:
    """One varint: (value, next position or minus a failure)."""
    if at >= end:
        return np.uint64(0), failure(TRUNCATED, at)
    byte = byte_at(data, at)
    if byte < 0x80:
        return np.uint64(byte), at + 1
    value = np.uint64(byte & 0x7F)
    for i in range(1, 10):
        if at + i >= end:
            return np.uint64(0), failure(TRUNCATED, at)
        byte = byte_at(data, at + i)
        value |= np.uint64(byte & 0x7F) << np.uint64(7 * i)
        if byte < 0x80:
            return value, at + i + 1
    return np.uint64(0), failure(LONG_VARINT, at)


@kernel
def tag(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """One field's tag (number << 3 | wire type): (tag, next position or minus a failure)."""
    if at < end:
        byte = byte_at(data, at)
        if 8 <= byte < 0x80:
            return byte, at + 1
    value, after = varint(data, at, end)
    if after < 0:
        return 0, after
    if value < np.uint64(8) or value > np.uint64(0xFFFFFFFF) or after - at > 5:
        return 0, failure(BAD_TAG, at)
    return np.int64(value), after  # type: ignore[return-value]  # int() of a uint64 stays unsigned in numba


@kernel
def length(data: Bytes, at: int, end: int) -> tuple[int, int]:
    """The length of a field's payload, which lies wholly before `end`: (start, end), or twice minus a failure."""
    if at < end:
        byte = byte_at(data, at)
        if byte < 0x80:
            if byte > end - at - 1:
                return failure(LONG_LENGTH, at), failure(LONG_LENGTH, at)
            return at + 1, at + 1 + byte
    value, after = varint(data, at, end)
    if after < 0:
        return after, after
    if value > np.uint64(end - after):
        return failure(LONG_LENGTH, at), failure(LONG_LENGTH, at)
    return after, after + np.int64(value)


@kernel
def fixed64(data: Bytes, at: int, end: int) -> tuple[np.uint64, int]:
    """Eight bytes, little-endian: (their bits, next position or minus a failure)."""
    if end - at < 8:
        return np.uint64(0), failure(SHORT_FIXED, at)
    return word_at(data, at), at + 8


@kernel
def skip(data: Bytes, at: int, end: int, tag: int) -> int:
    """The position after the payload of a field that nobody wants, or minus a failure."""
    wire_type = tag & 7
    if wire_type == 0:
        _, after = varint(data, at, end)
        return after
    if wire_type == 2:
        _, after = length(data, at, end)
        return after
    if wire_type == 1 or wire_type == 5:
        size = 8 if wire_type == 1 else 4
        return at + size if size <= end - at else failure(SHORT_FIXED, at)
    return failure(GROUP if wire_type <= 4 else BAD_WIRE_TYPE, at)
