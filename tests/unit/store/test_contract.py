"""What every store does, embedded or server: rows in, the same rows out, once each, within limits."""

from __future__ import annotations

import os
import threading
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leadline.model.errors import DataError, RefusedError, StoreError, UsageError
from leadline.model.principal import Principal, Role
from leadline.model.tables import BY_NAME, TABLES, Identity, Table, Type
from leadline.store import Limits, Store, arrow_schema, arrow_table

NOW_NS = time.time_ns() // 10**9 * 10**9
STALE_NAN_BITS = 0x7FF0000000000002

SAMPLES: dict[Type, list[Any]] = {
    Type.SYM: ["a", "", "é'\\\n"],
    Type.SYMS: [["x", "y"], [], ["é"]],
    Type.STR: ["text", "", 'quote " and \\ and \t'],
    Type.I64: [0, -(2**63) + 1, 2**63 - 1],
    Type.U64: [0, 1, 2**64 - 1],
    Type.U128: [b"\0" * 16, b"\1" * 16, b"\xff" * 16],
    Type.F64: [0.5, -1e300, float("inf")],
    Type.BOOL: [True, False, True],
    Type.MAP: [[("k", "v"), ("é", "")], [], [("k'", "\\")]],
}


def rows_of(table: Table, tenant: str, nulls: bool = False) -> pa.Table:
    """Three rows with the corner values of every type, nulls where they may be."""
    columns: dict[str, Any] = {column.name: SAMPLES[column.type] for column in table.columns}
    if nulls:
        columns |= {column.name: [None] * 3 for column in table.columns if column.nullable}
    columns["tenant"] = [tenant] * 3
    if table.age and columns[table.age][0] is not None:  # of 1970 a row would be dropped as soon as parts are merged
        columns[table.age] = [NOW_NS] * 3
    columns[table.time] = [NOW_NS, NOW_NS + 1, NOW_NS + 2]
    if table.identity is Identity.REVISION:  # below 0 it takes a row back
        columns["revision"] = [0, 1, 2**31 - 1]
    return arrow_table(table, columns)


def sample_rows(tenant: str, count: int, value: float = 1.0, series: int = 7) -> pa.Table:
    ids = np.zeros((count, 2), np.uint64)
    ids[:, 0] = series
    return arrow_table(
        BY_NAME["metric_sample"],
        {
            "tenant": [tenant] * count,
            "cluster": ["c"] * count,
            "series": ids,
            "time_ns": NOW_NS + np.arange(count),
            "value": np.full(count, value),
        },
    )


def plain(rows: pa.Table) -> list[dict[str, Any]]:
    return rows.to_pylist()


@pytest.mark.parametrize("nulls", [False, True], ids=["values", "nulls"])
@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_every_table_gives_back_what_it_was_given(store: Store, table: Table, nulls: bool) -> None:
    tenant = f"same-{table.name}-{nulls}"
    rows = rows_of(table, tenant, nulls)
    store.append(table, rows)
    store.append(table, rows)  # a retry
    answer = store.query(
        f"SELECT * FROM leadline.{table.name} WHERE tenant = {{tenant:String}} ORDER BY {table.time}",
        {"tenant": tenant},
    )
    assert answer.column_names == arrow_schema(table).names
    assert plain(answer) == plain(rows)


def test_bits_of_a_stale_marker_are_kept(store: Store) -> None:
    value = np.array([STALE_NAN_BITS, 0x7FF8000000000001], np.uint64).view(np.float64)
    rows = sample_rows("stale", 2).set_column(4, "value", pa.array(value))
    store.append(BY_NAME["metric_sample"], rows)
    answer = store.query("SELECT value FROM leadline.metric_sample WHERE tenant = 'stale' ORDER BY time_ns")
    bits = answer["value"].to_numpy().view(np.uint64).tolist()
    assert bits == [STALE_NAN_BITS, 0x7FF8000000000001]


def test_the_last_value_of_one_identity_is_read(store: Store) -> None:
    for value in (1.0, 2.0, 1.0, 3.0, 1.0):
        store.append(BY_NAME["metric_sample"], sample_rows("last", 10, value))
    answer = store.query(
        "SELECT count() AS n, min(value) AS low, max(value) AS high FROM leadline.metric_sample WHERE tenant = 'last'"
    )
    assert plain(answer) == [{"n": 10, "low": 1.0, "high": 1.0}]


def test_rows_of_one_batch_are_kept_apart_by_place_and_batch(store: Store) -> None:
    table = BY_NAME["event"]
    rows = rows_of(table, "batches")
    first = {name: [rows.column(name).to_pylist()[0]] * 3 for name in rows.column_names}
    for batch in (1, 2, 1):
        store.append(table, arrow_table(table, first | {"batch": [batch] * 3, "batch_row": [0, 1, 2]}))
    answer = store.query("SELECT count() AS n FROM leadline.event WHERE tenant = 'batches'")
    assert plain(answer) == [{"n": 6}]


