"""Requests and replies of the `serve` workload on TCP: a fixed header and a payload. Pure.

    request   2 bytes "rq", 2 spare, 8 number, 4 bytes of payload
    reply     2 bytes "rp", 1 status (0 answered, 1 shed), 1 spare, 8 number, 4 bytes of payload

All numbers big-endian. The payload follows its header.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from leadline.model.errors import DataError

REQUEST, REPLY = b"rq", b"rp"
ANSWERED, SHED = 0, 1
PAYLOAD_MAX = 1 << 20

_HEADER = struct.Struct("!2sBxQI")


class Frame(NamedTuple):
    """One request or reply."""

    kind: bytes
    status: int  # of a reply
    number: int
    payload: bytes


def encode(frame: Frame) -> bytes:
    """The bytes of a frame."""
    return _HEADER.pack(frame.kind, frame.status, frame.number, len(frame.payload)) + frame.payload


class Frames:
    """Frames out of a stream that comes in pieces. Holds one unfinished frame at most."""

    def __init__(self, kind: bytes, where: str) -> None:
        self._kind, self._where = kind, where
        self._rest = bytearray()

    def feed(self, data: bytes) -> list[Frame]:
        """The frames that are whole now. Errors: DataError for what is none; the stream is of no use then."""
        self._rest += data
        found, at = [], 0
        while len(self._rest) - at >= _HEADER.size:
            kind, status, number, size = _HEADER.unpack_from(self._rest, at)
            if kind != self._kind or status not in (ANSWERED, SHED):
                raise DataError(self._where, f"a frame {self._kind!r}", repr((kind, status)))
            if size > PAYLOAD_MAX:
                raise DataError(self._where, f"a payload of at most {PAYLOAD_MAX} bytes", str(size))
            end = at + _HEADER.size + size
            if end > len(self._rest):
                break
            found.append(Frame(kind, status, number, bytes(self._rest[at + _HEADER.size : end])))
            at = end
        del self._rest[:at]
        return found
