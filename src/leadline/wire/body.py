"""The body of a request, unpacked as it arrives and bounded at every byte. No sockets: the caller brings chunks.

    body = Body("snappy", body_bytes_max=16 << 20, decompressed_bytes_max=64 << 20)
    for chunk in chunks:
        body.feed(chunk)          # refuses at the first byte too many
    data = body.finish()

A bomb is refused as cheaply as its format allows: snappy by its header, within the first 5 bytes; gzip and
deflate while they unpack, never holding more than the limit; zstd when the output buffer is full.

Snappy is the block format that remote-write uses. Sources: google/snappy format_description.txt; RFC 1950,
1952, 8878. A gzip body is one member: nobody sends two, and a body of a million empty ones is an attack.
"""

from __future__ import annotations

import zlib
from typing import Final, Protocol

import cramjam
import numpy as np

from leadline.model.errors import DataError, RefusedError

ENCODINGS: Final = ("", "identity", "gzip", "deflate", "snappy", "zstd")

# A snappy copy is 3 bytes and stands for at most 64: nothing unpacks to more than 64/3 of its size.
_SNAPPY_OUT, _SNAPPY_IN = 64, 3
_SNAPPY_HEADER_BYTES_MAX = 5


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
        self._fed_bytes = 0
        self._body_bytes_max = body_bytes_max
        self._unpacker: _Unpacker
        if encoding in ("gzip", "deflate"):
            self._unpacker = _Inflate(encoding, decompressed_bytes_max)
        elif encoding == "snappy":
            self._unpacker = _Snappy(decompressed_bytes_max)
        elif encoding == "zstd":
            self._unpacker = _Zstd(decompressed_bytes_max)
        else:
            self._unpacker = _Identity(decompressed_bytes_max)

    def feed(self, chunk: bytes) -> None:
        """Take the next bytes."""
        self._fed_bytes += len(chunk)
        if self._fed_bytes > self._body_bytes_max:
            raise RefusedError(
                "body_too_large",
                f"the body is over {self._body_bytes_max} bytes (ingest.body_bytes_max); send smaller batches",
            )
        self._unpacker.feed(chunk)

    @property
    def fed_bytes(self) -> int:
        """Bytes fed so far: what this body holds, or held, in memory as it arrived."""
        return self._fed_bytes

    def finish(self) -> bytes:
        """All of the body has been fed. Returns: it, unpacked."""
        return self._unpacker.finish()


class _Unpacker(Protocol):
    def feed(self, chunk: bytes) -> None: ...
    def finish(self) -> bytes: ...


def _check_size(size: int, most: int) -> None:
    if size > most:
        raise RefusedError(
            "decompressed_too_large",
            f"the body unpacks to more than {most} bytes (ingest.decompressed_bytes_max); send smaller batches",
        )


class _Identity:
    """Nothing to unpack."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        _check_size(len(self._data) + len(chunk), self._bytes_max)
        self._data += chunk

    def finish(self) -> bytes:
        return bytes(self._data)


class _Inflate:
    """gzip (RFC 1952) and zlib (RFC 1950, which HTTP calls deflate), unpacked as it arrives."""

    def __init__(self, encoding: str, bytes_max: int) -> None:
        self._encoding = encoding
        self._bytes_max = bytes_max
        self._stream = zlib.decompressobj(wbits=31 if encoding == "gzip" else 15)
        self._data = bytearray()

    def feed(self, chunk: bytes) -> None:
        if not chunk:
            return
        if self._stream.eof:
            raise self._trailing()
        try:
            # One byte beyond the limit tells a body that is too large from one that just fits.
            self._data += self._stream.decompress(chunk, self._bytes_max + 1 - len(self._data))
        except zlib.error as error:
            raise DataError(f"{self._encoding} body", f"{self._encoding} data", str(error)) from error
        _check_size(len(self._data), self._bytes_max)
        if self._stream.unused_data:
            raise self._trailing()

    def finish(self) -> bytes:
        if not self._stream.eof:
            raise DataError(f"{self._encoding} body", "its end", f"a body cut off, {len(self._data)} bytes unpacked")
        return bytes(self._data)

    def _trailing(self) -> DataError:
        return DataError(f"{self._encoding} body", "its end", "more bytes behind it; send one gzip member, no padding")


class _Snappy:
    """Snappy's block format: the size it unpacks to, then literals and copies."""

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._packed = bytearray()
        self._size: int | None = None  # from the header, once it is there

    def feed(self, chunk: bytes) -> None:
        self._packed += chunk
        if self._size is None:
            self._size = _snappy_size(self._packed)
            if self._size is not None:
                _check_size(self._size, self._bytes_max)

    def finish(self) -> bytes:
        if self._size is None:
            raise DataError("snappy body", "a header with its size", f"{len(self._packed)} bytes")
        # Checked before anything is allocated: ten bytes cannot make us reserve the whole limit.
        if self._size * _SNAPPY_IN > len(self._packed) * _SNAPPY_OUT:
            raise DataError(
                "snappy body", f"a header of at most 64/3 of its {len(self._packed)} bytes", f"{self._size}"
            )
        try:
            return bytes(cramjam.snappy.decompress_raw(self._packed))
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


class _Zstd:
    """Zstandard frames (RFC 8878), unpacked at the end into a buffer as large as the limit.

    The buffer is address space: only pages that are written to become memory.
    """

    def __init__(self, bytes_max: int) -> None:
        self._bytes_max = bytes_max
        self._packed = bytearray()

    def feed(self, chunk: bytes) -> None:
        self._packed += chunk

    def finish(self) -> bytes:
        out = np.empty(self._bytes_max, np.uint8)
        try:
            size = cramjam.zstd.decompress_into(self._packed, out.data)
        except cramjam.DecompressionError as error:
            if "failed to write whole buffer" in str(error):
                _check_size(self._bytes_max + 1, self._bytes_max)
            raise DataError("zstd body", "zstd frames", str(error)) from error
        return out[:size].tobytes()
