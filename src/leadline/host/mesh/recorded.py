"""Files of raw stamps that a prober writes (`--record`): a head of 8 bytes, and records of 52. Network byte order.

    "LLPR"  u16 version 1  u16 bytes of a record
    u64 src  u64 dst  u8 label  u8 class  u8 position  u8 kind of stamps  u64 seq  i64 tx_ns  i64 rx_ns  i64 raw_ns

Written by the owner of an edge, for both directions. `raw_ns` is the owner's raw clock at its own end of the packet:
with an injected clock it is the truth. A file whose writer was killed ends within a record; that rest is left out.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import NamedTuple

from leadline.model.errors import DataError

MAGIC = b"LLPR"
VERSION = 1
HEAD = struct.Struct(">4sHH")
RECORD = struct.Struct(">QQBBBBQqqq")


class Probe(NamedTuple):
    """One packet of which both stamps are known. `kind`: 0 user, 1 kernel, 2 hardware."""

    src: int
    dst: int
    label: int
    traffic_class: int
    position: int
    kind: int
    seq: int
    tx_ns: int
    rx_ns: int
    raw_ns: int


def parse_recorded(data: bytes, where: str = "record") -> Iterator[Probe]:
    """The packets of a file, in the order in which they were completed. Errors: DataError."""
    if len(data) < HEAD.size:
        raise DataError(where, f"a head of {HEAD.size} bytes", f"{len(data)} bytes")
    magic, version, bytes_each = HEAD.unpack_from(data)
    if (magic, version, bytes_each) != (MAGIC, VERSION, RECORD.size):
        expected = f"{MAGIC!r}, version {VERSION}, records of {RECORD.size} bytes"
        raise DataError(where, expected, f"{magic!r}, version {version}, {bytes_each} bytes")
    end = HEAD.size + (len(data) - HEAD.size) // RECORD.size * RECORD.size
    for found in RECORD.iter_unpack(data[HEAD.size : end]):
        yield Probe(*found)
