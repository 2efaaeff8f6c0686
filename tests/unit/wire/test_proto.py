"""Protobuf's wire format as the kernels read it: what comes out, and what stands in a failure."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.wire import proto
from leadline.wire.proto import CODE_BITS, CODE_MASK, fixed64, length, skip, tag, varint

LEAD = b"\x7f\x7f\x7f"  # before the field, so that positions are not zero


def read(reader: object, field: bytes, *more: int) -> object:
    """What a reader makes of `field`, behind LEAD and before a byte that it must not look at."""
    data = np.frombuffer(LEAD + field + b"\x00", np.uint8)
    return reader(data, len(LEAD), len(LEAD) + len(field), *more)  # type: ignore[operator]


def failed(at: int) -> tuple[int, int]:
    return -at & CODE_MASK, -at >> CODE_BITS


@pytest.mark.parametrize(
    ("field", "value"),
    [
        (b"\x00", 0),
        (b"\x7f", 127),
        (b"\xac\x02", 300),
        (b"\x80\x00", 0),
        (b"\xff" * 9 + b"\x01", 2**64 - 1),
        (b"\xff" * 9 + b"\x02", 2**63 - 1),  # bits beyond the 64th are dropped, as upb does
    ],
)
def test_varints(field: bytes, value: int) -> None:
    assert read(varint, field) == (value, len(LEAD) + len(field))


def test_tags_lengths_and_fixed() -> None:
    assert read(tag, b"\x0a") == (0x0A, 4)
    assert read(tag, b"\xff\xff\xff\xff\x0f") == (0xFFFFFFFF, 8)
    assert read(length, b"\x02ab") == (4, 6)
    assert read(length, b"\x82\x00ab") == (5, 7)
    assert read(fixed64, b"\x01" + bytes(6) + b"\x80") == (1 << 63 | 1, 11)
    for wire_type, size in ((0, 1), (1, 8), (2, 1), (5, 4)):
        assert read(skip, bytes(size), 8 | wire_type) == len(LEAD) + size


@pytest.mark.parametrize(
    ("reader", "field", "code"),
    [
        (varint, b"", proto.TRUNCATED),
        (varint, b"\x80\x80", proto.TRUNCATED),
        (varint, b"\x80" * 10 + b"\x00", proto.LONG_VARINT),
        (tag, b"", proto.TRUNCATED),
        (tag, b"\x07", proto.BAD_TAG),
        (tag, b"\xff\xff\xff\xff\x1f", proto.BAD_TAG),
        (tag, b"\x88\x80\x80\x80\x80\x00", proto.BAD_TAG),  # the sixth byte is one too many, as for upb
        (fixed64, bytes(7), proto.SHORT_FIXED),
    ],
)
def test_a_failure_tells_its_code_and_where_the_field_begins(reader: object, field: bytes, code: int) -> None:
    _, at = read(reader, field)  # type: ignore[misc]
    assert failed(at) == (code, len(LEAD))


@pytest.mark.parametrize(
    ("field", "code"),
    [
        (b"\x03ab", proto.LONG_LENGTH),
        (b"\x83\x00ab", proto.LONG_LENGTH),
        (b"\xff" * 9 + b"\x01", proto.LONG_LENGTH),
        (b"\x80", proto.TRUNCATED),
    ],
)
def test_a_failed_length_is_both_its_start_and_its_end(field: bytes, code: int) -> None:
    start, end = read(length, field)  # type: ignore[misc]
    assert start == end
    assert failed(end) == (code, len(LEAD))


@pytest.mark.parametrize(
    ("wire_type", "field", "code"),
    [
        (0, b"\x80", proto.TRUNCATED),
        (1, bytes(7), proto.SHORT_FIXED),
        (2, b"\x01", proto.LONG_LENGTH),
        (3, b"\x00", proto.GROUP),
        (4, b"\x00", proto.GROUP),
        (5, bytes(3), proto.SHORT_FIXED),
        (6, b"\x00", proto.BAD_WIRE_TYPE),
        (7, b"\x00", proto.BAD_WIRE_TYPE),
    ],
)
def test_what_cannot_be_skipped(wire_type: int, field: bytes, code: int) -> None:
    assert failed(read(skip, field, 8 | wire_type)) == (code, len(LEAD))  # type: ignore[arg-type]


def test_every_code_has_words() -> None:
    codes = range(proto.TRUNCATED, proto.SHORT_FIXED + 1)
    said = [str(proto.malformed("a body", code, 7)) for code in codes]
    assert all("a body, byte 7: expected " in text for text in said)
    assert proto.SHORT_FIXED <= CODE_MASK
