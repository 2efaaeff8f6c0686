"""One suite for every table: from a sender's JSON or Arrow into the embedded store and back, by its own identity."""

from __future__ import annotations

import json
import struct
import time
from itertools import count
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from leadline.model.ids import ENTITY_KINDS
from leadline.model.tables import BY_NAME, TABLES, Column, Identity, Partition, Table, Type
from leadline.model.units import UNITS
from leadline.store import Store, arrow_schema, arrow_table
from leadline.store.schema import clickhouse_type
from leadline.wire.rows import decode_arrow, decode_rows

NOW_NS = time.time_ns() // 10**9 * 10**9
CLUSTER = "é"
LAW = settings(deadline=None, max_examples=6, suppress_health_check=list(HealthCheck))
every = pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
tenants = (f"tenant-{number}" for number in count())

TEXTS = st.one_of(
    st.sampled_from(["", "a", "é'\\\n\t\"", "\0", "{x:String}", "NULL", "\U0001f9ed"]),
    st.text(st.characters(exclude_categories=["Cs"]), max_size=8),
)
FLOATS = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False), st.sampled_from([0.0, -0.0, 5e-324, 1.7976931348623157e308])
)
VALUES: dict[Type, st.SearchStrategy[Any]] = {
    Type.SYM: TEXTS,
    Type.SYMS: st.lists(TEXTS, max_size=3, unique=True),
    Type.STR: TEXTS,
    Type.I64: st.one_of(st.sampled_from([-(2**63), -1, 0, 2**63 - 1]), st.integers(-(2**63), 2**63 - 1)),
    Type.U64: st.one_of(st.sampled_from([0, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1)),
    Type.U128: st.one_of(st.sampled_from([0, 2**64 - 1, 2**64, 2**127, 2**128 - 1]), st.integers(0, 2**128 - 1)),
    Type.F64: FLOATS,
    Type.BOOL: st.booleans(),
    Type.MAP: st.dictionaries(TEXTS, TEXTS, max_size=3),
}
# The time column decides the partition: around now, months ago, and on both sides of a midnight.
TIMES = st.one_of(
    st.integers(NOW_NS - 90 * 86400 * 10**9, NOW_NS),
    st.sampled_from([NOW_NS // (86400 * 10**9) * 86400 * 10**9 + step for step in (-1, 0, 1)]),
)
NAN_BITS = (0x7FF0000000000002, 0x7FF8000000000001, 0x7FF8000000000000, 0xFFF8000000000000)


def values(table: Table, column: Column, json_only: bool) -> st.SearchStrategy[Any]:
    if column.name == table.time:
        return TIMES
    if table.identity is Identity.REVISION and column.name in ("version", "revision"):
        return st.one_of(st.sampled_from([0, 1, 2**32 - 1]), st.integers(0, 2**32 - 1))
    if table.identity is Identity.REVISION and column.name == table.newest:
        return st.one_of(st.sampled_from([0, 1, 2**63 - 1]), st.integers(0, 2**63 - 1))
    plain = VALUES[column.type]
    if column.type is Type.F64 and not json_only:
        plain = st.one_of(plain, st.sampled_from([double(bits) for bits in NAN_BITS] + [float("inf"), float("-inf")]))
    return st.one_of(plain, st.none()) if column.nullable else plain


def rows_of(table: Table, json_only: bool) -> st.SearchStrategy[list[dict[str, Any]]]:
    """Rows as a sender gives them: every column but those that the way in adds."""
    one = st.fixed_dictionaries({column.name: values(table, column, json_only) for column in table.given})
    return st.lists(one, min_size=1, max_size=6)


def double(bits: int) -> float:
    return float(struct.unpack("<d", struct.pack("<Q", bits))[0])


def comparable(column: Column, value: Any) -> Any:
    """A value such that equal means the same bits."""
    if value is None:
        return None
    if column.type is Type.F64:
        return struct.pack("<d", value)
    if column.type is Type.MAP:
        return dict(value)
    if column.type is Type.U128:
        return value if isinstance(value, int) else int.from_bytes(value, "little")
    return value


def in_json(column: Column, value: Any) -> Any:
    """A value as a sender writes it in JSON: ids are 32 hex digits."""
    return f"{value:032x}" if column.type is Type.U128 and value is not None else value


def completed(table: Table, columns: dict[str, Any] | pa.Table, size: int, tenant: str, batch: int = 7) -> pa.Table:
    """What the way in adds, added."""
    given_columns = columns if isinstance(columns, dict) else {n: columns[n] for n in columns.column_names}
    more: dict[str, Any] = {"tenant": [tenant] * size, "cluster": [CLUSTER] * size}
    if table.identity is Identity.BATCH:
        more |= {"batch": [batch] * size, "batch_row": list(range(size))}
    return arrow_table(table, {**given_columns, **more})


def expected(table: Table, rows: list[dict[str, Any]], tenant: str, batch: int = 7) -> dict[Any, dict[str, Any]]:
    """The rows by the declared key, each as it must be read: of one key the newest, of equally new ones the last."""
    out: dict[Any, dict[str, Any]] = {}
    for place, row in enumerate(rows):
        whole = {"tenant": tenant, "cluster": CLUSTER, **row}
        if table.identity is Identity.BATCH:
            whole |= {"batch": batch, "batch_row": place}
        seen = {column.name: comparable(column, whole[column.name]) for column in table.columns}
        key = tuple(seen[name] for name in table.key)
        out[key] = read_of(table, out.get(key, seen), seen)
    return out


def read_of(table: Table, first: dict[str, Any], second: dict[str, Any]) -> dict[str, Any]:
    """Which of two rows of one key a query reads: the newest where the table says what is newer, then the latest
    judgement, else the last."""
    newer_by = [table.newest] if table.newest else []
    newer_by += ["version", "revision"] if table.identity is Identity.REVISION else []
    return first if [first[name] for name in newer_by] > [second[name] for name in newer_by] else second


def stored(store: Store, table: Table, tenant: str) -> dict[Any, dict[str, Any]]:
    """The rows of a tenant as a query reads them, by the declared key; twice the same key is an error."""
    answer = store.query(f"SELECT * FROM leadline.{table.name} WHERE tenant = {{t:String}}", {"t": tenant})
    out: dict[Any, dict[str, Any]] = {}
    for row in answer.to_pylist():
        seen = {column.name: comparable(column, row[column.name]) for column in table.columns}
        key = tuple(seen[name] for name in table.key)
        assert key not in out, f"two rows of one key {key}"
        out[key] = seen
    return out


@every
@LAW
@given(data=st.data())
def test_rows_in_json_come_back_as_they_were(store: Store, table: Table, data: st.DataObject) -> None:
    rows, tenant = data.draw(rows_of(table, json_only=True)), next(tenants)
    written = [{column.name: in_json(column, row[column.name]) for column in table.given} for row in rows]
    body = b"\n".join(json.dumps(row, ensure_ascii=data.draw(st.booleans())).encode() for row in written)
    columns = decode_rows(body, "application/x-ndjson", table)
    appended = completed(table, columns, len(rows), tenant)
    store.append(table, appended)
    wanted = expected(table, rows, tenant)
    assert stored(store, table, tenant) == wanted
    store.append(table, appended)
    assert stored(store, table, tenant) == wanted, "a retry stores nothing twice"


@every
@LAW
@given(data=st.data())
def test_rows_in_arrow_come_back_bit_by_bit(store: Store, table: Table, data: st.DataObject) -> None:
    rows, tenant = data.draw(rows_of(table, json_only=False)), next(tenants)
    fields = {
        Type.SYM: pa.string(), Type.SYMS: pa.list_(pa.string()), Type.STR: pa.string(), Type.I64: pa.int64(),
        Type.U64: pa.uint64(), Type.U128: pa.binary(16), Type.F64: pa.float64(), Type.BOOL: pa.bool_(),
        Type.MAP: pa.map_(pa.string(), pa.string()),
    }  # fmt: skip
    arrays = {}
    for column in table.given:
        cells = [row[column.name] for row in rows]
        if column.type is Type.U128:
            cells = [cell if cell is None else cell.to_bytes(16, "little") for cell in cells]
        elif column.type is Type.MAP:
            cells = [cell if cell is None else list(cell.items()) for cell in cells]
        arrays[column.name] = pa.array(cells, fields[column.type])
    out = pa.BufferOutputStream()
    batch = pa.table(arrays)
    with pa.ipc.new_stream(out, batch.schema) as writer:
        writer.write_table(batch)
    decoded = decode_arrow(out.getvalue().to_pybytes(), table)
    store.append(table, completed(table, decoded, len(rows), tenant))
    assert stored(store, table, tenant) == expected(table, rows, tenant)


@every
@LAW
@given(data=st.data())
def test_the_key_is_what_makes_a_row_itself(store: Store, table: Table, data: st.DataObject) -> None:
    """A row that differs in one column of the key is another row; one that differs elsewhere takes its place."""
    (row,), tenant = data.draw(rows_of(table, json_only=True).map(lambda rows: rows[:1])), next(tenants)
    column = data.draw(st.sampled_from(table.given))
    value = row[column.name]
    changed = data.draw(
        values(table, column, True).filter(lambda new: comparable(column, new) != comparable(column, value))
    )
    other = {**row, column.name: changed}
    for each in (row, other):
        columns = {c.name: [each[c.name]] for c in table.given}
        store.append(table, completed(table, columns, 1, tenant))
    found = stored(store, table, tenant)
    assert len(found) == (2 if column.name in table.key else 1)
    # Rows of one key in two partitions are read once, but which of them is not defined: whoever writes a table whose
    # time is no part of its key (message, incident, cause) gives a changed time a new revision.
    if column.name != table.time or column.name in table.key or table.partition is Partition.NONE:
        first, second = expected(table, [row], tenant), expected(table, [other], tenant)
        both = {key: read_of(table, first[key], second[key]) for key in first.keys() & second.keys()}
        assert found == first | second | both


@every
def test_another_batch_is_another_row_where_batches_count(store: Store, table: Table) -> None:
    tenant = next(tenants)
    simple = {
        Type.SYM: "a", Type.SYMS: ["a"], Type.STR: "a", Type.I64: 1, Type.U64: 1, Type.U128: 1, Type.F64: 1.0,
        Type.BOOL: True, Type.MAP: {},
    }  # fmt: skip
    row = {column.name: simple[column.type] for column in table.given} | {table.time: NOW_NS}
    for batch in (1, 2, 1):
        columns = {name: [value] for name, value in row.items()}
        store.append(table, completed(table, columns, 1, tenant, batch))
    assert len(stored(store, table, tenant)) == (2 if table.identity is Identity.BATCH else 1)


@every
def test_the_stored_columns_are_the_declared_ones(store: Store, table: Table) -> None:
    rows = store.query(
        "SELECT name, type FROM system.columns WHERE database = 'leadline' AND table = {table:String} "
        "AND default_kind = '' ORDER BY position",
        {"table": table.name},
    ).to_pylist()
    assert [(row["name"], row["type"]) for row in rows] == [(c.name, clickhouse_type(c)) for c in table.columns]
    answer = store.query(f"SELECT * FROM leadline.{table.name} LIMIT 0")
    wanted = arrow_schema(table)
    assert answer.column_names in (wanted.names, []), "an empty answer may come without columns"
    assert [field.nullable for field in wanted] == [column.nullable for column in table.columns]


@every
def test_the_declaration_is_complete(table: Table) -> None:
    assert table.doc.endswith(".")
    assert table.doc[0].isupper()
    assert table.written_by
    assert table.keep_hours > 0
    assert BY_NAME[table.name] is table
    assert table.column(table.time).type is Type.I64
    assert not table.column(table.time).nullable
    for column in table.columns:
        assert column.doc, f"{column.name} says nothing"
        assert not column.doc.endswith(".") or column.doc.endswith("..."), "a column's meaning is a phrase"
        assert column.unit is None or column.unit in UNITS, f"{column.name}: {column.unit}"
        if column.name.endswith("_ns"):
            assert column.unit == "ns", column.name
            assert column.type in (Type.I64, Type.F64), f"{column.name}: only a statistic is no integer"
        if column.type in (Type.SYM, Type.SYMS, Type.STR, Type.MAP, Type.BOOL, Type.U128):
            assert column.unit is None, f"{column.name} has no unit to have"


def test_no_two_tables_have_one_name() -> None:
    assert len({table.name for table in TABLES}) == len(TABLES) == len(BY_NAME)


def test_a_column_name_means_one_thing() -> None:
    """Names that say which entity a row is about are kinds of entities, so `job` is a job everywhere."""
    types: dict[str, set[Type]] = {}
    for table in TABLES:
        for column in table.columns:
            types.setdefault(column.name, set()).add(column.type)
    for kind in ENTITY_KINDS:
        assert types.get(kind, set()) <= {Type.SYM, Type.STR, Type.I64, Type.U128}, kind
