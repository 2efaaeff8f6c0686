"""Which of the formats a trace file is in, and its operations."""

from __future__ import annotations

import json
import zlib

from leadline.model.errors import DataError
from leadline.wire.traces.chakra import read_chakra
from leadline.wire.traces.kineto import read_kineto
from leadline.wire.traces.trace_file import TraceFile
from leadline.wire.traces.whatif_csv import WANTED, read_whatif_csv

BYTES_MAX = 2 << 30  # after unpacking; a trace of 100 steps of one rank has some 100 MB
PIECE = 512  # bytes unpacked at a time where a file is damaged: so much of what comes before the damage is lost at most


def read_trace_file(where: str, data: bytes) -> TraceFile:
    """The operations in the bytes of a file, gzip or not; `where` is its name, for errors.

    A CSV that was cut or damaged is read as far as it goes, and `notes` say so. Errors: DataError.
    """
    notes: list[str] = []
    text = _text(where, data, notes)
    if notes and not text.strip():
        raise DataError(where, WANTED, f"a gzip file that ends or is damaged after {len(data)} bytes")
    if text.lstrip()[:1] in ("{", "["):
        found = _json(where, text, notes)
    else:
        found = read_whatif_csv(where, text[: text.rfind("\n") + 1] if notes else text)
    found.notes[:0] = notes
    return found


def _json(where: str, text: str, notes: list[str]) -> TraceFile:
    try:
        whole = json.loads(text)
    except RecursionError:
        raise DataError(where, WANTED, "JSON nested too deeply") from None
    except ValueError as error:
        got = f"JSON that ends or is damaged after {len(text)} characters" if notes else f"no JSON ({error})"
        raise DataError(where, WANTED, got) from None
    if isinstance(whole, list):  # the Chrome format allows the events alone
        whole = {"traceEvents": whole}
    if "traceEvents" in whole:
        return read_kineto(where, whole)
    if "workload_graph" in whole:
        return read_chakra(where, whole)
    raise DataError(where, WANTED, f"an object with {', '.join(sorted(whole)[:5]) or 'nothing'}")


def _text(where: str, data: bytes, notes: list[str]) -> str:
    if not data.startswith(b"\x1f\x8b"):
        return data.decode("utf-8", "replace")
    unpacked, left = bytearray(), zlib.decompressobj(wbits=31)
    try:
        unpacked += left.decompress(data, BYTES_MAX)
    except zlib.error as error:
        # What came before the damage is found piece by piece, so that one error costs one piece.
        notes.append(f"{where} is damaged: {error}")
        unpacked, left = bytearray(), zlib.decompressobj(wbits=31)
        for at in range(0, len(data), PIECE):
            try:
                unpacked += left.decompress(data[at : at + PIECE])
            except zlib.error:
                break
    if left.unconsumed_tail:
        raise DataError(where, f"at most {BYTES_MAX >> 30} GiB after unpacking", "more")
    if not left.eof:
        notes.append(f"{where} is cut: only what comes before is read, without the last line")
    return unpacked.decode("utf-8", "replace")
