"""Laws of rows: what fits comes back unchanged, what does not is refused whole; hostile Arrow bytes raise DataError."""

from __future__ import annotations

import contextlib
import io
import json
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import TABLES, Column, Table, Type
from leadline.wire.rows import decode_arrow, decode_rows

NDJSON = "application/x-ndjson"
plain = st.text(st.characters(exclude_categories=("Cs",)), max_size=6)

VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.SYM: plain,
    Type.SYMS: st.lists(plain, max_size=2),
    Type.STR: plain,
    Type.I64: st.integers(-(2**63), 2**63 - 1),
    Type.U64: st.integers(0, 2**64 - 1),
    Type.U128: st.integers(0, 2**128 - 1),
    Type.F64: st.floats(allow_nan=False, allow_infinity=False),
    Type.BOOL: st.booleans(),
    Type.MAP: st.dictionaries(plain, plain, max_size=2),
}

ARROW: dict[Type, pa.DataType] = {
    Type.SYM: pa.string(),
    Type.SYMS: pa.list_(pa.string()),
    Type.STR: pa.string(),
    Type.I64: pa.int64(),
    Type.U64: pa.uint64(),
    Type.U128: pa.binary(16),
    Type.F64: pa.float64(),
    Type.BOOL: pa.bool_(),
    Type.MAP: pa.map_(pa.string(), pa.string()),
}


def written(column: Column, value: Any) -> Any:
    return f"{value:032x}" if column.type is Type.U128 and value is not None else value


@st.composite
def table_and_rows(draw: st.DrawFn) -> tuple[Table, list[dict[str, Any]]]:
    table = draw(st.sampled_from(TABLES))
    row = st.fixed_dictionaries(
        {c.name: st.none() | VALUES[c.type] if c.nullable else VALUES[c.type] for c in table.given}
    )
    return table, draw(st.lists(row, max_size=3))


def ndjson(table: Table, rows: list[dict[str, Any]], drop_nulls: bool = False) -> bytes:
    lines = []
    for row in rows:
        named = {c.name: written(c, row[c.name]) for c in table.given}
        lines.append(json.dumps({k: v for k, v in named.items() if v is not None or not drop_nulls}))
    return "\n".join(lines).encode()


@settings(max_examples=150, deadline=None)
@given(table_and_rows(), st.booleans())
def test_rows_come_back_unchanged(made: tuple[Table, list[dict[str, Any]]], drop_nulls: bool) -> None:
    table, rows = made
    expected = {c.name: [row[c.name] for row in rows] for c in table.given}
    body = ndjson(table, rows, drop_nulls)
    assert decode_rows(body, NDJSON, table) == expected
    array = b"[" + body.replace(b"\n", b",") + b"]"
    assert decode_rows(array, "application/json", table) == expected


@settings(max_examples=200, deadline=None)
@given(table_and_rows(), st.data())
def test_one_wrong_value_refuses_the_body(made: tuple[Table, list[dict[str, Any]]], data: st.DataObject) -> None:
    table, rows = made
    if not rows:
        return
    column = data.draw(st.sampled_from(table.given))
    wrong = {
        Type.SYM: [1, True, [], {}, "\ud800"],
        Type.STR: [1, 1.5, []],
        Type.SYMS: ["a", [1], [None], {}],
        Type.I64: [1.0, "1", True, 2**63, -(2**63) - 1, []],
        Type.U64: [-1, 2**64, 1.0, False, "1"],
        Type.U128: [1, "0" * 31, "g" * 32, "0" * 33, " " * 32, "+" + "0" * 31, "0_" * 16],
        Type.F64: ["1", True, [], 10**400],
        Type.BOOL: [0, 1, "true"],
        Type.MAP: [[], "a", {"a": 1}, {"a": None}, {"a": {}}],
    }[column.type]
    bad = {c.name: written(c, rows[-1][c.name]) for c in table.given}
    bad[column.name] = data.draw(st.sampled_from([*wrong, *([] if column.nullable else [None])]))
    body = ndjson(table, rows[:-1]) + b"\n" + json.dumps(bad).encode()
    with pytest.raises(DataError, match=f"column {column.name}: expected"):
        decode_rows(body, NDJSON, table)


@settings(max_examples=400, deadline=None)
@given(st.one_of(st.binary(max_size=40), st.text('{}[]:,"-0123456789.eE trufalsn\\\n', max_size=40).map(str.encode)))
def test_any_bytes_decode_or_raise_data_error(body: bytes) -> None:
    for content_type in (NDJSON, "application/json"):
        with contextlib.suppress(DataError):
            decode_rows(body, content_type, TABLES[0])
    with contextlib.suppress(DataError, RefusedError):
        decode_arrow(body, TABLES[0])


def stream(table: pa.Table, compression: str | None = None) -> bytes:
    out = io.BytesIO()
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


def arrow_rows(table: Table, rows: list[dict[str, Any]]) -> pa.Table:
    columns = {}
    for c in table.given:
        values = [row[c.name] for row in rows]
        if c.type is Type.U128:
            values = [None if value is None else value.to_bytes(16, "little") for value in values]
        columns[c.name] = pa.array(values, ARROW[c.type])
    return pa.table(columns)


@settings(max_examples=100, deadline=None)
@given(table_and_rows(), st.sampled_from([None, "lz4", "zstd"]))
def test_arrow_rows_come_back_unchanged(made: tuple[Table, list[dict[str, Any]]], compression: str | None) -> None:
    table, rows = made
    sent = arrow_rows(table, rows)
    assert decode_arrow(stream(sent, compression), table).equals(sent)


@settings(max_examples=400, deadline=None)
@given(table_and_rows(), st.sampled_from([None, "lz4", "zstd"]), st.data())
def test_damaged_arrow_decodes_or_raises_data_error(
    made: tuple[Table, list[dict[str, Any]]], compression: str | None, data: st.DataObject
) -> None:
    table, rows = made
    body = bytearray(stream(arrow_rows(table, rows), compression))
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(body) - 1))
        body[at] = data.draw(st.sampled_from([0, 1, 4, 8, 0x7F, 0x80, 0xFF]))
    with contextlib.suppress(DataError, RefusedError):
        decode_arrow(bytes(body), table, bytes_max=1 << 24).validate(full=True)
