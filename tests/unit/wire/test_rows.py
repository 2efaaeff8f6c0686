"""`wire.rows`: what errors say, defaults, casts of Arrow columns, limits."""

from __future__ import annotations

import io
import json
import struct
import time
from typing import Any

import pyarrow as pa
import pytest

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import BY_NAME
from leadline.wire import rows
from leadline.wire.rows import decode_arrow, decode_rows

STEP, MESSAGE_END, WATERMARK = BY_NAME["step"], BY_NAME["message_end"], BY_NAME["watermark"]
NDJSON = "application/x-ndjson"
ROW = {"job": "bert-7", "rank": 3, "step": 100, "start_ns": 1, "end_ns": 2, "loss": 0.5, "metrics": {"acc": "0.9"}}


def lines(*rows: Any) -> bytes:
    return b"\n".join(row if isinstance(row, bytes) else json.dumps(row).encode() for row in rows)


def refusal(*rows: Any) -> DataError:
    with pytest.raises(DataError) as error:
        decode_rows(lines(*rows), NDJSON, STEP)
    return error.value


def test_host_and_clock_may_be_left_out_and_nulls_too() -> None:
    columns = decode_rows(lines(ROW, b"", {**ROW, "host": "n1", "tokens": None}), NDJSON, STEP)
    assert columns["host"] == ["", "n1"]
    assert columns["clock"] == ["", ""]
    assert columns["tokens"] == [None, None]
    assert list(columns) == [column.name for column in STEP.given]


def test_an_integer_is_a_number() -> None:
    assert decode_rows(lines({**ROW, "loss": 2}), NDJSON, STEP)["loss"] == [2.0]


def test_no_rows() -> None:
    assert decode_rows(b"\n\n", NDJSON, STEP)["job"] == []
    assert decode_rows(b"[]", "application/json", STEP)["job"] == []


def test_errors_name_line_column_and_what_was_expected() -> None:
    error = refusal(ROW, b" ", {**ROW, "loss": "abc"})
    assert (error.where, error.expected, error.got) == ("line 3, column loss", "a number or null", "'abc' (string)")


def test_an_unknown_column_is_told_with_near_names() -> None:
    assert "did you mean loss" in str(refusal({**ROW, "los": 1}))
    assert "columns are host, clock, job" in str(refusal({**ROW, "zzzz": 1}))


def test_a_missing_column() -> None:
    assert "column job: expected a string, got no such column" in str(refusal({"rank": 1}))


@pytest.mark.parametrize(
    ("row", "said"),
    [
        (b'{"job": NaN}', "NaN, which JSON does not have"),
        (b'{"loss": -Infinity}', "-Infinity, which JSON does not have"),
        (b'{"job": "a", "job": "b"}', "column job: expected each name once"),
        (b'{"job": "a"', "expected a JSON object"),
        (b"[1]", "expected an object of columns"),
        (b"[" * 100_000, "nested too deeply"),
        (b"1" * 5000, "expected a JSON object"),
        (b'{"job": "\xff"}', "expected a JSON object"),
    ],
)
def test_bad_json(row: bytes, said: str) -> None:
    assert said in str(refusal(ROW, row))


def test_the_first_five_bad_rows_are_named_and_all_counted() -> None:
    error = refusal(*[{**ROW, "rank": "x"}] * 3, ROW, *[{**ROW, "step": None}] * 5)
    assert error.where == "line 1, column rank"
    assert "line 5, column step" in error.got
    assert "line 6, column step" in error.got
    assert "line 7" not in error.got
    assert "8 bad rows in all" in error.got


def test_a_content_type_that_is_not_taken() -> None:
    with pytest.raises(RefusedError, match="got text/csv") as error:
        decode_rows(b"", "text/csv", STEP)
    assert error.value.reason == "unsupported_encoding"


# --- Arrow ---


