"""The laws that every analysis keeps, as functions of an analysis and a case of its input. They raise AssertionError.

    case ──> what the runner would give (`given`) ──> the analysis ──> rows, checked and in order (`rows_of`)

A law changes the input in a way that must not matter, or must matter in a known way, and compares the rows.
"""

from __future__ import annotations

import json
import random
import re
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from itertools import pairwise
from typing import Any
from unittest import mock

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from leadline.analysis.spec import Analysis, Part, Read, Verdicts, Window
from leadline.model.errors import DataError, UsageError
from leadline.model.ids import parse_entity_id
from leadline.model.tables import Column, Table, Type
from leadline.runner.worker import finished
from leadline.store.schema import arrow_schema, arrow_table

Row = dict[str, Any]
Rows = dict[str, list[Row]]
"""Rows by table name, in the order of their key; floats are hex texts, so that equal means the same bits."""

FILLED_IN = ("cluster", "analysis", "version", "revision")  # by the runner

# Columns of ns that are lengths of time; all others are times and move with the window.
LENGTHS = {
    "window_ns", "bound_ns", "offset_ns", "noise_ns", "min_ns", "p50_ns", "p99_ns", "queue_p99_ns", "delay_ns",
    "duration_ns", "took_ns", "data_ns", "forward_ns", "backward_ns", "optimizer_ns", "checkpoint_ns",
    "transfer_p50_ns", "transfer_p99_ns", "delay_p50_ns", "delay_p99_ns", "report_ns", "width_ns", "stall_ns",
    "ahead_ns",
    *(f"{way}_{what}_ns" for way in ("there", "back") for what in ("min", "p50", "p99", "queue")),
}  # fmt: skip

_SHOWN_MAX = 8
_CLOCKS = ("time", "time_ns", "monotonic", "monotonic_ns", "perf_counter", "perf_counter_ns")
_CHANCES = ("random", "shuffle", "choice", "randint")

