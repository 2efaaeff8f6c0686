"""From table specs to Arrow schemas, checked Arrow tables, and ClickHouse DDL.

Identity of a row lives in the sorting key (see docs/adr/0002-identity-in-the-store.md): every table is a
ReplacingMergeTree ordered by the key of its spec, so a row appended twice is one row when it is read with FINAL.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from leadline.model.errors import DataError
from leadline.model.tables import Column, Identity, Partition, Table, Type
from leadline.model.tables.metrics import SERIES

DATABASE = "leadline"

ARROW_TYPES: dict[Type, pa.DataType] = {
    Type.SYM: pa.dictionary(pa.int32(), pa.string()),
    Type.SYMS: pa.list_(pa.string()),
    Type.STR: pa.string(),
    Type.I64: pa.int64(),
    Type.U64: pa.uint64(),
    Type.U128: pa.binary(16),
    Type.F64: pa.float64(),
    Type.BOOL: pa.bool_(),
    Type.MAP: pa.map_(pa.string(), pa.string()),
}

# What a query may return instead, and an append may bring: the same values in another layout.
_SAME_VALUES: dict[Type, tuple[pa.DataType, ...]] = {
    Type.SYM: (pa.string(), pa.large_string()),
    Type.STR: (pa.large_string(),),
}

CLICKHOUSE_TYPES: dict[Type, str] = {
    Type.SYM: "LowCardinality(String)",
    Type.SYMS: "Array(LowCardinality(String))",
    Type.STR: "String",
    Type.I64: "Int64",
    Type.U64: "UInt64",
    Type.U128: "UInt128",
    Type.F64: "Float64",
    Type.BOOL: "Bool",
    Type.MAP: "Map(LowCardinality(String), String)",
}

# In a sorting key a null is told apart from this by the isNull() before it.
_KEY_DEFAULTS = {Type.SYM: "''", Type.STR: "''", Type.I64: "0", Type.U64: "0", Type.U128: "0", Type.F64: "0"}

_PARTITIONS = {
    Partition.HOUR: "toStartOfHour({time})",
    Partition.DAY: "toYYYYMMDD({time})",
    Partition.MONTH: "toYYYYMM({time})",
}


# Parts that were merged into another are kept this long, ClickHouse's own time: for power that is lost before the
# kernel has written the merged one, and for a merge that met a full disk. `disk.watch` finds that out within 10 s, and
# undoes it once there is room. 60 s took a third of the disk on a busy store, and were over before anybody had looked.
OLD_PARTS_S = 480

# The engine looks for such parts the less often the less it found, every five minutes at last: what should have been
# gone stayed up to 13 minutes (9.0 bytes a sample of 2 M 11 minutes after the last one; 3.8 without the old parts).
CLEANUP_S = 60

# The setting of a table that bounds what a merge makes; set while space is short (`disk.watch`), reset at each start.
MERGE_LIMIT = "max_bytes_to_merge_at_max_space_in_pool"

# How much larger the sum of parts must be than the largest of them before they are merged. With ClickHouse's 5 every
# row of a stream of small appends was written 4.4 times (two fifths of the CPU of taking samples in), with 20 it is
# 2.6 times, for some ten parts instead of five. Of `series` too, which new streams are appended to with their samples:
# with a twentieth of 20,000 streams new each minute 1.62 us of CPU a sample instead of 1.87.
MERGE_BASE = 20

# A partition that took nothing for this long (yesterday's, or all of them at rest) is merged into one part: a quarter
# of the disk of twenty small ones, and reading one row per identity costs nothing more.
REST_S = 120

_NEVER_NS = 4_102_444_800 * 10**9  # 2100: what a row without an age ages by; DateTime ends in 2106


@dataclass(frozen=True, slots=True)
class Layout:
    """Where tables are made: `cluster` empty for one server (or the embedded engine), else the cluster's name."""

    cluster: str = ""
    ttl: bool = True
    fsync: bool = False

    @property
    def on_cluster(self) -> str:
        return f" ON CLUSTER {quoted(self.cluster)}" if self.cluster else ""

    def local(self, table: Table) -> str:
        """Name of the table that holds the rows (of this shard)."""
        return f"{DATABASE}.{table.name}_local" if self.cluster else f"{DATABASE}.{table.name}"


