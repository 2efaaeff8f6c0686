"""What all rings had at one look, as few requests. Pure."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from hashlib import blake2b

from leadline.host.found import Segment
from leadline.host.frames import Item
from leadline.wire.ring.format import SEGMENT, SEGMENT_HEADER_BYTES

RING_PATH, RING_TYPE = "/api/v1/ring", "application/octet-stream"
# Of one request: 32,000 records, one file of the spool by default. Eight ranks at 20 steps/s fill a twentieth of it.
# As a segment has 304 bytes at least, it holds 6,900 of them at most; the server takes 10,000.
PARCEL_BYTES_MAX = 2 * 1024 * 1024


def parcels(segments: Iterable[Segment], after_ns: int) -> Iterator[Item]:
    """Requests of whole segments, in their order; each remembers how far it has read every ring in it.

    `after_ns`: everything seen up to then was found before (see `Item`).
    """
    some: list[Segment] = []
    size = 0
    for segment in segments:
        if some and size + len(segment.body) > PARCEL_BYTES_MAX:
            yield _parcel(some, after_ns)
            some, size = [], 0
        some.append(segment)
        size += len(segment.body)
    if some:
        yield _parcel(some, after_ns)


def parts(item: Item) -> list[Item]:
    """The segments of a request as requests of their own, none if there is but one.

    For a request that was refused: one ring that somebody spoilt shall not cost what the others told. The same item
    gives the same parts, so that after a kill they are known to the server.
    """
    if item.path != RING_PATH:
        return []
    bodies = list(_split(item.body))
    if len(bodies) < 2:
        return []
    return [item._replace(body=body, batch=_batch(item, n), rows=_records(body)) for n, body in enumerate(bodies)]


def _parcel(segments: list[Segment], after_ns: int) -> Item:
    body = b"".join(each.body for each in segments)
    marks = {each.mark: str(each.at) for each in segments}  # of two segments of one ring the later stands
    records = sum(each.records for each in segments)
    return Item(RING_PATH, RING_TYPE, body, os.urandom(16), records, tuple(marks.items()), after_ns)


def _split(body: bytes) -> Iterator[bytes]:
    at = 0
    while at + SEGMENT_HEADER_BYTES <= len(body):
        size = SEGMENT.unpack_from(body, at)[3]
        if size < SEGMENT_HEADER_BYTES or at + size > len(body):
            break
        yield body[at : at + size]
        at += size
    if at < len(body):
        yield body[at:]


def _records(body: bytes) -> int:
    return int(SEGMENT.unpack_from(body)[6]) if len(body) >= SEGMENT.size else 0


def _batch(item: Item, number: int) -> bytes:
    return blake2b(item.batch + number.to_bytes(4, "big"), digest_size=16).digest()
