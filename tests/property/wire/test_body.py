"""Laws of bodies: byte by byte equals all at once; any bytes give bytes or raise."""

from __future__ import annotations

import gzip
import zlib
from itertools import pairwise

import cramjam
from hypothesis import example, given, settings
from hypothesis import strategies as st

from leadline.model.errors import DataError, RefusedError
from leadline.wire.body import ENCODINGS, Body

MAX = 4096
PACK = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "snappy": lambda data: bytes(cramjam.snappy.compress_raw(data)),
    "zstd": lambda data: bytes(cramjam.zstd.compress(data)),
}


def outcome(encoding: str, chunks: list[bytes]) -> bytes | None:
    """What comes out, None if it is not taken."""
    body = Body(encoding, MAX, MAX)
    try:
        for chunk in chunks:
            body.feed(chunk)
        return body.finish()
    except (DataError, RefusedError):
        return None


TEXTS = st.one_of(st.binary(max_size=300), st.builds(bytes.__mul__, st.binary(max_size=8), st.integers(0, 600)))


@settings(deadline=None)
@given(st.sampled_from(sorted(PACK)), TEXTS, st.lists(st.integers(0, 400), max_size=5))
def test_what_was_packed_comes_out_in_any_chunks(encoding: str, text: bytes, cuts: list[int]) -> None:
    data = PACK[encoding](text)
    expected = text if len(text) <= MAX else None
    edges = [0, *sorted(min(cut, len(data)) for cut in cuts), len(data)]
    chunks = [data[start:end] for start, end in pairwise(edges)]
    assert outcome(encoding, [data]) == expected
    assert outcome(encoding, chunks) == expected
    assert outcome(encoding, [bytes([byte]) for byte in data]) == expected


@settings(deadline=None, max_examples=300)
@given(st.sampled_from(ENCODINGS), st.binary(max_size=60))
@example("snappy", b"\xff\xff\xff\xff\xff")
@example("snappy", b"\x80")
@example("gzip", gzip.compress(b"") + b"\0")
def test_any_bytes_give_bytes_or_raise_however_cut(encoding: str, data: bytes) -> None:
    assert outcome(encoding, [data]) == outcome(encoding, [bytes([byte]) for byte in data])


@settings(deadline=None, max_examples=200)
@given(st.sampled_from(sorted(PACK)), TEXTS, st.data())
def test_damaged_bodies_give_bytes_or_raise_however_cut(encoding: str, text: bytes, data: st.DataObject) -> None:
    packed = bytearray(PACK[encoding](text))
    if packed:
        packed[data.draw(st.integers(0, len(packed) - 1))] ^= data.draw(st.integers(1, 255))
    packed = packed[: data.draw(st.integers(0, len(packed)))]
    whole = outcome(encoding, [bytes(packed)])
    assert whole == outcome(encoding, [bytes([byte]) for byte in packed])
    assert whole is None or len(whole) <= MAX