def quoted(text: str) -> str:
    """A text as a ClickHouse string literal. For names from our own settings; values travel as parameters."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


# --- Arrow ---------------------------------------------------------------------------------------------------


def arrow_schema(table: Table) -> pa.Schema:
    """The schema that rows of `table` are appended with, columns in the order of the spec."""
    return pa.schema([pa.field(c.name, ARROW_TYPES[c.type], nullable=c.nullable) for c in table.columns])


def arrow_table(table: Table, columns: Mapping[str, Any]) -> pa.Table:
    """Rows of `table` from columns: lists, numpy arrays or Arrow arrays, all of one length.

    MAP columns take dicts or lists of pairs. U128 columns take ints, 16-byte little-endian strings, or a (N, 2)
    uint64 array of low and high halves. A dictionary array of strings is taken as it is for SYM. Nothing is
    filled in: every column must be given.
    Errors: DataError naming the column, what was expected and what came.
    """
    where = f"rows of {table.name}"
    names = [column.name for column in table.columns]
    missing = [name for name in names if name not in columns]
    unknown = [name for name in columns if name not in names]
    if missing or unknown:
        got = f"no {', '.join(missing)}" if missing else f"also {', '.join(unknown)}"
        raise DataError(where, f"the columns {', '.join(names)}", got)
    arrays = [_arrow_array(table, column, columns[column.name]) for column in table.columns]
    lengths = {column.name: len(array) for column, array in zip(table.columns, arrays, strict=True)}
    if len(set(lengths.values())) > 1:
        raise DataError(where, "columns of one length", ", ".join(f"{k}: {v}" for k, v in lengths.items()))
    return pa.table(arrays, schema=arrow_schema(table))


def checked_rows(table: Table, rows: pa.Table) -> pa.Table:
    """`rows` with the columns of the spec in its order. Errors: DataError if they do not fit the spec."""
    wanted = arrow_schema(table)
    if rows.schema.equals(wanted) and not any(
        (rows.column(place).null_count and not field.nullable) or _inner_nulls(rows.column(place))
        for place, field in enumerate(wanted)
    ):
        return rows
    return arrow_table(table, {name: rows.column(name) for name in rows.column_names})


def _arrow_array(table: Table, column: Column, values: Any) -> pa.Array | pa.ChunkedArray:
    wanted = ARROW_TYPES[column.type]
    where = f"column {column.name} of {table.name}"
    try:
        if column.type is Type.U128 and not isinstance(values, pa.Array | pa.ChunkedArray):
            array = _u128_array(values)
        elif isinstance(values, pa.Array | pa.ChunkedArray):
            array = values
        elif column.type is Type.SYM:
            array = pa.array(values, pa.string()).dictionary_encode()
        elif column.type is Type.MAP:
            array = _map_array(values)
        else:
            if column.type in (Type.I64, Type.U64):
                _require_whole(values)
            array = pa.array(values, wanted)
    except (pa.ArrowException, TypeError, ValueError, OverflowError, AttributeError) as error:
        raise DataError(where, _wanted(column), str(error).splitlines()[0]) from error
    if array.type != wanted:
        array = _same_values(where, column, array)
    if array.null_count and not column.nullable:
        raise DataError(where, _wanted(column), f"{array.null_count} nulls")
    if nulls := _inner_nulls(array):
        raise DataError(where, f"{column.type} without nulls inside", f"{nulls} nulls")
    return array


def _require_whole(values: Any) -> None:
    """Errors: ValueError for a fraction. pyarrow refuses one in an array of floats, and cuts it in a list of them."""
    if isinstance(values, np.ndarray) and values.dtype != object:
        return
    for value in values:
        if isinstance(value, float | np.floating) and not float(value).is_integer():
            raise ValueError(f"{value}, which is no whole number")


def _inner_nulls(array: pa.Array | pa.ChunkedArray) -> int:
    """Nulls inside lists and maps: the engine would store them as empty texts without a word."""
    chunks = array.chunks if isinstance(array, pa.ChunkedArray) else [array]
    if pa.types.is_map(array.type):
        return sum(chunk.items.null_count for chunk in chunks)
    return sum(chunk.flatten().null_count for chunk in chunks) if pa.types.is_list(array.type) else 0


def _same_values(where: str, column: Column, array: pa.Array | pa.ChunkedArray) -> pa.Array | pa.ChunkedArray:
    """The array in the column's layout, where only the layout differs; an int is never made of a float."""
    wanted, got = ARROW_TYPES[column.type], array.type
    allowed = (
        got in _SAME_VALUES.get(column.type, ())
        or (pa.types.is_dictionary(got) and pa.types.is_dictionary(wanted) and got.value_type == pa.string())
        or (pa.types.is_nested(wanted) and type(got) is type(wanted))
        or pa.types.is_null(got)
        or (pa.types.is_integer(got) and pa.types.is_integer(wanted))
    )
    if allowed:
        try:
            if pa.types.is_dictionary(wanted) and not pa.types.is_dictionary(got):
                return array.cast(pa.string()).dictionary_encode()
            return array.cast(wanted)
        except pa.ArrowException as error:
            raise DataError(where, _wanted(column), str(error).splitlines()[0]) from error
    raise DataError(where, _wanted(column), f"Arrow type {got}")