def stream(columns: dict[str, Any], compression: str | None = None) -> bytes:
    out = io.BytesIO()
    table = pa.table(columns)
    with pa.ipc.new_stream(out, table.schema, options=pa.ipc.IpcWriteOptions(compression=compression)) as writer:
        writer.write_table(table)
    return out.getvalue()


def arrow(count: int = 2, **other: Any) -> dict[str, Any]:
    columns = {
        "job": pa.array(["b"] * count).dictionary_encode(),
        "rank": pa.array([1] * count, pa.int32()),
        "step": pa.array([2] * count, pa.uint8()),
        "start_ns": pa.array([3] * count, pa.timestamp("ns")),
        "end_ns": pa.array([4] * count),
        "metrics": pa.array([{"a": "b"}] * count, pa.map_(pa.string(), pa.string())),
    }
    return {**columns, **other}


def test_columns_are_cast_where_nothing_is_lost() -> None:
    rows = decode_arrow(stream(arrow(loss=pa.array([1, None], pa.float32()))), STEP)
    assert rows.column_names == [column.name for column in STEP.given]
    assert rows.to_pylist()[0] == {
        **dict.fromkeys(rows.column_names), "host": "", "clock": "", "job": "b", "rank": 1, "step": 2, "start_ns": 3,
        "end_ns": 4, "loss": 1.0, "metrics": [("a", "b")],
    }  # fmt: skip
    assert rows.schema.field("job").type == pa.string()
    assert rows.schema.field("rank").type == pa.int64()


@pytest.mark.parametrize(
    ("column", "said"),
    [
        ({"rank": pa.array([1.0, 2.0])}, "column rank: expected int64, never null, got Arrow type double"),
        ({"rank": pa.array([1, None])}, "column rank: expected int64, never null, got 1 nulls"),
        ({"rank": pa.array([1, 2**63], pa.uint64())}, "column rank: expected int64"),
        ({"job": pa.array([1, 2])}, "column job: expected string"),
        ({"job": pa.array(["a", "b"], pa.string_view())}, "Arrow type string_view"),
        ({"start_ns": pa.array([1, 2], pa.timestamp("ms"))}, "Arrow type timestamp[ms]"),
        ({"lost": pa.array([1, 2])}, "did you mean loss"),
        ({"metrics": pa.array([[("a", None)], []], pa.map_(pa.string(), pa.string()))}, "a null in a map"),
    ],
)
def test_columns_that_do_not_fit(column: dict[str, Any], said: str) -> None:
    with pytest.raises(DataError) as error:
        decode_arrow(stream(arrow(**column)), STEP)
    assert said in str(error.value)


def test_columns_of_former_names_are_taken() -> None:
    """An agent of before calls the time of a watermark `told_ns`."""
    row = {"host": "h1", "clock": "h1/b", "told_ns": 7, "to_ns": 6, "sender": "agent", "job": "", "ranks": 0,
           "state": "open"}  # fmt: skip
    columns = decode_arrow(stream({name: pa.array([value]) for name, value in row.items()}), WATERMARK)
    assert columns.column("reported_ns").to_pylist() == [7]
    assert decode_rows(json.dumps(row).encode(), NDJSON, WATERMARK)["reported_ns"] == [7]
    twice = {**row, "reported_ns": 8}
    with pytest.raises(DataError, match="column reported_ns: expected each column once"):
        decode_arrow(stream({name: pa.array([value]) for name, value in twice.items()}), WATERMARK)
    with pytest.raises(DataError, match="told_ns"):
        decode_rows(json.dumps(twice).encode(), NDJSON, WATERMARK)


def test_a_missing_column_of_arrow() -> None:
    columns = arrow()
    del columns["job"]
    with pytest.raises(DataError, match=r"column job: .*no such column in the stream"):
        decode_arrow(stream(columns), STEP)


