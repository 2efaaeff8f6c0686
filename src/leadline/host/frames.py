"""The bytes of the spool: items framed so that a torn end is seen and cut. Pure.

    file     = "LLSPOOL1" frame*
    frame    = u32 length, u32 crc32 of the rest | payload
    payload  = 16 bytes batch id, u32 rows, four lengths (u16 path, type, mark; u32 at), path, type, mark, at, body

A process that is killed in the middle of a write leaves a frame whose length or check sum does not fit: everything
before it is whole. The same bytes are sent until they are acknowledged, so a retry is the same request.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from typing import NamedTuple

MAGIC = b"LLSPOOL1"
_FRAME = struct.Struct("<II")
_ITEM = struct.Struct("<16sIHHHI")  # `at` may be long: the edges that hold
FRAME_HEAD_BYTES = _FRAME.size
ITEM_BYTES_MAX = 16 * 1024 * 1024  # of one body; the server takes 32 MiB


class Item(NamedTuple):
    """One request to be: where to, what, and up to where its source is read when it is kept (`mark` is at `at`)."""

    path: str
    content_type: str
    body: bytes
    batch: bytes  # 16 bytes, sent as Leadline-Batch
    rows: int  # rows or samples in it
    mark: str = ""
    at: str = ""


class Framed(NamedTuple):
    """A frame that was found whole: its item, and where in the file the next one begins."""

    item: Item
    end: int


def to_frame(item: Item) -> bytes:
    """The bytes of one item."""
    texts = [text.encode("utf-8", "surrogateescape") for text in (item.path, item.content_type, item.mark, item.at)]
    head = _ITEM.pack(item.batch, item.rows, *(len(text) for text in texts))
    payload = b"".join((head, *texts, item.body))
    return _FRAME.pack(len(payload), zlib.crc32(payload)) + payload


def payload_bytes(head: bytes) -> int:
    """How many bytes follow the head of a frame, as far as they can be: 0 for one cut short, at most one item's."""
    size = int(_FRAME.unpack(head)[0]) if len(head) == _FRAME.size else 0
    return size if size <= ITEM_BYTES_MAX + 4 * 65_536 + _ITEM.size else 0


def frames(data: bytes | memoryview, at: int = len(MAGIC)) -> Iterator[Framed]:
    """The whole frames of a file from byte `at` on; stops, without an error, where one does not fit."""
    view = memoryview(data)
    while at + _FRAME.size <= len(view):
        size, check = _FRAME.unpack_from(view, at)
        payload = view[at + _FRAME.size : at + _FRAME.size + size]
        if len(payload) != size or zlib.crc32(payload) != check:
            return
        item = _item(bytes(payload))
        if item is None:
            return
        at += _FRAME.size + size
        yield Framed(item, at)


def _item(payload: bytes) -> Item | None:
    """The item of a payload, or None for one that nobody of ours wrote."""
    if len(payload) < _ITEM.size:
        return None
    batch, rows, *sizes = _ITEM.unpack_from(payload)
    at, texts = _ITEM.size, []
    for size in sizes:
        if at + size > len(payload):
            return None
        texts.append(payload[at : at + size].decode("utf-8", "surrogateescape"))  # a mark may hold any file's name
        at += size
    path, content_type, mark, mark_at = texts
    return Item(path, content_type, payload[at:], batch, rows, mark, mark_at)