def _u128_array(values: Any) -> pa.Array:
    if isinstance(values, np.ndarray) and values.ndim == 2:
        if values.dtype != np.uint64 or values.shape[1] != 2:
            raise ValueError(f"array of {values.dtype} with shape {values.shape}; wanted uint64 (N, 2)")
        return pa.FixedSizeBinaryArray.from_buffers(
            pa.binary(16), len(values), [None, pa.py_buffer(np.ascontiguousarray(values, "<u8"))]
        )
    as_bytes = [v.to_bytes(16, "little") if isinstance(v, int) else v for v in values]
    return pa.array(as_bytes, pa.binary(16))


def _map_array(values: Iterable[Mapping[str, str] | Sequence[tuple[str, str]]]) -> pa.Array:
    """Maps from dicts or lists of pairs, by their texts: a list of pairs each takes pyarrow three times as long."""
    keys: list[str] = []
    items: list[str] = []
    ends = [0]
    for each in values:
        pairs = each if isinstance(each, dict) else dict(each)
        keys.extend(pairs)
        items.extend(pairs.values())
        ends.append(len(keys))
    return pa.MapArray.from_arrays(
        pa.array(ends, pa.int32()), pa.array(keys, pa.string()), pa.array(items, pa.string())
    )


def _wanted(column: Column) -> str:
    return f"{column.type}{' or null' if column.nullable else ', never null'}"


# --- verdicts ------------------------------------------------------------------------------------------------

STAMP, OVERRULES, TAKEN_BACK = "stamp", "overrules", "taken_back"
"""Columns of tables of verdicts that no `SELECT *` shows, and no spec declares.

Of the rows of one key the engine reads the one with the greatest `stamp`, and none if that one is `taken_back`. A row
is newer the later the window that reports it (`Table.newest`), then by version and revision, in whatever order they
were stored. Whoever takes back a row, or puts an older one in its place, gives the stamp that it `overrules`.
"""
HIDDEN = frozenset({STAMP, OVERRULES, TAKEN_BACK})


def is_verdicts(table: Table) -> bool:
    """Whether rows of a table are verdicts, which a later judgement replaces or takes back."""
    return table.identity is Identity.REVISION


def _hidden_columns(table: Table) -> list[str]:
    if not is_verdicts(table):
        return []
    # 32 bits each for version and revision, which count from 0 or 1; 64 for a time in ns.
    revision = "toUInt128(if(revision < 0, -1 - revision, revision))"
    own = f"bitOr(bitShiftLeft(toUInt128(version), 32), {revision})"
    if table.newest:
        own = f"bitOr(bitShiftLeft(toUInt128({table.newest}), 64), {own})"
    return [
        f"    `{OVERRULES}` UInt128 EPHEMERAL 0",
        f"    `{STAMP}` UInt128 MATERIALIZED greatest({own}, {OVERRULES} + 1) CODEC(ZSTD(1))",
        f"    `{TAKEN_BACK}` UInt8 MATERIALIZED revision < 0",
    ]


# --- DDL -----------------------------------------------------------------------------------------------------


def clickhouse_type(column: Column) -> str:
    """The ClickHouse type of a column."""
    plain = CLICKHOUSE_TYPES[column.type]
    if not column.nullable:
        return plain
    return "LowCardinality(Nullable(String))" if column.type is Type.SYM else f"Nullable({plain})"


def codec(column: Column) -> str:
    """The compression of a column.

    Times step by a common interval: the greatest common divisor and differences leave almost nothing. Values
    of neighbouring rows are near each other: differences first (measured: 1.36 bytes per value of a sample,
    0.17 per series id). Ids and texts repeat and are left to ZSTD. Labels are long texts of which little is new: at
    level 3 they take half of what they take at 1, for no more CPU (20,000 streams of eight: 475 kB, 259; 227 at 6).
    """
    if column.type is Type.I64 and column.unit == "ns":
        return "GCD, Delta, ZSTD(1)"
    if column.type in (Type.I64, Type.U64, Type.F64):
        return "Delta, ZSTD(1)"
    return "ZSTD(3)" if column.type is Type.MAP else "ZSTD(1)"


