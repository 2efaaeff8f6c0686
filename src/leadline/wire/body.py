"""The body of a request: collected as it arrives, unpacked when it is whole, bounded at every byte. No sockets.

    body = Body("snappy", body_bytes_max=16 << 20, decompressed_bytes_max=64 << 20)
    for chunk in chunks:
        body.feed(chunk)          # keeps it as it came; refuses at the first byte too many
    data = body.finish(hold)      # unpacks; `hold` is asked for every MiB before there is one

To feed is cheap and to finish is not, so that an event loop can do the one and a thread the other: a body of which the
end never comes holds what was sent of it and costs nothing more. A bomb is refused as cheaply as its format allows:
snappy by its header, within the first 5 bytes; gzip and deflate while they unpack, never holding more than the limit;
zstd when the output buffer is full.

Snappy is the block format that remote-write uses. Sources: google/snappy format_description.txt; RFC 1950,
1952, 8878. A gzip body is one member: nobody sends two, and a body of a million empty ones is an attack.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from typing import Final

import cramjam
import numpy as np

from leadline.model.errors import DataError, RefusedError

ENCODINGS: Final = ("", "identity", "gzip", "deflate", "snappy", "zstd")

# A snappy copy is 3 bytes and stands for at most 64: nothing unpacks to more than 64/3 of its size.
_SNAPPY_OUT, _SNAPPY_IN = 64, 3
_SNAPPY_HEADER_BYTES_MAX = 5

STEP_BYTES = (
    1 << 20
)  # unpacked at once: a bomb is stopped this far behind its limit, and `hold` costs nothing beside it
_SLICE_BYTES = 1 << 16  # given to zlib at once: it copies what it did not use of that, at every step

Hold = Callable[[int], None]
"""Asked before so many bytes more are held, told of bytes given back as a negative number. May raise BusyError."""


def without_bound(_: int) -> None:
    """There is room for everything: the `Hold` of a body that stands alone."""


class Body:
    """One body: `feed` it as it arrives, then `finish` once.

    Inputs: `encoding`, the value of Content-Encoding; `body_bytes_max` for what arrives,
    `decompressed_bytes_max` for what it unpacks to.
    Errors: RefusedError (unsupported_encoding) here, (body_too_large, decompressed_too_large) from `feed` or
    `finish`; DataError from either if the bytes are not what the encoding says. After an error it is of no use.
    """

    def __init__(self, encoding: str, body_bytes_max: int, decompressed_bytes_max: int) -> None:
        encoding = encoding.strip().lower()
        if encoding not in ENCODINGS:
            raise RefusedError(
                "unsupported_encoding",
                f"Content-Encoding: expected one of {', '.join(ENCODINGS[1:])} or none, got {encoding!r}",
            )
        self._encoding = encoding
        self._body_bytes_max = body_bytes_max
        self._bytes_max = decompressed_bytes_max
        self._came = bytearray()
        self._fed_bytes = 0
        self._snappy_size: int | None = None  # from the header, once it is there

    @classmethod
    def of(cls, data: bytes) -> Body:
        """One that is here already, unpacked."""
        body = cls("", len(data), len(data))
        body.feed(data)
        return body

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._fed_bytes += len(chunk)
        if self._fed_bytes > self._body_bytes_max:
            raise RefusedError(
                "body_too_large",
                f"the body is over {self._body_bytes_max} bytes (ingest.body_bytes_max); send smaller batches",
            )
        self._came += chunk
        if self._encoding == "snappy" and self._snappy_size is None:
            self._snappy_size = _snappy_size(self._came)
            if self._snappy_size is not None:
                _check_size(self._snappy_size, self._bytes_max)

    @property
    def fed_bytes(self) -> int:
        """Bytes fed so far: what this body held in memory as it arrived."""
        return self._fed_bytes

    def finish(self, hold: Hold = without_bound) -> bytes:
        """All of the body has been fed. Returns: it, unpacked; `hold` has been asked for as many bytes.

        What came is let go. Errors: as above, and whatever `hold` raises.
        """
        came, self._came = self._came, bytearray()
        return self._unpacked(came, self._bytes_max, hold)

    def finish_small(self, most: int, hold: Hold = without_bound) -> bytes | None:
        """As `finish`, if it unpacks to at most `most` bytes; else None, and then nothing more than before is held.

        After None what came is kept, so that `finish` can be called when there is time for a large body. Errors: as
        `finish`.
        """
        held = 0

        def tally(more: int) -> None:
            nonlocal held
            hold(more)
            held += more

        try:
            data = self._unpacked(self._came, min(most, self._bytes_max), tally)
        except RefusedError:
            hold(-held)
            if most >= self._bytes_max:
                raise
            return None
        self._came = bytearray()
        return data

    def _unpacked(self, came: bytearray, bytes_max: int, hold: Hold) -> bytes:
        if self._encoding in ("gzip", "deflate"):
            return _inflated(came, self._encoding, bytes_max, hold)
        if self._encoding == "snappy":
            _check_size(self._snappy_size or 0, bytes_max)
            return _unsnapped(came, self._snappy_size, hold)
        if self._encoding == "zstd":
            return _from_zstd(came, bytes_max, hold)
        _check_size(len(came), bytes_max)
        hold(len(came))
        return bytes(came)


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise RefusedError(
            "decompressed_too_large",
            f"the body unpacks to more than {most} bytes (ingest.decompressed_bytes_max); send smaller batches",
        )


def _inflated(packed: bytearray, encoding: str, bytes_max: int, hold: Hold) -> bytes:
    """gzip (RFC 1952) and zlib (RFC 1950, which HTTP calls deflate), unpacked step by step."""
    stream = zlib.decompressobj(wbits=31 if encoding == "gzip" else 15)
    out = bytearray()
    view = memoryview(packed)
    for at in range(0, len(packed), _SLICE_BYTES):
        left: bytes | memoryview = view[at : at + _SLICE_BYTES]
        while left:
            if stream.eof:
                raise _trailing(encoding)
            # One byte beyond the limit tells a body that is too large from one that just fits.
            step = min(STEP_BYTES, bytes_max + 1 - len(out))
            hold(step)
            before = len(out)
            try:
                out += stream.decompress(left, step)
            except zlib.error as error:
                raise DataError(f"{encoding} body", f"{encoding} data", str(error)) from error
            hold(len(out) - before - step)
            _check_size(len(out), bytes_max)
            left = stream.unconsumed_tail
        if stream.unused_data:
            raise _trailing(encoding)
    if not stream.eof:
        raise DataError(f"{encoding} body", "its end", f"a body cut off, {len(out)} bytes unpacked")
    return bytes(out)


def _trailing(encoding: str) -> DataError:
    return DataError(f"{encoding} body", "its end", "more bytes behind it; send one gzip member, no padding")


def _unsnapped(packed: bytearray, size: int | None, hold: Hold) -> bytes:
    """Snappy's block format: the size it unpacks to, then literals and copies."""
    if size is None:
        raise DataError("snappy body", "a header with its size", f"{len(packed)} bytes")
    # Checked before anything is allocated: ten bytes cannot make us reserve the whole limit.
    if size * _SNAPPY_IN > len(packed) * _SNAPPY_OUT:
        raise DataError("snappy body", f"a header of at most 64/3 of its {len(packed)} bytes", f"{size}")
    hold(size)
    try:
        return bytes(cramjam.snappy.decompress_raw(packed))
    except cramjam.DecompressionError as error:
        raise DataError("snappy body", "snappy block data", str(error)) from error


