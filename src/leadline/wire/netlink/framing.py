"""Netlink messages and attributes, as bytes. Pure.

Source: include/uapi/linux/netlink.h. Little-endian machines, as everywhere in Leadline.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from leadline.model.errors import DataError

AF_INET, AF_INET6 = 2, 10  # of Linux; `socket` has them too, and is for those who open one
REQUEST, ACK, DUMP = 0x1, 0x4, 0x300
NOOP, ERROR, DONE = 1, 2, 3
_HEADER = struct.Struct("<IHHII")
_ATTRIBUTE = struct.Struct("<HH")
_KIND = 0x3FFF  # without the bits "nested" and "in network order"


class Message(NamedTuple):
    """One netlink message: its type and what follows the header."""

    kind: int
    body: memoryview


def message(kind: int, flags: int, body: bytes, sequence: int = 1) -> bytes:
    """A message with its header."""
    return _HEADER.pack(_HEADER.size + len(body), kind, flags, sequence, 0) + body


def attribute(kind: int, value: bytes) -> bytes:
    """An attribute, padded to 4 bytes."""
    return _ATTRIBUTE.pack(4 + len(value), kind) + value + b"\0" * (-len(value) % 4)


def messages(data: bytes | memoryview) -> Iterator[Message]:
    """The messages of one datagram. Errors: DataError if a length does not fit."""
    view = memoryview(data)
    at, end = 0, len(view)
    while end - at >= 16:
        size, kind, _, _, _ = _HEADER.unpack_from(view, at)
        if not 16 <= size <= end - at:
            raise DataError(f"netlink message at byte {at}", f"a length of 16 to {end - at}", str(size))
        yield Message(kind, view[at + 16 : at + size])
        at += size + 3 & ~3
    if at < end:
        raise DataError(f"netlink message at byte {at}", "a header of 16 bytes", f"{end - at} bytes")


def attributes(body: bytes | memoryview) -> Iterator[tuple[int, memoryview]]:
    """Kind and value of each attribute. Errors: DataError if a length does not fit."""
    view = memoryview(body)
    at, end = 0, len(view)
    while end - at >= 4:
        size, kind = _ATTRIBUTE.unpack_from(view, at)
        if not 4 <= size <= end - at:
            raise DataError(f"netlink attribute at byte {at}", f"a length of 4 to {end - at}", str(size))
        yield kind & _KIND, view[at + 4 : at + size]
        at += size + 3 & ~3


def number(value: memoryview, form: struct.Struct, where: str) -> int:
    """One number at the start of an attribute's value. Errors: DataError if it is too short."""
    if len(value) < form.size:
        raise DataError(where, f"{form.size} bytes", f"{len(value)} bytes")
    return int(form.unpack_from(value)[0])


def is_last(data: bytes) -> bool:
    """Whether these messages end the answer to a request for all. Errors: DataError."""
    return any(kind in (DONE, ERROR) for kind, _ in messages(data))


def refusal(body: memoryview) -> int:
    """The error number of an ERROR message; 0 is an acknowledgement. Errors: DataError."""
    return -number(body, struct.Struct("<i"), "netlink error message")