# What the columns of verdicts hold that are ids of one kind; empty: of any kind.
ENTITY_COLUMNS: Mapping[tuple[str, str], str] = {
    ("flow_path", "src_rank"): "rank", ("flow_path", "dst_rank"): "rank", ("flow_path", "src"): "port",
    ("flow_path", "dst"): "port", ("flow_path", "busiest"): "link",
    ("path_hop", "link"): "link", ("flow_volume", "link"): "link",
    ("ecmp_group", "links"): "link", ("ecmp_group", "busiest"): "link", ("ecmp_group", "colliding"): "flow",
    ("conflict", "entity"): "", ("suspect", "entity"): "", ("suspect", "others"): "", ("colocation", "entity"): "",
    ("colocation", "others"): "", ("anomaly", "entity"): "", ("cause", "entity"): "", ("action", "entity"): "",
    ("failure", "entity"): "", ("sle", "entity"): "", ("sle_loss", "entity"): "", ("sle_loss", "culprit"): "",
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class Case:
    """An input in which an analysis has something to say: whole tables by name, and the window to judge.

    Tables have all columns of their spec (`arrow_table`); host rows are in cluster time already. What an analysis did
    not ask for, in columns or time, is cut off before it is given.
    """

    tables: Mapping[str, pa.Table]
    window: Window

    def __repr__(self) -> str:
        """Its first rows, so that a case that breaks a law can be read."""
        shown = {name: rows.slice(0, _SHOWN_MAX).to_pylist() for name, rows in self.tables.items()}
        lines = [f"{name}: {row}" for name, rows in shown.items() for row in rows]
        more = sum(max(0, len(rows) - _SHOWN_MAX) for rows in self.tables.values())
        return "\n".join([str(self.window), *lines, *([f"and {more} rows more"] if more else [])])

    def _repr_pretty_(self, printer: Any, cycle: bool) -> None:
        """The same where hypothesis prints it."""
        printer.text(repr(self))


Law = Callable[[Analysis, Case], None]


# --- What an analysis is given, and what comes of it -------------------------------------------------------------


def given(read: Read, tables: Mapping[str, pa.Table], window: Window) -> pa.Table:
    """What the runner gives for a `Read`: its rows (see there) and columns, `bound_ns` null where there is none."""
    rows = tables.get(read.table.name)
    if rows is None:
        rows = arrow_schema(read.table).empty_table()
    rows = rows.filter(_asked_for(read, rows, window))
    if window.job and "job" in rows.column_names:
        rows = rows.filter(pc.equal(rows["job"].cast(pa.string()), window.job))
    if "bound_ns" in read.names and "bound_ns" not in rows.column_names:
        rows = rows.append_column(pa.field("bound_ns", pa.int64()), pa.nulls(len(rows), pa.int64()))
    return rows.select(list(read.names))


def _asked_for(read: Read, rows: pa.Table, window: Window) -> pa.ChunkedArray:
    from_ns = pa.scalar(max(window.from_ns - read.look_back_ns, -(2**63)), pa.int64())
    if not read.valid:
        time_N = rows[read.table.time]
        return pc.and_(pc.greater_equal(time_N, from_ns), pc.less(time_N, window.to_ns))
    begin, end = span_of(read.table)
    if not end:
        return pc.less(rows[begin], window.to_ns)
    still_holds = pc.or_kleene(pc.is_null(rows[end]), pc.greater(rows[end], from_ns))
    return pc.and_(pc.less(rows[begin], window.to_ns), pc.fill_null(still_holds, True))


def span_of(table: Table) -> tuple[str, str]:
    """Columns of begin and end (empty: there is none) of a table whose rows tell a span. Errors: AssertionError."""
    names = {column.name for column in table.columns}
    spans = [span for span in (("from_ns", "to_ns"), ("start_ns", "end_ns")) if names.issuperset(span)]
    spans += [("first_ns", "")] if "first_ns" in names else []
    assert spans, f"{table.name} tells no spans"
    return spans[0]


def judged(item: Analysis, tables: Mapping[str, pa.Table], window: Window) -> Verdicts:
    """What an analysis says of a window of whole tables."""
    return item(*(given(read, tables, window) for read in item.reads), window=window)


def rows_of(item: Analysis, verdicts: Verdicts, window: Window) -> Rows:
    """Verdicts as rows in the order of their key, with what the runner fills in.

    Errors: AssertionError for tables and columns that are not declared, values that do not fit, keys that repeat.
    """
    declared = {table.name: table for table in item.writes}
    for name in verdicts:
        assert name in declared, f"{item.name} wrote {name}, and declares {', '.join(declared)}"
    return {name: _table_rows(item, declared[name], verdicts[name], window) for name in sorted(verdicts)}


def _table_rows(item: Analysis, table: Table, columns: Mapping[str, Any], window: Window) -> list[Row]:
    for name in FILLED_IN:
        assert name not in columns, f"{table.name}.{name} is filled in by the runner, and {item.name} wrote it"
    count = max((len(column) for column in columns.values()), default=0)
    filled: dict[str, Any] = {
        "tenant": pa.repeat(window.tenant, count),
        **columns,
        "cluster": pa.repeat(window.cluster, count),
        "analysis": pa.repeat(item.name, count),
        "version": np.full(count, item.version),
        "revision": np.zeros(count, np.int64),
    }
    try:
        rows = arrow_table(table, filled).to_pylist()
    except DataError as error:
        raise AssertionError(f"{item.name}: {error}") from error
    found = _in_order(table, rows)
    for one, other in pairwise(found):
        same = _key(table, one) == _key(table, other)
        assert not same, f"{item.name} wrote two rows of {table.name} with one key: {_short(table, one)}"
    return found


def _in_order(table: Table, rows: list[Row]) -> list[Row]:
    exact = [{name: _exact(value) for name, value in row.items()} for row in rows]
    return sorted(exact, key=lambda row: _key(table, row))


def _key(table: Table, row: Row) -> tuple[tuple[bool, Any], ...]:
    return tuple((row[name] is None, "" if row[name] is None else row[name]) for name in table.key)


def _short(table: Table, row: Row) -> Row:
    return {name: row[name] for name in table.key if name not in ("tenant", "analysis", *FILLED_IN)}


def _exact(value: Any) -> Any:
    if isinstance(value, float):
        return value.hex()
    return value.hex() if isinstance(value, bytes) else value


def said(item: Analysis, case: Case) -> Rows:
    """The rows that an analysis writes of a case."""
    return rows_of(item, judged(item, case.tables, case.window), case.window)


# --- The laws -----------------------------------------------------------------------------------------------------


def says_something(item: Analysis, case: Case) -> None:
    """The case has rows for every table that is declared: a law that nothing came of proves nothing."""
    rows = said(item, case)
    silent = [table.name for table in item.writes if not rows.get(table.name)]
    assert not silent, f"the case of {item.name} makes it write no row of {', '.join(silent)}: add what it needs"


def empty_in_empty_out(item: Analysis, case: Case) -> None:
    """Nothing is concluded from nothing, whether a table without rows has a chunk or none."""
    for chunks in (0, 1):
        tables = {}
        for read in item.reads:
            schema = arrow_schema(read.table)
            columns = [pa.chunked_array([pa.array([], field.type)] * chunks, field.type) for field in schema]
            tables[read.table.name] = pa.table(columns, schema=schema)
        rows = rows_of(item, judged(item, tables, case.window), case.window)
        assert not any(rows.values()), f"{item.name} concluded something from empty tables: {rows}"


def bears_a_missing_table(item: Analysis, case: Case) -> None:
    """One input without rows is no error; what is written still fits its table."""
    for read in item.reads:
        tables = {name: rows for name, rows in case.tables.items() if name != read.table.name}
        matches_spec(item, replace(case, tables=tables))


def ignores_row_order(item: Analysis, case: Case) -> None:
    """Rows in another order, in other chunks, with other dictionaries: the same bits."""
    expected = said(item, case)
    for seed in range(4):
        tables = {name: shuffled(rows, np.random.default_rng(seed)) for name, rows in case.tables.items()}
        assert_same(said(item, replace(case, tables=tables)), expected, f"{item.name} depends on the order of rows")


def is_stored_as_said(item: Analysis, case: Case) -> None:
    """The runner stores these rows and no others; their digest does not depend on the order of what was read."""
    stored = finished(item, case.window, judged(item, case.tables, case.window))
    declared = {table.name: table for table in item.writes}
    rows = {name: _in_order(declared[name], each.to_pylist()) for name, each in stored.tables.items()}
    expected = {name: each for name, each in said(item, case).items() if each}
    assert_same(rows, expected, f"the runner stores something else than {item.name} said")
    tables = {name: shuffled(each, np.random.default_rng(7)) for name, each in case.tables.items()}
    again = finished(item, case.window, judged(item, tables, case.window))
    assert again.digest == stored.digest, f"{item.name} would make a revision whenever rows come in another order"


def moves_with_time(item: Analysis, case: Case) -> None:
    """All times moved by whole windows move the times of the verdicts by as much, and change nothing else."""
    expected = said(item, case)
    for windows in (1, -3, 100_001):
        by_ns = windows * item.window_ns
        tables = {read.table.name: moved(read.table, case.tables.get(read.table.name), by_ns) for read in item.reads}
        window = replace(case.window, from_ns=case.window.from_ns + by_ns, to_ns=case.window.to_ns + by_ns)
        rows = said(item, Case({name: each for name, each in tables.items() if each is not None}, window))
        back = {table.name: _moved_rows(table, rows.get(table.name, []), -by_ns) for table in item.writes}
        back = {name: each for name, each in back.items() if name in rows}
        here = {table.name: _moved_rows(table, expected.get(table.name, []), 0) for table in item.writes}
        here = {name: each for name, each in here.items() if name in expected}
        assert_same(back, here, f"{item.name} says something else {windows} windows later")


def matches_spec(item: Analysis, case: Case) -> None:
    """What is written is what is declared: tables, columns, types, units, windows, intervals, ids."""
    rows = said(item, case)
    fits(item, rows, case.window)
    for table in item.writes:
        for row in rows.get(table.name, []):
            for column in table.columns:
                _assert_entities(table, column, row[column.name])


def no_wall_clock(item: Analysis, case: Case) -> None:
    """No clock but the window's, no chance: asking for either fails, twice is the same."""
    expected = said(item, case)

    here = threading.get_ident()

    def refused(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def ask(*args: Any, **options: Any) -> Any:
            if threading.get_ident() != here:  # the test runner's own threads
                return real(*args, **options)
            raise AssertionError(f"{item.name} asked {name}; `window` is its only clock, and chance has no say")

        return ask

    with ExitStack() as stack:
        for module, names in ((time, _CLOCKS), (random, _CHANCES), (np.random, (*_CHANCES, "default_rng", "rand"))):
            for name in names:
                stack.enter_context(mock.patch.object(module, name, refused(name, getattr(module, name))))
        rows = said(item, case)
    assert_same(rows, expected, f"{item.name} says something else the second time")


LAWS: tuple[Law, ...] = (
    says_something,
    empty_in_empty_out,
    bears_a_missing_table,
    ignores_row_order,
    is_stored_as_said,
    moves_with_time,
    matches_spec,
    no_wall_clock,
)


# --- What the laws look at ------------------------------------------------------------------------------------------


def fits(item: Analysis, rows: Rows, window: Window) -> None:
    """Rows hold what their columns promise. Ids are not looked at: where nonsense came in, it is told as it came."""
    for table in item.writes:
        for row in rows.get(table.name, []):
            where = f"{item.name}: {table.name} {_short(table, row)}"
            for column in table.columns:
                _assert_number(where, column, row[column.name])
            if "window_ns" in row:
                assert (row["end_ns"], row["window_ns"]) == (window.to_ns, window.window_ns), f"{where}: its window"
            if {"low", "bytes", "high"} <= row.keys():
                low, amount, high = (float.fromhex(row[name]) for name in ("low", "bytes", "high"))
                assert 0 <= low <= amount <= high, f"{where}: {amount} bytes of {low} to {high}"


def _assert_number(where: str, column: Column, value: Any) -> None:
    if column.type is Type.F64 and value is not None:
        number = float.fromhex(value)
        assert np.isfinite(number), f"{where}: {column.name} is {number}; null says that it is not known"
        assert column.unit != "ratio" or 0 <= number <= 1, f"{where}: {column.name} is {number}, a ratio is 0 to 1"


def _assert_entities(table: Table, column: Column, value: Any) -> None:
    kind = ENTITY_COLUMNS.get((table.name, column.name))
    if kind is None or value is None:
        return
    for text in value if isinstance(value, list) else [value]:
        try:
            found = parse_entity_id(text)
        except UsageError as error:
            raise AssertionError(f"{table.name}.{column.name}: {error}") from error
        assert kind in ("", found.kind), f"{table.name}.{column.name} names a {kind}, got {text}"


def assert_same(rows: Rows, expected: Rows, complaint: str) -> None:
    """Rows are the same, bit by bit; the first that differs is told."""
    assert rows.keys() == expected.keys(), f"{complaint}: it wrote {', '.join(rows)}"
    for name, wanted in expected.items():
        got = rows[name]
        for one, other in zip(got, wanted, strict=False):
            differ = {column: (one[column], other[column]) for column in one if one[column] != other[column]}
            assert not differ, f"{complaint}: {name} {one}: {differ}"
        assert len(got) == len(wanted), f"{complaint}: {len(got)} rows of {name}, not {len(wanted)}"


def times_of(table: Table) -> list[str]:
    """Names of the columns that are times, not lengths of time."""
    return [each.name for each in table.columns if each.unit == "ns" and each.name not in LENGTHS]


def moved(table: Table, rows: pa.Table | None, by_ns: int) -> pa.Table | None:
    """Rows with all their times later."""
    if rows is None:
        return None
    for name in times_of(table):
        place = rows.column_names.index(name)
        rows = rows.set_column(place, rows.field(place), pc.add_checked(rows[name], pa.scalar(by_ns, pa.int64())))
    for name in told_in_text(table):
        place = rows.column_names.index(name)
        texts = [_moved_text(text, by_ns) for text in rows[name].to_pylist()]
        rows = rows.set_column(place, rows.field(place), pa.array(texts, pa.string()).cast(rows.field(place).type))
    return rows


def _moved_rows(table: Table, rows: list[Row], by_ns: int) -> list[Row]:
    times = [name for name in times_of(table) if not rows or name in rows[0]]
    texts = [name for name in told_in_text(table) if not rows or name in rows[0]]
    return [
        {
            **row,
            **{name: row[name] + by_ns for name in times if row[name] is not None},
            **{name: _moved_text(row[name], by_ns) for name in texts},
        }
        for row in rows
    ]


def told_in_text(table: Table) -> list[str]:
    """Columns of text that tell times: JSON, where they have keys in `_ns`, and ids of incidents, which say when."""
    return [each.name for each in table.columns if each.doc.startswith("JSON") or each.name == "incident"]


_STAMP = re.compile(r"\d{8}T\d{6}Z$")


def _moved_text(text: str | None, by_ns: int) -> str | None:
    if not text:
        return text
    if stamp := _STAMP.search(text):
        at = datetime.strptime(stamp[0], "%Y%m%dT%H%M%SZ").replace(tzinfo=UTC) + timedelta(microseconds=by_ns / 1000)
        return f"{text[: stamp.start()]}{at:%Y%m%dT%H%M%SZ}"
    try:
        return json.dumps(_moved_json(json.loads(text), by_ns), sort_keys=True)
    except ValueError:
        return text


def _moved_json(value: Any, by_ns: int) -> Any:
    if isinstance(value, list):
        return [_moved_json(each, by_ns) for each in value]
    if not isinstance(value, dict):
        return value
    times = [key for key, each in value.items() if key.endswith("_ns") and key not in LENGTHS and type(each) is int]
    return {key: value[key] + by_ns if key in times else _moved_json(value[key], by_ns) for key in value}


def shuffled(rows: pa.Table, rng: np.random.Generator) -> pa.Table:
    """The same rows in another order, cut into chunks (one of them empty), each with a dictionary of its own."""
    mixed = rows.take(pa.array(rng.permutation(len(rows)), pa.int64()))
    cuts = np.sort(rng.integers(0, len(rows) + 1, 3)).tolist()
    bounds = [0, cuts[0], *cuts, len(rows)]
    pieces = [mixed.slice(begin, end - begin) for begin, end in pairwise(bounds)]
    columns = [
        pa.chunked_array([_other_dictionary(piece[name], rng) for piece in pieces]) for name in rows.column_names
    ]
    return pa.table(columns, schema=rows.schema)


def _other_dictionary(column: pa.ChunkedArray, rng: np.random.Generator) -> pa.Array:
    """A column as one array; texts by number get other numbers, and a text that no row has."""
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], column.type)
    if not pa.types.is_dictionary(whole.type):
        return whole
    texts = [*whole.dictionary.to_pylist(), "no row has this"]
    order = rng.permutation(len(texts))
    place = np.argsort(order)
    index = [None if code is None else int(place[code]) for code in whole.indices.to_pylist()]
    return pa.DictionaryArray.from_arrays(pa.array(index, pa.int32()), pa.array([texts[each] for each in order]))


# --- Declarations ---------------------------------------------------------------------------------------------------


def assert_declared(item: Analysis) -> None:
    """Its name is a word, its tables say who writes them, a job's analysis knows whose rows are whose."""
    assert re.fullmatch(r"[a-z][a-z0-9-]*", item.name), f"{item.name!r}: a name is small letters, digits and dashes"
    for table in item.writes:
        writers = re.split(r",\s*", table.written_by)
        assert f"analysis/{item.name}" in writers, f"written_by of {table.name} does not say analysis/{item.name}"
    for read in item.reads:
        known = {column.name for column in read.table.columns} | {"bound_ns"}
        unknown = [name for name in read.columns if name not in known]
        assert not unknown, f"{item.name} reads {', '.join(unknown)}, which {read.table.name} does not have"
        assert not read.valid or span_of(read.table), f"{item.name}: {read.table.name} tells no spans"
    assert item.part is not Part.JOB or any("job" in read.names for read in item.reads)
