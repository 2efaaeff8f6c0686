"""Bodies: each encoding, each refusal, and what a bomb costs."""

from __future__ import annotations

import gzip
import tracemalloc
import zlib

import cramjam
import pytest

from leadline.model.errors import BusyError, DataError, RefusedError
from leadline.wire.body import Body

TEXT = b"node_load1 0.5\n" * 100
MB = 1 << 20


def unpack(encoding: str, data: bytes, body_max: int = MB, unpacked_max: int = MB) -> bytes:
    body = Body(encoding, body_max, unpacked_max)
    body.feed(data)
    return body.finish()


def packed(encoding: str, data: bytes = TEXT) -> bytes:
    if encoding == "gzip":
        return gzip.compress(data)
    if encoding == "deflate":
        return zlib.compress(data)
    if encoding == "snappy":
        return bytes(cramjam.snappy.compress_raw(data))
    return bytes(cramjam.zstd.compress(data)) if encoding == "zstd" else data


PACKED = ["gzip", "deflate", "snappy", "zstd"]
ALL = ["", "identity", *PACKED]


@pytest.mark.parametrize("encoding", [*ALL, " GZIP ", "Snappy"])
def test_unpacks(encoding: str) -> None:
    assert unpack(encoding, packed(encoding.strip().lower())) == TEXT


@pytest.mark.parametrize("encoding", ALL)
def test_the_limit_itself_is_allowed_and_one_byte_more_is_not(encoding: str) -> None:
    data = packed(encoding)
    assert unpack(encoding, data, len(data), len(TEXT)) == TEXT
    with pytest.raises(RefusedError) as refused:
        unpack(encoding, data, len(data), len(TEXT) - 1)
    assert refused.value.reason == "decompressed_too_large"
    with pytest.raises(RefusedError) as refused:
        unpack(encoding, data, len(data) - 1, MB)
    assert refused.value.reason == "body_too_large"


@pytest.mark.parametrize("encoding", ["br", "lz4", "gzip, gzip", "x-snappy-framed"])
def test_other_encodings_are_refused(encoding: str) -> None:
    with pytest.raises(RefusedError, match="gzip, deflate, snappy, zstd") as refused:
        Body(encoding, MB, MB)
    assert refused.value.reason == "unsupported_encoding"


@pytest.mark.parametrize("encoding", PACKED)
@pytest.mark.parametrize("harm", ["cut", "empty", "noise", "trailing"])
def test_broken_data(encoding: str, harm: str) -> None:
    data = packed(encoding)
    broken = {"cut": data[:-3], "empty": b"", "noise": b"\xfe" * 40, "trailing": data + b"more"}[harm]
    with pytest.raises((DataError, RefusedError)) as raised:
        unpack(encoding, broken)
    # Noise may read as a huge size in a snappy header: that is refused, all else is told as broken data.
    assert isinstance(raised.value, DataError) or (encoding == "snappy" and harm == "noise")


def test_nothing_at_all_is_an_empty_body() -> None:
    assert Body("", MB, MB).finish() == b""
    assert unpack("snappy", b"\x00") == b""


def test_a_body_too_large_is_refused_at_the_byte_that_is_too_many() -> None:
    body = Body("gzip", 10, MB)
    body.feed(gzip.compress(TEXT)[:10])
    with pytest.raises(RefusedError):
        body.feed(b"x")


@pytest.mark.parametrize("header", [b"\xff\xff\xff\xff\x0f", b"\x80\x80\x80\x10"])
def test_a_snappy_bomb_is_refused_by_its_header(header: bytes) -> None:
    body = Body("snappy", MB, MB)
    for byte in header[:-1]:
        body.feed(bytes([byte]))
    with pytest.raises(RefusedError) as refused:
        body.feed(header[-1:])
    assert refused.value.reason == "decompressed_too_large"