def sorting_key(table: Table) -> list[str]:
    """The expressions a table is sorted by; equal ones are the same row."""
    out: list[str] = []
    for name in table.key:
        column = table.column(name)
        if column.nullable:
            out.append(f"isNull({name})")
            out.append(f"ifNull({name}, {_KEY_DEFAULTS[column.type]})")
        else:
            out.append(name)
    return out


def partition_key(table: Table) -> str:
    """The expression rows are partitioned by, empty for none. In UTC, whatever the host's time zone is."""
    if table.partition is Partition.NONE:
        return ""
    return _PARTITIONS[table.partition].format(time=_date_time(table.time))


def ttl_clause(table: Table) -> str:
    """The expression after whose time a row is dropped."""
    return f"{_date_time(_age(table))} + toIntervalHour({table.keep_hours})"


def _age(table: Table) -> str:
    column = table.column(table.aged_by)
    return f"ifNull({column.name}, {_NEVER_NS})" if column.nullable else column.name


def _date_time(time: str) -> str:
    return f"toDateTime(fromUnixTimestamp64Nano({time}, 'UTC'), 'UTC')"


def table_settings(table: Table, layout: Layout) -> dict[str, int]:
    """The settings of a MergeTree table.

    Where partitions are spans of the time that rows age by, whole parts are dropped: rewriting them row by row would
    cost an insert. In other (small) tables old rows lie among young ones and are dropped one by one.
    """
    by_parts = table.partition is not Partition.NONE and table.aged_by == table.time
    settings = {
        "ttl_only_drop_parts": int(by_parts),
        "old_parts_lifetime": OLD_PARTS_S,
        "max_cleanup_delay_period": CLEANUP_S,
    }
    if by_parts or table.name == SERIES.name:
        settings["merge_selector_base"] = MERGE_BASE
    if by_parts:
        settings["min_age_to_force_merge_seconds"] = REST_S
        settings["min_age_to_force_merge_on_partition_only"] = 1
    if layout.fsync:
        settings |= {"fsync_after_insert": 1, "fsync_part_directory": 1}
    return settings


def create_statements(table: Table, layout: Layout = Layout()) -> list[str]:
    """The statements that make a table: one, or the local and the distributed table of a cluster."""
    chosen_by = [STAMP, TAKEN_BACK] if is_verdicts(table) else [f"`{table.newest}`"] if table.newest else []
    if not layout.cluster:
        engine = f"ReplacingMergeTree({', '.join(chosen_by)})" if chosen_by else "ReplacingMergeTree"
        return [_create_merge_tree(table, layout, engine)]
    places = ["'/clickhouse/tables/{shard}/{database}/{table}'", "'{replica}'", *chosen_by]
    engine = f"ReplicatedReplacingMergeTree({', '.join(places)})"
    distributed = (
        f"CREATE TABLE IF NOT EXISTS {DATABASE}.{table.name}{layout.on_cluster} AS {layout.local(table)}\n"
        f"ENGINE = Distributed({quoted(layout.cluster)}, {quoted(DATABASE)}, "
        f"{quoted(table.name + '_local')}, {sharding_key(table)})"
    )
    return [_create_merge_tree(table, layout, engine), distributed]


def sharding_key(table: Table) -> str:
    """Rows of one identity must meet on one shard: the hash of the first column of the order does that, and
    keeps a series, a job or an entity together."""
    return f"cityHash64({table.order[0]})"


def _create_merge_tree(table: Table, layout: Layout, engine: str) -> str:
    declared = [f"    `{c.name}` {clickhouse_type(c)} CODEC({codec(c)})" for c in table.columns]
    columns = ",\n".join([*declared, *_hidden_columns(table)])
    lines = [
        f"CREATE TABLE IF NOT EXISTS {layout.local(table)}{layout.on_cluster}\n(\n{columns}\n)",
        f"ENGINE = {engine}",
    ]
    if partition := partition_key(table):
        lines.append(f"PARTITION BY {partition}")
    lines.append(f"ORDER BY ({', '.join(sorting_key(table))})")
    if layout.ttl:
        lines.append(f"TTL {ttl_clause(table)}")
    lines.append("SETTINGS " + ", ".join(f"{k} = {v}" for k, v in table_settings(table, layout).items()))
    return "\n".join(lines)