def _snappy_size(packed: bytearray) -> int | None:
    """The size in the header, None if it has not all arrived. Errors: DataError if it cannot be one."""
    size = 0
    for i, byte in enumerate(packed[:_SNAPPY_HEADER_BYTES_MAX]):
        size |= (byte & 0x7F) << 7 * i
        if byte < 0x80:
            if size >= 1 << 32:
                raise DataError("snappy body", "a size below 2**32", f"{size}")
            return size
    if len(packed) >= _SNAPPY_HEADER_BYTES_MAX:
        raise DataError("snappy body", "a size of at most 5 bytes", "more; is it really snappy block format?")
    return None


def _from_zstd(packed: bytearray, bytes_max: int, hold: Hold) -> bytes:
    """Zstandard frames (RFC 8878), unpacked into a buffer as large as the limit.

    The buffer is address space: only pages that are written to become memory. How many that will be is not known
    before, so all of it is asked for, and what was not needed is given back.
    """
    hold(bytes_max)
    out = np.empty(bytes_max, np.uint8)
    try:
        size = cramjam.zstd.decompress_into(packed, out.data)
    except cramjam.DecompressionError as error:
        if "failed to write whole buffer" in str(error):
            _check_size(bytes_max + 1, bytes_max)
        raise DataError("zstd body", "zstd frames", str(error)) from error
    hold(size - bytes_max)
    return out[:size].tobytes()
