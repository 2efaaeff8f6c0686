"""Input that fits its tables and nothing else: damaged rows of a case, and rows of chance."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa
from hypothesis import strategies as st
from tests.common.analysis_laws import Case, fits, judged, rows_of

from leadline.analysis.spec import Analysis, Window
from leadline.model.tables import Column, Table, Type
from leadline.store.schema import arrow_table

ROWS_MAX = 60  # of a case, so that one example takes milliseconds
I64_MIN, I64_MAX = -(2**63), 2**63 - 1

# Ids that occur in cases and contradict each other, others that nobody told of, and what is no id at all.
TEXTS = (
    "", ":", "port:", ":h1", "~", "link:~", "port:h1/eth0", "port:h1/eth0", "swport:leaf1/Ethernet1", "switch:leaf1",
    "swport:leaf1/Ethernet3", "swport:spine1/Ethernet1", "host:h1", "host:h1.cluster.local", "gpu:GPU-0", "gpu:gpu-0",
    "rank:bert-1/0", "rank:bert-1/", "job:bert-1", "flow:zz", "flow:" + "f" * 32, "qp:10.1.1.1/257", "qp:::1/x",
    "address:10.1.1.1", "address:::ffff:10.1.1.1", "address:no", "linked", "in", "owns", "runs-on", "member", "leaf1",
    "spine1", "leaf9", "Ethernet1", "Ethernet99", "10.1.1.1", "::ffff:10.1.1.1", "fe80::1%eth0", "999.1.1.1", "ff02::1",
    "h\u00f4te:\u2003\U0001f9ed", "a\0b", "x" * 300, "lldp", "inventory", "NaN", "null", "[1]", "{",
)  # fmt: skip
FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, 1.0, -1.0, 5e-324, 1e308, float("inf"), float("-inf"), float("nan")]),
    st.floats(),
)


@cache  # to make a strategy takes longer than to draw from it
def cells(column: Column, window: Window) -> st.SearchStrategy[Any]:
    """Values that a column of the table may hold."""
    texts = st.one_of(st.sampled_from(TEXTS), st.text(st.characters(exclude_categories=["Cs"]), max_size=5))
    kinds: dict[Type, st.SearchStrategy[Any]] = {
        Type.SYM: texts,
        Type.STR: texts,
        Type.SYMS: st.lists(texts, max_size=3),
        Type.I64: _ints(column, window),
        Type.U64: st.one_of(st.sampled_from([0, 1, 1000, 2**32, 2**63, 2**64 - 1]), st.integers(0, 2**64 - 1)),
        Type.U128: st.one_of(st.sampled_from([0, 1, 2**64, 2**128 - 1]), st.integers(0, 2**128 - 1)),
        Type.F64: FLOATS,
        Type.BOOL: st.booleans(),
        Type.MAP: st.dictionaries(texts, texts, max_size=2),
    }
    found = kinds[column.type]
    return st.one_of(st.none(), found) if column.nullable else found


def _ints(column: Column, window: Window) -> st.SearchStrategy[int]:
    if column.unit == "ns":
        edges = [window.from_ns - 1, window.from_ns, window.to_ns - 1, window.to_ns, 0, -1, I64_MIN, I64_MAX]
        inside = st.integers(window.from_ns - window.window_ns, window.to_ns + window.window_ns)
        return st.one_of(st.sampled_from(edges), inside)
    return st.one_of(
        st.sampled_from([-1, 0, 1, 6, 17, 4791, 65535, 65536, I64_MIN, I64_MAX]), st.integers(I64_MIN, I64_MAX)
    )


@cache
def chance(table: Table, window: Window) -> st.SearchStrategy[list[dict[str, Any]]]:
    """A few rows of a table, anything in each of their columns."""
    return st.lists(st.fixed_dictionaries({column.name: cells(column, window) for column in table.columns}), max_size=3)


@st.composite
def nonsense(draw: st.DrawFn, item: Analysis, case: Case) -> Case:
    """Some rows of a case, some of them damaged or twice, and rows of chance."""
    tables = {}
    for table in sorted({read.table for read in item.reads}, key=lambda each: each.name):
        tables[table.name] = draw(damaged(table, case.tables[table.name], case.window))
    return replace(case, tables=tables)


@st.composite
def damaged(draw: st.DrawFn, table: Table, rows: pa.Table, window: Window) -> pa.Table:
    """Rows of one table, so damaged."""
    count = min(len(rows), draw(st.sampled_from([0, 3, ROWS_MAX])))
    begin = draw(st.integers(0, len(rows) - count))
    found = rows.slice(begin, count).to_pylist()
    found += draw(chance(table, window))
    if found:
        for _ in range(draw(st.integers(0, 8))):
            column = draw(st.sampled_from(table.columns))
            place = draw(st.integers(0, len(found) - 1))
            found[place] = {**found[place], column.name: draw(cells(column, window))}
        found += [found[place] for place in draw(st.lists(st.integers(0, len(found) - 1), max_size=3))]
    return arrow_table(table, {column.name: [row[column.name] for row in found] for column in table.columns})


def survives(item: Analysis, case: Case) -> None:
    """Whatever came in, what is written fits its table."""
    fits(item, rows_of(item, judged(item, case.tables, case.window), case.window), case.window)