def test_flow_ids_are_sixteen_bytes() -> None:
    columns = {"job": ["b"], "comm": ["c"], "channel": [0], "seq": pa.array([1], pa.uint64()), "step": [0]}
    columns |= {"side": ["send"], "rank": [0], "peer": [1], "bytes": [8], "begin_ns": [1], "end_ns": [2]}
    rows = decode_arrow(stream({**columns, "flow": pa.array([b"x" * 16])}), MESSAGE_END)
    assert rows.column("flow").to_pylist() == [b"x" * 16]
    with pytest.raises(DataError, match="column flow"):
        decode_arrow(stream({**columns, "flow": pa.array([b"x" * 15])}), MESSAGE_END)


def test_rows_and_bytes_are_bounded() -> None:
    body = stream(arrow(1000))
    assert decode_arrow(body, STEP, rows_max=1000).num_rows == 1000
    for limits in ({"rows_max": 999}, {"bytes_max": 10_000}):
        with pytest.raises(RefusedError) as error:
            decode_arrow(body, STEP, **limits)
        assert error.value.reason == "decompressed_too_large"


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_bomb_is_refused_by_what_it_declares(compression: str) -> None:
    body = stream({"job": pa.array(["x" * 2_000_000])}, compression)
    assert len(body) < 50_000
    with pytest.raises(RefusedError, match="bytes in one Arrow body"):
        decode_arrow(body, STEP, bytes_max=1_000_000)


@pytest.mark.parametrize("compression", ["lz4", "zstd"])
def test_a_declared_length_that_lies(compression: str) -> None:
    """A buffer that says it unpacks to terabytes is refused before anything is allocated."""
    text = "x" * 2_000_000
    body = stream({"job": pa.array([text])}, compression).replace(
        struct.pack("<q", len(text)), struct.pack("<q", 1 << 45)
    )
    assert struct.pack("<q", 1 << 45) in body
    with pytest.raises(RefusedError, match="bytes in one Arrow body"):
        decode_arrow(body, STEP)


def test_a_dictionary_that_unpacks_to_too_much() -> None:
    job = pa.DictionaryArray.from_arrays(pa.array([0] * 1000, pa.int8()), ["x" * 10_000])
    with pytest.raises(DataError, match="a dictionary that would unpack to more"):
        decode_arrow(stream(arrow(1000, job=job)), STEP, bytes_max=1_000_000)


@pytest.mark.parametrize("blank", [b"\n", b" \t\r\n", b"\r\n", b"\n" * 100_000, b" " * 5000 + b"\n"])
def test_blank_lines_are_passed_over_and_counted(blank: bytes) -> None:
    lines = list(rows._lines(blank + b" a\n" + 3 * blank + b"b\r\nc" + b"\n" + blank))
    first = blank.count(b"\n") + 1
    second = first + 1 + 3 * blank.count(b"\n")
    assert lines == [(first, b" a"), (second, b"b\r"), (second + 1, b"c")]


def test_a_body_of_line_feeds_costs_next_to_nothing() -> None:
    """39 kB that deflate to 40 MB took 7 s of a core, and a list of 320 MB."""
    body = b"\n" * (40 << 20)
    began = time.process_time()
    assert decode_rows(body, "application/x-ndjson", BY_NAME["event"])["time_ns"] == []
    assert time.process_time() - began < 1.0


def test_bad_rows_are_read_to_a_thousand() -> None:
    with pytest.raises(DataError, match="1000 bad rows and perhaps more, not read further"):
        decode_rows(b"1\n" * (8 << 20), "application/x-ndjson", BY_NAME["event"])


@pytest.mark.parametrize("content_type", ["application/json", NDJSON])
def test_one_json_value_is_bounded(content_type: str) -> None:
    """The parser lets no other thread run: 128 MiB of numbers stood the server still for 6 s."""
    body = b"[" + b"1," * (rows.JSON_BYTES_MAX // 2) + b"1]"
    with pytest.raises(RefusedError, match="may have 4194304 bytes as JSON") as refused:
        decode_rows(body, content_type, BY_NAME["event"])
    assert refused.value.reason == "decompressed_too_large"
