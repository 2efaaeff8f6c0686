"""From specs to Arrow schemas and DDL. `LEADLINE_UPDATE_GOLDEN=1 pytest tests/unit/store/test_schema.py` rewrites
the golden files; read the difference before committing it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from leadline.model.errors import DataError
from leadline.model.tables import BY_NAME, TABLES, Column, Identity, Table, Type
from leadline.store import arrow_schema, arrow_table
from leadline.store.schema import Layout, create_statements, sharding_key, sorting_key

GOLDEN = Path(__file__).parents[2] / "golden" / "ddl" / "single"

TINY = Table(
    "tiny",
    doc="For these tests.",
    own=(
        Column("time_ns", Type.I64, "ns", "when"),
        Column("id", Type.U128, None, "id"),
        Column("name", Type.SYM, None, "name", nullable=True),
        Column("count", Type.U64, "1", "count"),
        Column("value", Type.F64, None, "value", nullable=True),
        Column("flag", Type.BOOL, None, "flag"),
        Column("labels", Type.MAP, None, "labels"),
    ),
    order=("id", "time_ns"),
    time="time_ns",
    keep_hours=1,
    identity=Identity.KEY,
    written_by="tests",
)
ROW = {
    "tenant": ["t"], "cluster": ["c"], "time_ns": [5], "id": [7], "name": ["n"], "count": [1], "value": [0.5],
    "flag": [True], "labels": [{"k": "v"}],
}  # fmt: skip


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_ddl_is_what_it_was(table: Table) -> None:
    text = ";\n\n".join(create_statements(table)) + ";\n"
    path = GOLDEN / f"{table.name}.sql"
    if os.environ.get("LEADLINE_UPDATE_GOLDEN"):
        path.write_text(text)
    assert path.read_text() == text


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_in_a_cluster_a_table_is_replicated_under_another_name_and_has_a_distributed_one(table: Table) -> None:
    name, single = table.name, (GOLDEN / f"{table.name}.sql").read_text().removesuffix(";\n")
    (arguments,) = re.findall(r"^ENGINE = ReplacingMergeTree(?:\((.*)\))?$", single, re.MULTILINE)
    replica = ", ".join(filter(None, ["'/clickhouse/tables/{shard}/{database}/{table}', '{replica}'", arguments]))
    local = re.sub(r"^ENGINE = .*$", f"ENGINE = ReplicatedReplacingMergeTree({replica})", single, flags=re.MULTILINE)
    local = local.replace(f" leadline.{name}\n", f" leadline.{name}_local ON CLUSTER 'main'\n", 1)
    distributed = (
        f"CREATE TABLE IF NOT EXISTS leadline.{name} ON CLUSTER 'main' AS leadline.{name}_local\n"
        f"ENGINE = Distributed('main', 'leadline', '{name}_local', cityHash64({table.order[0]}))"
    )
    assert create_statements(table, Layout(cluster="main")) == [local, distributed]


def test_no_golden_file_is_left_over() -> None:
    assert {path.stem for path in GOLDEN.iterdir()} == set(BY_NAME)


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_equal_identities_meet_on_one_shard(table: Table) -> None:
    """The shard is chosen by a column of the key, so the key decides the shard."""
    column = sharding_key(table).removeprefix("cityHash64(").removesuffix(")")
    assert column in sorting_key(table)
    assert not table.column(column).nullable


@pytest.mark.parametrize("table", TABLES, ids=lambda table: table.name)
def test_arrow_schema_has_every_column_in_order(table: Table) -> None:
    schema = arrow_schema(table)
    assert schema.names == [column.name for column in table.columns]
    assert [field.nullable for field in schema] == [column.nullable for column in table.columns]


@pytest.mark.parametrize("name", ["time_ns", "count"])
@pytest.mark.parametrize("form", [list, np.array, lambda given: np.array(given, object), pa.array])
@pytest.mark.parametrize("value", [1.5, float("nan"), np.float32(0.25)])
def test_a_fraction_is_never_cut_to_a_whole_number(name: str, form: Callable[[Any], Any], value: float) -> None:
    with pytest.raises(DataError, match=rf"column {name} of tiny: expected [IU]64, never null"):
        arrow_table(TINY, ROW | {name: form([value])})


def test_whole_floats_are_whole_numbers() -> None:
    assert arrow_table(TINY, ROW | {"time_ns": [2.0], "count": np.array([3.0])}).to_pylist()[0]["time_ns"] == 2


def test_ids_come_in_three_forms() -> None:
    value = (3 << 64) | 9
    halves = np.array([[9, 3]], np.uint64)
    for given in ([value], [value.to_bytes(16, "little")], halves):
        assert arrow_table(TINY, ROW | {"id": given})["id"].to_pylist() == [value.to_bytes(16, "little")]


def test_strings_come_plain_or_as_dictionaries() -> None:
    for given in (["a"], pa.array(["a"]), pa.array(["a"]).dictionary_encode(), pa.chunked_array([["a"]])):
        rows = arrow_table(TINY, ROW | {"name": given})
        assert rows["name"].to_pylist() == ["a"]
        assert rows.schema == arrow_schema(TINY)


def test_a_null_column_is_taken_where_nulls_are() -> None:
    assert arrow_table(TINY, ROW | {"name": pa.nulls(1), "value": [None]})["name"].to_pylist() == [None]


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"count": ["x"]}, "column count of tiny: expected U64, never null"),
        ({"count": [-1]}, "column count of tiny"),
        ({"count": [None]}, "got 1 nulls"),
        ({"count": pa.array([1.5])}, "got Arrow type double"),
        ({"time_ns": [2**63]}, "column time_ns of tiny"),
        ({"id": [2**128]}, "column id of tiny: expected U128"),
        ({"id": [b"short"]}, "column id of tiny"),
        ({"id": np.zeros((1, 3), np.uint64)}, "column id of tiny"),
        ({"labels": [{"k": None}]}, "column labels of tiny"),
        ({"labels": ["k"]}, "column labels of tiny"),
        ({"name": [5]}, "column name of tiny"),
        ({"name": ["a", "b"]}, "columns of one length"),
        ({"more": [1]}, "got also more"),
    ],
)
def test_what_does_not_fit_is_refused_by_name(change: dict[str, object], message: str) -> None:
    with pytest.raises(DataError, match=message):
        arrow_table(TINY, ROW | change)


def test_a_missing_column_is_named() -> None:
    with pytest.raises(DataError, match="got no value"):
        arrow_table(TINY, {name: values for name, values in ROW.items() if name != "value"})