def test_null_and_empty_in_a_key_are_different_rows(store: Store) -> None:
    table = BY_NAME["ledger"]
    rows = {n: [v[0], v[0]] for n, v in rows_of(table, "nullkey").to_pydict().items()}
    store.append(table, arrow_table(table, rows | {"owner": [None, ""]}))
    answer = store.query("SELECT owner FROM leadline.ledger WHERE tenant = 'nullkey' ORDER BY owner NULLS FIRST")
    assert plain(answer) == [{"owner": None}, {"owner": ""}]


def test_appends_from_many_threads_all_arrive(store: Store) -> None:
    def append(series: int) -> None:
        for _ in range(3):
            store.append(BY_NAME["metric_sample"], sample_rows("threads", 500, series=series))

    threads = [threading.Thread(target=append, args=(n,)) for n in range(6)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    answer = store.query(
        "SELECT count() AS n, uniqExact(series) AS s FROM leadline.metric_sample WHERE tenant = 'threads'"
    )
    assert plain(answer) == [{"n": 3000, "s": 6}]


def test_one_append_may_span_many_partitions(store: Store) -> None:
    table = BY_NAME["metric_sample"]
    day_ns = 24 * 3600 * 10**9
    rows = sample_rows("days", 25).set_column(3, "time_ns", pa.array([NOW_NS - n * day_ns for n in range(25)]))
    store.append(table, rows)
    assert plain(store.query("SELECT count() AS n FROM leadline.metric_sample WHERE tenant = 'days'")) == [{"n": 25}]


def test_expired_rows_are_gone(store: Store) -> None:
    rows = rows_of(BY_NAME["probe"], "old")
    store.append(BY_NAME["probe"], rows.set_column(rows.column_names.index("tx_ns"), "tx_ns", pa.array([1, 2, 3])))
    with store._writers.borrow() as client:
        client.command("OPTIMIZE TABLE leadline.probe FINAL")  # what merges in the background come to
    assert store.query("SELECT * FROM leadline.probe WHERE tenant = 'old'").num_rows == 0


@pytest.mark.parametrize("text", ["plain", "it's", "back\\slash", "'; DROP TABLE event --", "é\n\t", "%s {x:String}"])
def test_parameters_are_values_never_text(store: Store, text: str) -> None:
    answer = store.query("SELECT {x:String} AS x, {n:Int64} AS n", {"x": text, "n": -5})
    assert plain(answer) == [{"x": text, "n": -5}]


def test_parameters_of_ids_and_arrays(store: Store) -> None:
    answer = store.query(
        "SELECT {id:UInt128} AS a, {ids:Array(UInt128)}[2] AS b, {s:Array(String)} AS s",
        {"id": b"\1" + b"\0" * 15, "ids": [1, b"\2" + b"\0" * 15], "s": ["a'b", "c"]},
    )
    assert plain(answer) == [{"a": b"\1" + b"\0" * 15, "b": b"\2" + b"\0" * 15, "s": ["a'b", "c"]}]


def test_a_parameter_without_a_typed_place_is_refused(store: Store) -> None:
    with pytest.raises(UsageError, match="no place"):
        store.query("SELECT %(x)s", {"x": "1"})
    with pytest.raises(UsageError, match="wants a parameter y"):
        store.query("SELECT {x:String}, {y:String}", {"x": "1"})


def test_limits_are_errors_that_say_what_to_do(store: Store) -> None:
    store.append(BY_NAME["metric_sample"], sample_rows("limits", 100))
    sql = "SELECT * FROM leadline.metric_sample WHERE tenant = 'limits'"
    assert store.query(sql, limits=Limits(rows=100)).num_rows == 100
    with pytest.raises(RefusedError, match=r"more than 99 rows \(store.query_rows_max\); add LIMIT") as caught:
        store.query(sql, limits=Limits(rows=99))
    assert caught.value.reason == "limit"
    with pytest.raises(RefusedError, match="longer than 1 s"):
        store.query("SELECT count() FROM system.numbers WHERE NOT ignore(sipHash64(number))", limits=Limits(seconds=1))
    with pytest.raises(RefusedError, match="limit"):
        store.query("SELECT groupArray(number) FROM numbers(100000000)", limits=Limits(bytes=10_000_000))


def test_an_engine_error_becomes_a_store_error(store: Store) -> None:
    with pytest.raises(StoreError, match="nowhere"):
        store.query("SELECT * FROM leadline.nowhere")


def test_rows_that_do_not_fit_are_refused_before_the_store(store: Store) -> None:
    table = BY_NAME["metric_sample"]
    with pytest.raises(DataError, match="no value"):
        store.append(table, sample_rows("bad", 2).drop_columns(["value"]))
    with pytest.raises(DataError, match="column value of metric_sample: expected F64, never null, got 2 nulls"):
        store.append(table, sample_rows("bad", 2).set_column(4, "value", pa.nulls(2, pa.float64())))
    store.append(table, sample_rows("bad", 2).slice(0, 0))
    assert store.query("SELECT * FROM leadline.metric_sample WHERE tenant = 'bad'").num_rows == 0


def test_facts_name_every_table_with_its_span(store: Store) -> None:
    store.append(BY_NAME["operation"], rows_of(BY_NAME["operation"], "facts"))
    facts = {fact.table: fact for fact in store.facts()}
    assert list(facts) == [table.name for table in TABLES]
    operation = facts["operation"]
    assert operation.rows >= 3
    assert operation.bytes > 0
    assert (operation.oldest_ns, operation.newest_ns) == (NOW_NS, NOW_NS + 2)
    empty = facts["metric_rollup"]
    assert (empty.rows, empty.oldest_ns, empty.newest_ns) == (0, None, None) or empty.rows > 0


def test_a_user_reads_own_rows_and_cannot_write(store: Store) -> None:
    for tenant in ("mine", "theirs"):
        store.append(BY_NAME["metric_sample"], sample_rows(tenant, 10))
    me = Principal("mine", role=Role.TENANT_READ)
    assert plain(store.query_as(me, "SELECT tenant, count() AS n FROM metric_sample GROUP BY tenant")) == [
        {"tenant": "mine", "n": 10}
    ]
    operator = Principal(role=Role.OPERATOR)
    sql = "SELECT tenant FROM metric_sample WHERE tenant IN ('mine', 'theirs') GROUP BY tenant ORDER BY tenant"
    assert plain(store.query_as(operator, sql)) == [{"tenant": "mine"}, {"tenant": "theirs"}]
    with pytest.raises(UsageError, match="refused"):
        store.query_as(me, "DROP TABLE metric_sample")
    with pytest.raises(UsageError, match="nope"):
        store.query_as(me, "SELECT nope FROM metric_sample")
    with pytest.raises(RefusedError, match="more than 5 rows"):
        store.query_as(me, "SELECT * FROM metric_sample", limits=Limits(rows=5, seconds=30))


def test_the_connections_of_users_are_read_only(store: Store) -> None:
    """Defence behind the guard: even a statement that passed it could not write or change a setting."""
    pool = store._user_pool(False, Limits(10, 10, 10**9))
    for sql in ("CREATE TABLE leadline.x (a Int8) ENGINE = Memory", "SELECT 1 SETTINGS max_result_rows = 0"):
        with pool.borrow() as client, pytest.raises(Exception, match=r"readonly|READONLY"):
            client.command(sql)


def test_roll_up_before_samples_go(store: Store) -> None:
    day_ns = 24 * 3600 * 10**9
    start_ns = (NOW_NS - 29 * day_ns) // day_ns * day_ns + 600 * 10**9
    rows = sample_rows("rollup", 6)
    rows = rows.set_column(3, "time_ns", pa.array([start_ns + n * 100 * 10**9 for n in range(6)]))
    nan = float("nan")
    rows = rows.set_column(4, "value", pa.array([5.0, 1.0, nan, 7.0, nan, 2.0]))
    store.append(BY_NAME["metric_sample"], rows)
    assert store.maintain(NOW_NS) >= 1
    assert store.maintain(NOW_NS) == 0, "a day is not rolled up again at once"
    assert store.maintain(NOW_NS + day_ns // 2) >= 1, "late samples get their chance"
    answer = store.query("SELECT * FROM leadline.metric_rollup WHERE tenant = 'rollup' ORDER BY time_ns")
    rest = ["time_ns", "count", "minimum", "maximum", "sum", "last"]
    assert [[row[name] for name in rest] for row in plain(answer)] == [
        [start_ns, 2, 1.0, 5.0, 6.0, 1.0],
        [start_ns + 300 * 10**9, 2, 2.0, 7.0, 9.0, 2.0],
    ]


def test_the_suite_has_seen_a_real_server() -> None:
    """One line in the report where it has not: with the variable set, every test above runs against that server."""
    if not os.environ.get("LEADLINE_CLICKHOUSE_URL"):
        pytest.skip("LEADLINE_CLICKHOUSE_URL is not set: this suite saw the embedded engine and the double only")
