"""Rows of tables: NDJSON, a JSON array, an Arrow stream; segments of event rings, and the ring files themselves."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from tests.fuzz.target import REFUSALS

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import BY_NAME
from leadline.wire.ring.format import read_header, read_segment
from leadline.wire.ring.segments import RingRows, decode_ring, decode_rings
from leadline.wire.rows import JSON, NDJSON, decode_arrow, decode_rows

# The first byte chooses; between them they have columns of every type. New ones go to the end: kept inputs count.
TABLES = ("event", "step", "collective", "message_end", "relation", "operation", "suspect", "cause")
_NAMES = [f'"{column.name}":' for name in TABLES for column in BY_NAME[name].given]
_VALUES = ['"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a"', '{"k":"v"}', '["x"]', "null", "true", "1e999", "NaN",
           "-9223372036854775809", "18446744073709551615", '"\\ud800"', "\n\n"]  # fmt: skip
WORDS = {
    "ndjson": [*_NAMES, *_VALUES],
    "rows_json": [*_NAMES, *_VALUES],
    "arrow": [column.name for name in TABLES for column in BY_NAME[name].given],
}
ROWS_MAX, ARROW_BYTES_MAX = 100_000, 16 << 20
SPLIT = b"\n"


def ndjson(data: bytes) -> None:
    """Rows as NDJSON. Each line alone, and a JSON array of them all, say the same."""
    if not data:
        return
    table, body = BY_NAME[TABLES[data[0] % len(TABLES)]], data[1:]
    lines = [line for line in body.split(SPLIT) if line.strip()]
    try:
        columns = decode_rows(body, NDJSON[0], table)
    except (DataError, RefusedError):
        assert not all(_taken(lambda line=line: decode_rows(line, NDJSON[0], table)) for line in lines), (  # type: ignore[misc]
            "every line alone is taken, together they are not"
        )
        return
    alone = [decode_rows(line, NDJSON[0], table) for line in lines]
    array = decode_rows(b"[" + b",".join(lines) + b"]", JSON, table)
    assert columns == array, "as an array they are other rows"
    assert columns == {name: [value for each in alone for value in each[name]] for name in columns}
    assert {len(values) for values in columns.values()} == {len(lines)}
    _storable(columns)


def rows_json(data: bytes) -> None:
    """Rows as a JSON array."""
    if not data:
        return
    with contextlib.suppress(DataError, RefusedError):
        _storable(decode_rows(data[1:], JSON, BY_NAME[TABLES[data[0] % len(TABLES)]]))


def arrow(data: bytes) -> None:
    """Rows as an Arrow stream: what is taken is sound, whole and within its bounds."""
    if not data:
        return
    table = BY_NAME[TABLES[data[0] % len(TABLES)]]
    with contextlib.suppress(DataError, RefusedError):
        rows = decode_arrow(data[1:], table, ROWS_MAX, ARROW_BYTES_MAX)
        rows.validate(full=True)
        assert rows.column_names == [column.name for column in table.given]
        assert rows.num_rows <= ROWS_MAX
        for column in table.given:
            assert column.nullable or not rows[column.name].null_count


def ring(data: bytes) -> None:
    """A ring file. Read to its end, whatever was read of it decodes or is refused."""
    with contextlib.suppress(DataError):
        read_header(data)
    last = 0
    with contextlib.suppress(*REFUSALS):
        for _ in range(100):
            reading = read_segment(data, last, 1024)
            assert reading.last >= last, "it went back"
            if reading.segment:
                decode_ring(reading.segment)
            if not reading.more:
                return
            assert reading.last > last, "there is more, but it does not move"
            last = reading.last


def ring_segments(data: bytes) -> None:
    """A body of segments. Twice together it gives each row twice."""
    try:
        one = decode_ring(data)
    except (DataError, RefusedError):
        assert not _taken(lambda: decode_rings([data, data])), "refused alone, taken together"
        return
    with contextlib.suppress(RefusedError):
        _agrees(one, decode_rings([data, data]))


def _agrees(one: RingRows, two: RingRows) -> None:
    assert one.tables.keys() == two.tables.keys()
    for name, rows in one.tables.items():
        rows.validate(full=True)
        assert two.tables[name].num_rows == 2 * rows.num_rows
        assert np.bincount(two.bodies[name], minlength=2).tolist() == [rows.num_rows] * 2
    assert (two.records, two.lost, two.unknown) == (2 * one.records, 2 * one.lost, 2 * one.unknown)


def _taken(decode: Callable[[], object]) -> bool:
    try:
        decode()
    except (DataError, RefusedError):
        return False
    return True


def _storable(columns: dict[str, list[Any]]) -> None:
    for values in columns.values():
        for value in values:
            str(value).encode()
