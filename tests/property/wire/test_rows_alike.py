"""Rows read together are what they are line by line: the same columns, or else nothing is said of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.model.errors import LeadlineError
from leadline.model.tables import BY_NAME, Table
from leadline.wire import rows
from leadline.wire.rows_alike import columns_alike

NAMES = ("edge_fit", "event", "flow_sent", "watermark", "relation")
ODD: list[Any] = [
    None,
    True,
    -1,
    2**63,
    2**64,
    1.5,
    "x",
    "\ud800",
    'a":b',
    "",
    [],
    ["a"],
    {},
    {"a": "b"},
    {"a": 1},
    [None],
]
BROKEN = [
    b"",
    b"{}",
    b"[]",
    b'{"a":1},{"b":2}',
    b'{"host":"a","host":"b"}',
    b'{"host" :"a"}',
    b"nan",
    b"\xff",
    b"{",
    b'{"a":NaN}',
]


def value_of(kind: str) -> Any:
    return {"I64": 7, "U64": 8, "F64": 1.25, "BOOL": True, "U128": "0f" * 16, "MAP": {"k": "v"}, "SYMS": ["s"]}.get(
        kind, "text"
    )


def row_of(table: Table) -> dict[str, Any]:
    return {column.name: value_of(column.type.name) for column in table.given}


def line_by_line(body: bytes, table: Table) -> dict[str, list[Any]] | None:
    numbered = rows._lines(body)
    try:
        return rows._checked(table, ((f"line {n}", lambda line=line: rows._parsed(line)) for n, line in numbered))
    except LeadlineError:
        return None


@st.composite
def bodies(draw: st.DrawFn) -> tuple[str, bytes]:
    name = draw(st.sampled_from(NAMES))
    table = BY_NAME[name]
    lines: list[bytes] = []
    for _ in range(draw(st.integers(1, 4))):
        row = row_of(table)
        for column in draw(st.lists(st.sampled_from([*row, "nonsense"]), max_size=2)):
            if draw(st.booleans()):
                row.pop(column, None)
            else:
                row[column] = draw(st.sampled_from(ODD))
        compact = draw(st.sampled_from([(",", ":"), (", ", ": "), (",", " :")]))
        line = json.dumps(row, separators=compact, ensure_ascii=draw(st.booleans())).encode("utf-8", "replace")
        if draw(st.integers(0, 9)) == 0:  # a name twice
            line = line[:-1] + b',"host":"twice"}'
        lines.append(draw(st.sampled_from(BROKEN)) if draw(st.integers(0, 14)) == 0 else line)
    return name, draw(st.sampled_from([b"\n", b"\r\n", b"\n\n"])).join(lines) + draw(st.sampled_from([b"", b"\n"]))


@given(bodies())
def test_rows_read_together_are_what_they_are_line_by_line(given_: tuple[str, bytes]) -> None:
    name, body = given_
    table = BY_NAME[name]
    together = columns_alike(body, table, rows._DEFAULTS, rows._READERS)
    if together is not None:
        apart = line_by_line(body, table)
        assert apart is not None
        assert list(together) == list(apart)
        assert repr(together) == repr(apart)


@given(st.sampled_from(NAMES), st.lists(st.integers(1, 3), min_size=1, max_size=4), st.data())
def test_bodies_read_together_are_what_each_is(name: str, counts: list[int], data: st.DataObject) -> None:
    table = BY_NAME[name]
    given_ = [data.draw(bodies()) for _ in counts]
    some = [
        body if of == name and data.draw(st.booleans()) else b"\n".join([json.dumps(row_of(table)).encode()] * count)
        for count, (of, body) in zip(counts, given_, strict=True)
    ]
    found = rows.rows_of_alike(some, table)
    if found is not None:
        apart = [line_by_line(body, table) for body in some]
        whole = {column: [value for each in apart if each for value in each[column]] for column in found[0]}
        assert repr(found[0]) == repr(whole)
        assert found[1] == [len(next(iter(each.values()))) for each in apart if each]


def test_what_is_no_row_alone_is_none_beside_another() -> None:
    """Two lines that are rows only if a text of the first goes on in the second."""
    table = BY_NAME["watermark"]
    row = json.dumps(row_of(table) | {"host": "HERE"}).encode()
    begin, end = row.split(b"HERE")
    lines = begin + b"a}", b"{b" + end + b"," + row
    assert json.loads(b"[" + b",".join(lines) + b"]")[0]["host"] == "a},{b"
    assert rows.rows_of_alike(lines, table) is None
    assert columns_alike(b"\n".join(lines), table, rows._DEFAULTS, rows._READERS) is None


def test_plain_bodies_are_read_together() -> None:
    table = BY_NAME["watermark"]
    line = json.dumps(row_of(table)).encode()
    found = rows.rows_of_alike([line + b"\n", line + b"\n" + line], table)
    assert found is not None
    assert found[1] == [1, 2]


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("separators", [(",", ":"), (", ", ": ")])
def test_what_senders_send_is_read_together(name: str, separators: tuple[str, str]) -> None:
    table = BY_NAME[name]
    body = b"\n".join([json.dumps(row_of(table), separators=separators).encode()] * 3) + b"\n"
    together = columns_alike(body, table, rows._DEFAULTS, rows._READERS)
    assert together is not None
    assert repr(together) == repr(line_by_line(body, table))