@pytest.mark.parametrize("header", [b"\xff\xff\xff\xff\x10", b"\x80" * 5])
def test_a_snappy_header_that_is_no_size(header: bytes) -> None:
    with pytest.raises(DataError, match="snappy body"):
        unpack("snappy", header, MB, 1 << 40)


def test_a_snappy_header_cannot_make_us_allocate() -> None:
    """Within the limit, but more than so few bytes can unpack to: 64 bytes for every 3 at most."""
    with pytest.raises(DataError, match="64/3"):
        unpack("snappy", b"\x80\x80\x80\x01" + b"\x00" * 40, MB, 64 * MB)


def test_the_densest_snappy_is_taken() -> None:
    """One literal, then copies of 64 bytes in 3: what the check of the header's size must let through."""
    copies = 5000
    size = 4 + 64 * copies
    header = bytes([size & 0x7F | 0x80, size >> 7 & 0x7F | 0x80, size >> 14])
    data = header + b"\x0cabcd" + b"\xfe\x04\x00" * copies
    assert unpack("snappy", data) == b"abcd" * (size // 4)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_a_bomb_costs_no_more_than_the_limit(encoding: str) -> None:
    bomb = packed(encoding, bytes(64 * MB))
    assert len(bomb) < MB // 8
    tracemalloc.start()
    try:
        with pytest.raises(RefusedError) as refused:
            unpack(encoding, bomb, MB, MB)
        peak_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert refused.value.reason == "decompressed_too_large"
    assert peak_bytes < 6 * MB


def test_two_gzip_members_are_refused_in_one_chunk_and_in_two() -> None:
    member = gzip.compress(TEXT)
    with pytest.raises(DataError, match="one gzip member"):
        unpack("gzip", member + member)
    body = Body("gzip", MB, MB)
    body.feed(member)
    body.feed(member)
    with pytest.raises(DataError, match="one gzip member"):
        body.finish()


@pytest.mark.parametrize("encoding", ["gzip", "deflate", "zstd"])
def test_a_body_without_its_end_holds_no_more_than_what_came(encoding: str) -> None:
    """Nothing is unpacked before the end is there: 126 kB that stand for 127 MB are 126 kB."""
    bomb = packed(encoding, bytes(32 * MB))
    tracemalloc.start()
    try:
        body = Body(encoding, MB, 32 * MB)
        body.feed(bomb[:-8])
        held_bytes = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert held_bytes < 2 * len(bomb) + 10_000


@pytest.mark.parametrize("encoding", ALL)
def test_room_is_asked_for_before_it_is_taken_and_what_is_held_is_the_size(encoding: str) -> None:
    data = bytes(3 * MB + 5)
    held: list[int] = []
    body = Body(encoding, 4 * MB, 8 * MB)
    body.feed(packed(encoding, data))
    assert body.finish(held.append) == data
    assert sum(held) == len(data)
    assert held[0] >= min(MB, len(data)), "asked for first"


@pytest.mark.parametrize("encoding", ALL)
def test_without_room_nothing_is_unpacked(encoding: str) -> None:
    def full(_: int) -> None:
        raise BusyError("full")

    body = Body(encoding, 4 * MB, 8 * MB)
    body.feed(packed(encoding, bytes(MB)))
    with pytest.raises(BusyError):
        body.finish(full)


@pytest.mark.parametrize("encoding", ALL)
def test_a_body_may_be_left_for_later_when_it_is_large(encoding: str) -> None:
    data = bytes(3 * MB)
    held: list[int] = []
    body = Body(encoding, 4 * MB, 4 * MB)
    body.feed(packed(encoding, data))
    assert body.finish_small(MB, held.append) is None
    assert sum(held) == 0
    assert body.finish_small(MB, held.append) is None
    assert body.finish(held.append) == data
    assert sum(held) == len(data)
    small = Body(encoding, 4 * MB, 4 * MB)
    small.feed(packed(encoding, data))
    assert small.finish_small(3 * MB) == data
