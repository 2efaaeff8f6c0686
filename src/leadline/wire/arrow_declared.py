"""What an Arrow IPC stream says it will unpack to, read before anything is unpacked.

Buffers of a record batch may be compressed (LZ4, ZSTD); each then begins with its unpacked length, and pyarrow
allocates that length before it looks at the data. A body of some hundred bytes can so ask for terabytes. Here
the lengths are summed first, from the flatbuffers of the messages:

    Message      0 version  1 header_type  2 header  3 bodyLength          fields by number in the vtable
    RecordBatch  0 length   1 nodes        2 buffers 3 compression         buffers: (offset i64, length i64) each
    Dictionary   0 id       1 data (a RecordBatch)

Source: apache/arrow, format/Message.fbs; flatbuffers internals (tables, vtables, vectors).
"""

from __future__ import annotations

import struct

import pyarrow as pa

from leadline.model.errors import RefusedError

_DICTIONARY, _RECORDS = 2, 3  # Message.header_type
_STORED = -1  # unpacked length of a buffer that was not worth compressing


def too_large(rows_max: int, bytes_max: int) -> RefusedError:
    """The refusal of a stream over its limits."""
    return RefusedError(
        "decompressed_too_large", f"more than {rows_max} rows or {bytes_max} bytes in one Arrow body; send several"
    )


def check_declared(body: bytes, rows_max: int, bytes_max: int) -> None:
    """Check the rows and bytes that all record batches and dictionaries of a stream declare.

    Errors: RefusedError if over the limits; any exception of pyarrow or struct for bytes that are no stream.
    """
    rows = size = 0
    for message in pa.ipc.MessageReader.open_stream(pa.py_buffer(body)):
        if message.type not in ("record batch", "dictionary"):
            continue
        more_rows, more_bytes = _declared(message.metadata.to_pybytes(), memoryview(message.body))
        if message.type == "record batch":
            rows += more_rows
        size += more_bytes
        if max(rows, more_rows) > rows_max or size > bytes_max:
            raise too_large(rows_max, bytes_max)


def _declared(metadata: bytes, body: memoryview) -> tuple[int, int]:
    """Rows and unpacked bytes of one message. Errors: struct.error, ValueError for a broken flatbuffer."""
    (root,) = struct.unpack_from("<I", metadata, 0)
    batch = _table(metadata, root, 2)
    if _kind(metadata, root) == _DICTIONARY:
        batch = _table(metadata, batch, 1)
    rows_at = _field(metadata, batch, 0)
    rows = struct.unpack_from("<q", metadata, rows_at)[0] if rows_at else 0
    if rows < 0:
        raise ValueError(f"a record batch of {rows} rows")
    compressed = _field(metadata, batch, 3) != 0
    buffers_at = _field(metadata, batch, 2)
    if not buffers_at:
        return rows, 0
    vector = buffers_at + struct.unpack_from("<I", metadata, buffers_at)[0]
    (count,) = struct.unpack_from("<I", metadata, vector)
    if count > len(metadata) // 16:
        raise ValueError(f"{count} buffers in {len(metadata)} bytes")
    total = 0
    for number in range(count):
        offset, length = struct.unpack_from("<qq", metadata, vector + 4 + 16 * number)
        total += _unpacked(body, offset, length) if compressed else max(length, 0)
    return rows, total


def _unpacked(body: memoryview, offset: int, length: int) -> int:
    if length < 8 or offset < 0 or offset + length > len(body):
        return 0 if length == 0 else _broken(offset, length)
    (unpacked,) = struct.unpack_from("<q", body, offset)
    if unpacked == _STORED:
        return length - 8
    return int(unpacked) if unpacked >= 0 else _broken(offset, unpacked)


def _broken(offset: int, length: int) -> int:
    raise ValueError(f"a compressed buffer of {length} bytes at {offset}")


def _kind(metadata: bytes, message: int) -> int:
    at = _field(metadata, message, 1)
    return metadata[at] if at else 0


def _field(metadata: bytes, table: int, number: int) -> int:
    """Place of a table's field, 0 if it is absent. Errors: struct.error outside of the bytes."""
    (back,) = struct.unpack_from("<i", metadata, table)
    vtable = table - back
    if vtable < 0:
        raise ValueError("a vtable before the message")
    (size,) = struct.unpack_from("<H", metadata, vtable)
    slot = 4 + 2 * number
    if slot + 2 > size:
        return 0
    (offset,) = struct.unpack_from("<H", metadata, vtable + slot)
    return table + offset if offset else 0


def _table(metadata: bytes, table: int, number: int) -> int:
    at = _field(metadata, table, number)
    if not at:
        raise ValueError(f"a message without field {number}")
    return int(at + struct.unpack_from("<I", metadata, at)[0])
