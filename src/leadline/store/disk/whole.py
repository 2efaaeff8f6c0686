"""Whether a part is whole: each of its files holds what the engine meant to write, by the part's own list of checksums.

    checksums.txt    "checksums format version: 4\\n", then compressed blocks of
                     count { name, size, hash 16, is compressed 1 [, size, hash 16] }      lengths and sizes are varints
    compressed block hash 16 | method 1: 0x82 LZ4, 0x90 ZSTD | bytes with this header 4 | bytes unpacked 4 | packed

The engine goes on after a write that failed (chDB 26.9), so a file is then shorter than its list says. Sums of bytes do
not show that where little is missing: five files are not in the list, with a kilobyte together, and those are looked
at by themselves. A part takes some 0.1 ms; contents are not read.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import cramjam

LIST = "checksums.txt"
_HEAD = b"checksums format version: 4\n"
_LZ4, _ZSTD = 0x82, 0x90
_HASH_BYTES, _BLOCK_BYTES = 16, 9
LIST_BYTES_MAX = 16 << 20  # of the list, unpacked: a table of 10,000 columns has 2 MB


class _UnknownError(Exception):
    """A way of packing that this module does not know: cannot tell."""


def lacking(part: Path) -> str:
    """What a part lacks, in words; empty for a whole one, and for one that is gone meanwhile. Errors: none."""
    try:
        with os.scandir(part) as entries:
            there = {entry.name: entry.stat().st_size for entry in entries}
        why = _lacking(part, there)
    except OSError as error:
        why = f"it cannot be read: {error.strerror}"
    return why if why and part.exists() else ""


def _lacking(part: Path, there: dict[str, int]) -> str:
    try:
        meant = sizes_meant((part / LIST).read_bytes() if LIST in there else b"")
    except ValueError as error:
        return f"{LIST}: {error}"
    for name, size_bytes in meant.items():
        if there.get(name) != size_bytes:
            return f"{name} has {there.get(name, 'no')} of {size_bytes} bytes"
    for name, is_whole in _UNLISTED.items():
        if name in there and name not in meant and not is_whole((part / name).read_text(errors="replace")):
            return f"{name} is cut off"
    return "" if "columns.txt" in there else "columns.txt is missing"


def sizes_meant(text: bytes) -> dict[str, int]:
    """Bytes of each file by a list of checksums; none by one that a later engine wrote. Errors: ValueError: cut off."""
    if not text.startswith(_HEAD):
        if text.startswith(_HEAD[: _HEAD.index(b"4")]) and len(text) > len(_HEAD):
            return {}
        raise ValueError("it is empty" if not text else "it does not begin as it should")
    try:
        return _files(_unpacked(text[len(_HEAD) :]))
    except _UnknownError:
        return {}
    except IndexError:
        raise ValueError("it is cut off") from None
    except cramjam.DecompressionError as error:
        raise ValueError(f"it cannot be unpacked: {error}") from error


def _unpacked(blocks: bytes) -> bytes:
    out, at = b"", 0
    while at < len(blocks):
        head = blocks[at + _HASH_BYTES : at + _HASH_BYTES + _BLOCK_BYTES]
        if len(head) < _BLOCK_BYTES:
            raise IndexError
        method = head[0]
        packed_bytes, plain_bytes = (int.from_bytes(head[place : place + 4], "little") for place in (1, 5))
        end = at + _HASH_BYTES + packed_bytes
        if packed_bytes < _BLOCK_BYTES or end > len(blocks) or len(out) + plain_bytes > LIST_BYTES_MAX:
            raise IndexError
        packed = blocks[at + _HASH_BYTES + _BLOCK_BYTES : end]
        if method == _LZ4:
            out += bytes(cramjam.lz4.decompress_block(packed, output_len=plain_bytes))
        elif method == _ZSTD:
            out += bytes(cramjam.zstd.decompress(packed))
        else:
            raise _UnknownError
        at = end
    return out


def _files(text: bytes) -> dict[str, int]:
    found: dict[str, int] = {}
    count, at = _varint(text, 0)
    for _ in range(count):
        length, at = _varint(text, at)
        name, at = text[at : at + length].decode(errors="replace"), at + length
        found[name], at = _varint(text, at)
        at += _HASH_BYTES
        if text[at]:
            _, at = _varint(text, at + 1)
            at += _HASH_BYTES
        else:
            at += 1
    if at > len(text):
        raise IndexError
    return found


def _varint(text: bytes, at: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = text[at]
        value |= (byte & 0x7F) << shift
        at, shift = at + 1, shift + 7
        if byte < 0x80:
            return value, at


# --- files that no list has ------------------------------------------------------------------------------------------


def _columns(text: str) -> bool:
    """A line for each of the columns that the second line counts."""
    lines = text.split("\n")
    return len(lines) > 2 and lines[-1] == "" and lines[1].split(" ")[0] == str(len(lines) - 3)


def _substreams(text: str) -> bool:
    """Behind each line that counts them, as many that begin with a tab."""
    lines = text.split("\n")
    wanted = 0
    for line in lines[2:-1]:
        if line.startswith("\t"):
            wanted -= 1
        elif wanted == 0 and line.split(" ")[0].isdigit():
            wanted = int(line.split(" ")[0])
        else:
            return False
    columns = sum(not line.startswith("\t") for line in lines[2:-1])
    return wanted == 0 and lines[-1] == "" and len(lines) > 2 and lines[1].split(" ")[0] == str(columns)


_UNLISTED: dict[str, Callable[[str], bool]] = {
    "columns.txt": _columns,
    "columns_substreams.txt": _substreams,
    "default_compression_codec.txt": lambda text: text.endswith(")"),
    "metadata_version.txt": lambda text: text.strip().isdigit(),
}
