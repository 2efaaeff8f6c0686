"""The bytes of the spool: items framed so that a torn end is seen and cut. Pure.

    file     = "LLSPOOL2" frame*
    frame    = u32 length, u32 crc32 of the rest | payload
    payload  = 16 bytes batch id, u32 rows, i64 after_ns, three lengths (u16 path, type; u32 marks), path, type, marks,
               body
    marks    = (two lengths (u16 name, u32 at), name, at)*

A process that is killed in the middle of a write leaves a frame whose length or check sum does not fit: everything
before it is whole. The same bytes are sent until they are acknowledged, so a retry is the same request.

Files of an earlier version, "LLSPOOL1", are read as well: their items have one mark, and do not say after when they
were found. Nobody writes them any more.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"LLSPOOL2"
MAGIC_1 = b"LLSPOOL1"
_FRAME = struct.Struct("<II")
_ITEM = struct.Struct("<16sIqHHI")
_ITEM_1 = struct.Struct("<16sIHHHI")  # batch, rows, lengths of path, type, mark, at
_MARK = struct.Struct("<HI")  # `at` may be long: the edges that hold
FRAME_HEAD_BYTES = _FRAME.size
ITEM_BYTES_MAX = 16 * 1024 * 1024  # of one body; the server takes 32 MiB
# Of all that stands before a body: 1,024 rings of 255 letters take 0.3 MiB, the edges of 10,000 neighbours 1.5 MiB.
HEAD_BYTES_MAX = 4 * 1024 * 1024


class Item(NamedTuple):
    """One request to be: where to, what, and up to where its sources are read when it is kept.

    `marks` are (source, up to where); all of them are kept with the item or none is. `after_ns`: everything that was
    seen by this host's clock up to then is in the items before this one (0: not known).
    """

    path: str
    content_type: str
    body: bytes
    batch: bytes  # 16 bytes, sent as Leadline-Batch
    rows: int  # rows or samples in it
    marks: tuple[tuple[str, str], ...] = ()
    after_ns: int = 0


class Framed(NamedTuple):
    """A frame that was found whole: its item, and where in the file the next one begins."""

    item: Item
    end: int


def to_frame(item: Item) -> bytes:
    """The bytes of one item."""
    path, content_type = _encoded(item.path), _encoded(item.content_type)
    marks = b"".join(_mark(name, at) for name, at in item.marks)
    head = _ITEM.pack(item.batch, item.rows, item.after_ns, len(path), len(content_type), len(marks))
    payload = b"".join((head, path, content_type, marks, item.body))
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def payload_bytes(head: bytes) -> int:
    """How many bytes follow the head of a frame, as far as they can be: 0 for one cut short, at most one item's."""
    size = int(_FRAME.unpack(head)[0]) if len(head) == _FRAME.size else 0
    return size if size <= ITEM_BYTES_MAX + HEAD_BYTES_MAX else 0


def frames(data: bytes | memoryview, at: int = len(MAGIC), magic: bytes = MAGIC) -> Iterator[Framed]:
    """The whole frames of a file from byte `at` on; stops, without an error, where one does not fit.

    `magic` is what the file begins with.
    """
    read = {MAGIC: _item, MAGIC_1: _item_1}.get(magic)
    view = memoryview(data)
    while read is not None and at + _FRAME.size <= len(view):
        size, check = _FRAME.unpack_from(view, at)
        payload = view[at + _FRAME.size : at + _FRAME.size + size]
        if len(payload) != size or zlib.crc32(payload) != check:
            return
        item = read(bytes(payload))
        if item is None:
            return
        at += _FRAME.size + size
        yield Framed(item, at)


def _item(payload: bytes) -> Item | None:
    """The item of a payload, or None for one that nobody of ours wrote."""
    if len(payload) < _ITEM.size:
        return None
    batch, rows, after_ns, *sizes = _ITEM.unpack_from(payload)
    parts = _parts(payload, _ITEM.size, sizes)
    if parts is None:
        return None
    path, content_type, marks, body = parts
    found = _marks(marks)
    return None if found is None else Item(_decoded(path), _decoded(content_type), body, batch, rows, found, after_ns)


def _item_1(payload: bytes) -> Item | None:
    """The same of an earlier version."""
    if len(payload) < _ITEM_1.size:
        return None
    batch, rows, *sizes = _ITEM_1.unpack_from(payload)
    parts = _parts(payload, _ITEM_1.size, sizes)
    if parts is None:
        return None
    *texts, body = parts
    path, content_type, name, at = map(_decoded, texts)
    return Item(path, content_type, body, batch, rows, ((name, at),) if name else ())


def _parts(payload: bytes, at: int, sizes: list[int]) -> list[bytes] | None:
    """The parts of a payload, the body last."""
    found = []
    for size in sizes:
        if at + size > len(payload):
            return None
        found.append(payload[at : at + size])
        at += size
    return [*found, payload[at:]]


def _marks(data: bytes) -> tuple[tuple[str, str], ...] | None:
    found = []
    start = 0
    while start < len(data):
        if start + _MARK.size > len(data):
            return None
        parts = _parts(data, start + _MARK.size, list(_MARK.unpack_from(data, start)))
        if parts is None:
            return None
        name, at, rest = parts
        found.append((_decoded(name), _decoded(at)))
        start = len(data) - len(rest)
    return tuple(found)


def _mark(name: str, at: str) -> bytes:
    encoded, value = _encoded(name), _encoded(at)
    return _MARK.pack(len(encoded), len(value)) + encoded + value


def _encoded(text: str) -> bytes:
    return text.encode("utf-8", "surrogateescape")


def _decoded(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")  # a mark may hold any file's name
