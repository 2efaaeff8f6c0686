"""Decodes the bodies of `POST /api/v1/rows/{table}`: NDJSON, a JSON array, or an Arrow IPC stream.

Rows are checked against the table's spec (`Table.given`: all columns but tenant, cluster and batch). All or
nothing: one row that does not fit refuses the body, and the error names the first of them.

    {"job": "bert-7", "rank": 3, "step": 100, "start_ns": 1700000000000000000, ...}

Nothing is guessed: a number is not a text, true is not 1, a column nobody declared is an error that says which
name was probably meant. Only `host` and `clock` may be left out (empty), and columns that may be null.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Iterator, Sequence
from difflib import get_close_matches
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from leadline.model.errors import DataError, RefusedError
from leadline.model.tables import Column, Table, Type
from leadline.wire.arrow_declared import check_declared, too_large
from leadline.wire.rows_alike import columns_alike

NDJSON = ("application/x-ndjson", "application/ndjson", "application/jsonl")
JSON = "application/json"
ARROW = "application/vnd.apache.arrow.stream"

_BLANK_STEP, _BLANK_STEPS_MAX = 64, 1 << 20  # bytes looked at first for more blank lines, and at once
_DEFAULTS = {"host": "", "clock": ""}  # columns of every host row that a sender need not give
# Of one JSON value: it is parsed in one go, and no other thread runs meanwhile (4 MiB of numbers: 0.2 s, of empty lists
# 1 s). 128 MiB, which pack into 130 kB, stood everything still for 6 s.
JSON_BYTES_MAX = 4 << 20
_BAD_ROWS_MAX = 5  # named in one error; the rest is counted
_BAD_ROWS_READ = (
    1000  # then the body is read no further: 64 million of them pack into 130 kB and take minutes of a core
)
_EXCERPT = 40  # characters of a bad value that an error shows

ROWS_MAX = 5_000_000  # of one Arrow body; the largest table row (step) is about 200 bytes, so 1 GB unpacked
ARROW_BYTES_MAX = 1 << 30  # of one Arrow body after unpacking


_Reader = Callable[[Any], Any]  # checks one value and returns it as the column holds it; ValueError if it does not fit
_Readers = list[tuple[Column, Callable[[Any], None], _Reader]]  # with the `append` of the column's list


class _BadRow(Exception):
    """One row does not fit; `where` is the line or row, perhaps with its column."""

    def __init__(self, column: str, expected: str, got: str) -> None:
        super().__init__(column, expected, got)
        self.column = column
        self.expected = expected
        self.got = got


# --- JSON ----------------------------------------------------------------------------------------------------


def decode_rows(body: bytes, content_type: str, table: Table) -> dict[str, list[Any]]:
    """Columns of `table.given` from NDJSON or a JSON array of objects.

    Inputs: the unpacked body; its content type. A body without rows gives empty columns.
    Returns: one list per column: int (also U128, written as 32 hex digits), float, bool, str, dict (MAP), list
    (SYMS) or None.
    Errors: DataError for the first bad row, followed by up to four more and the number of all; RefusedError for
    another content type, and for a row or an array over JSON_BYTES_MAX.
    """
    media_type = content_type.partition(";")[0].strip().lower()
    if media_type in NDJSON:
        body = bytes(body)
        alike = columns_alike(body, table, _DEFAULTS, _READERS)
        if alike is not None:
            return alike
        numbered = _lines(body)
        return _checked(table, ((f"line {number}", lambda line=line: _parsed(line)) for number, line in numbered))
    if media_type == JSON:
        rows = _array(bytes(body))
        return _checked(table, ((f"row {number}", lambda row=row: row) for number, row in enumerate(rows, 1)))
    raise RefusedError(
        "unsupported_encoding", f"rows are {NDJSON[0]}, {JSON} or {ARROW}; got {media_type or 'no content type'}"
    )


def rows_of_alike(bodies: Sequence[bytes], table: Table) -> tuple[dict[str, list[Any]], list[int]] | None:
    """Columns of several NDJSON bodies whose rows are all alike, and how many rows each body has; None: decode each."""
    ended = [body if body.endswith(b"\n") else body + b"\n" for body in bodies]
    columns = columns_alike(b"".join(ended), table, _DEFAULTS, _READERS)
    return None if columns is None else (columns, [body.count(b"\n") for body in ended])


def _lines(body: bytes) -> Iterator[tuple[int, bytes]]:
    """Lines that are not blank, with their numbers.

    Blank ones are passed over many at a time: 128 MiB of line feeds, which pack into 130 kB, would be minutes of Python
    and a list of a gigabyte. Not all of them at once either, because no other thread runs meanwhile.
    """
    number, at = 1, 0
    while at < len(body):
        end = body.find(b"\n", at)
        end = len(body) if end < 0 else end
        line = body[at:end]
        if line.strip():
            yield number, line
            number, at = number + 1, end + 1
        else:
            blank = _blank(body, at, end + 1)
            number, at = number + body.count(b"\n", at, blank), blank


def _blank(body: bytes, begin: int, at: int) -> int:
    """Where the blank lines from `begin` on end, of which the first ends at `at`; perhaps some before that."""
    step = _BLANK_STEP
    while at < len(body) and at - begin < _BLANK_STEPS_MAX:
        piece = body[at : at + step]
        blank = len(piece) - len(piece.lstrip())
        cut = piece.rfind(b"\n", 0, blank) + 1
        at += cut
        if blank < len(piece) or not cut:
            break
        step = 2 * step
    return at


def _checked(table: Table, rows: Any) -> dict[str, list[Any]]:
    """Columns from (where, function that parses the row) pairs. Errors: DataError."""
    columns: dict[str, list[Any]] = {column.name: [] for column in table.given}
    readers: _Readers = [(column, columns[column.name].append, _READERS[column.type]) for column in table.given]
    forgetful: _Readers = [(column, _forget, read) for column, _, read in readers]
    bad: list[tuple[str, _BadRow]] = []
    bad_count = 0
    for where, parse in rows:
        try:
            _take_row(table, forgetful if bad else readers, _in_names_of_today(table, parse()))
        except _BadRow as problem:
            bad_count += 1
            if len(bad) < _BAD_ROWS_MAX:
                bad.append((where, problem))
            if bad_count == _BAD_ROWS_READ:
                break
    if bad:
        raise _refusal(bad, bad_count)
    return columns


def _take_row(table: Table, readers: _Readers, row: Any) -> None:
    """Append one row to its columns. Errors: _BadRow (the columns are then of no use)."""
    if type(row) is not dict:
        raise _BadRow("", "an object of columns", _shown(row))
    found = 0
    for column, append, read in readers:
        name = column.name
        value = row.get(name)
        if value is None:
            if name in row:
                found += 1
                if not column.nullable:
                    raise _BadRow(name, _wanted(column), "null")
            elif not column.nullable:
                if name not in _DEFAULTS:
                    raise _BadRow(name, _wanted(column), "no such column in the row")
                value = _DEFAULTS[name]
            append(value)
            continue
        found += 1
        try:
            append(read(value))
        except ValueError:
            raise _BadRow(name, _wanted(column), _shown(value)) from None
    if found != len(row):
        raise _unknown_column(table, row)


def _in_names_of_today(table: Table, row: Any) -> Any:
    """A row with columns of former names (`Table.former`) under those of today: senders of before are still there."""
    if type(row) is not dict or not any(then in row for then in table.former.columns.values()):
        return row
    # Where a row has both names, the former one is a column that the table does not have.
    return {now if (now := table.today(name)) not in row else name: value for name, value in row.items()}


def _forget(value: Any) -> None:
    """What `append` is once a bad row was seen: whether rows fit is still told, their values are not kept."""


def _unknown_column(table: Table, row: dict[str, Any]) -> _BadRow:
    names = [column.name for column in table.given]
    name = next(name for name in row if name not in names)
    near = get_close_matches(name, names, 3, 0.5)
    meant = f"did you mean {' or '.join(near)}?" if near else f"columns are {', '.join(names)}"
    return _BadRow(name[:_EXCERPT], f"a column of {table.name} ({meant})", "a name that it does not have")


def _refusal(bad: list[tuple[str, _BadRow]], count: int) -> DataError:
    places = [f"{where}, column {each.column}" if each.column else where for where, each in bad]
    where, first = places[0], bad[0][1]
    got = first.got
    for place, (_, each) in zip(places[1:], bad[1:], strict=True):
        got += f"; {place}: expected {each.expected}, got {each.got}"
    if count > len(bad):
        got += f"; {count} bad rows {'in all' if count < _BAD_ROWS_READ else 'and perhaps more, not read further'}"
    return DataError(where, first.expected, got)


def _parsed(text: bytes) -> Any:
    """One JSON value. Errors: _BadRow; RefusedError("decompressed_too_large")."""
    if len(text) > JSON_BYTES_MAX:
        raise RefusedError(
            "decompressed_too_large",
            f"a row, or an array of rows, may have {JSON_BYTES_MAX} bytes as JSON, got {len(text)}; send {NDJSON[0]}, "
            "a row a line, or Arrow",
        )
    try:
        return json.loads(text, object_pairs_hook=_pairs, parse_constant=_no_constant)
    except _BadRow:
        raise
    except RecursionError:
        raise _BadRow("", "a JSON object", "one nested too deeply") from None
    except ValueError as error:  # bad JSON, bad UTF-8, a number of thousands of digits
        raise _BadRow("", "a JSON object", str(error)[:120]) from None


def _array(body: bytes) -> list[Any]:
    try:
        rows = _parsed(body)
    except _BadRow as problem:
        where = f"the body, column {problem.column}" if problem.column else "the body"
        raise DataError(where, problem.expected, problem.got) from None
    if type(rows) is not list:
        raise DataError("the body", "a JSON array of rows", _shown(rows))
    return rows


def _pairs(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    found = dict(pairs)
    if len(found) != len(pairs):
        seen: set[str] = set()
        for name, _ in pairs:
            if name in seen:
                raise _BadRow(name[:_EXCERPT], "each name once", "it twice")
            seen.add(name)
    return found


def _no_constant(text: str) -> Any:
    raise _BadRow("", "JSON", f"{text}, which JSON does not have; leave the column out or send null")


def _shown(value: Any) -> str:
    """A bad value for an error: `'abc' (string)`."""
    if value is None:
        return "null"
    kinds: dict[type, str] = {bool: "bool", str: "string", int: "integer", float: "number", list: "array"}
    try:
        text = repr(value)
    except ValueError:  # an integer of thousands of digits
        text = "a very long integer"
    text = text if len(text) <= _EXCERPT else text[:_EXCERPT] + "..."
    return f"{text} ({kinds.get(type(value), 'object')})"


def _text(value: Any) -> str:
    if type(value) is not str or (not value.isascii() and _has_surrogate(value)):
        raise ValueError
    return value


def _has_surrogate(value: str) -> bool:
    return any(0xD800 <= ord(character) <= 0xDFFF for character in value)


def _int64(value: Any) -> int:
    if type(value) is not int or not -(2**63) <= value < 2**63:
        raise ValueError
    return value


def _uint64(value: Any) -> int:
    if type(value) is not int or not 0 <= value < 2**64:
        raise ValueError
    return value


def _hex128(value: Any) -> int:
    if type(value) is not str or len(value) != 32 or not all(digit in "0123456789abcdefABCDEF" for digit in value):
        raise ValueError
    return int(value, 16)


def _float(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError
    try:
        number = float(value)
    except OverflowError:
        raise ValueError from None
    if not math.isfinite(number):  # 1e999
        raise ValueError
    return number


def _bool(value: Any) -> bool:
    if type(value) is not bool:
        raise ValueError
    return value


def _map(value: Any) -> dict[str, str]:
    if type(value) is not dict:
        raise ValueError
    for name, text in value.items():
        _text(name)
        _text(text)
    return value


def _set(value: Any) -> list[str]:
    if type(value) is not list:
        raise ValueError
    return [_text(each) for each in value]


_READERS: dict[Type, _Reader] = {
    Type.SYM: _text,
    Type.SYMS: _set,
    Type.STR: _text,
    Type.I64: _int64,
    Type.U64: _uint64,
    Type.U128: _hex128,
    Type.F64: _float,
    Type.BOOL: _bool,
    Type.MAP: _map,
}

_WANTED: dict[Type, str] = {
    Type.SYM: "a string",
    Type.SYMS: "an array of strings",
    Type.STR: "a string",
    Type.I64: "an integer from -2**63 to 2**63 - 1",
    Type.U64: "an integer from 0 to 2**64 - 1",
    Type.U128: "a string of 32 hex digits",
    Type.F64: "a number",
    Type.BOOL: "true or false",
    Type.MAP: "an object of strings",
}


def _wanted(column: Column) -> str:
    return _WANTED[column.type] + (" or null" if column.nullable else "")


# --- Arrow ---------------------------------------------------------------------------------------------------

_ARROW: dict[Type, pa.DataType] = {
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


def decode_arrow(body: bytes, table: Table, rows_max: int = ROWS_MAX, bytes_max: int = ARROW_BYTES_MAX) -> pa.Table:
    """Columns of `table.given`, in that order, from one Arrow IPC stream.

    Inputs: the body; the most rows and the most bytes (after the unpacking of compressed buffers) to take.
    Returns: a pa.Table of string, int64, uint64, float64, bool, binary(16) (little-endian), list and map
    columns. Smaller integers, large strings and dictionaries are cast where nothing is lost.
    Errors: DataError for bytes that are no Arrow stream, for columns or types that do not fit, for nulls where
    none may be; RefusedError("decompressed_too_large").
    """
    try:
        check_declared(body, rows_max, bytes_max)
        rows = _read_stream(body, rows_max, bytes_max)
    except (RefusedError, DataError):
        raise
    except Exception as error:  # pyarrow raises many kinds for hostile bytes: ArrowInvalid, OSError, KeyError, ...
        raise DataError("the body", "an Arrow IPC stream", _first_line(error)) from None
    return _fitted(table, rows, bytes_max)


def _read_stream(body: bytes, rows_max: int, bytes_max: int) -> pa.Table:
    batches = []
    rows = size = 0
    with pa.ipc.open_stream(body) as reader:
        schema = reader.schema
        _ = schema.names  # decodes them: names that are no UTF-8 are refused with the rest
        for batch in reader:
            rows += batch.num_rows
            if rows > rows_max:
                raise too_large(rows_max, bytes_max)
            # Offsets, UTF-8 and dictionary indices come from outside, and to ask for the size of a batch already
            # follows offsets: unchecked ones read beyond the body, or kill the process.
            batch.validate(full=True)
            size += batch.nbytes
            if size > bytes_max:
                raise too_large(rows_max, bytes_max)
            batches.append(batch)
    return pa.Table.from_batches(batches, schema)


def _fitted(table: Table, rows: pa.Table, bytes_max: int) -> pa.Table:
    """The columns of the table in its order and types. Errors: DataError."""
    names = [column.name for column in table.given]
    rows = rows.rename_columns([table.today(name) for name in rows.column_names])
    given = rows.column_names
    if len(set(given)) != len(given):
        twice = next(name for name in given if given.count(name) > 1)
        raise DataError(f"column {twice}", "each column once", "it twice")
    for name in given:
        if name not in names:
            problem = _unknown_column(table, dict.fromkeys(given))
            raise DataError(f"column {problem.column}", problem.expected, problem.got)
    return pa.table({column.name: _column(column, rows, bytes_max) for column in table.given})


def _column(column: Column, rows: pa.Table, bytes_max: int) -> pa.ChunkedArray:
    wanted = _ARROW[column.type]
    where = f"column {column.name}"
    if column.name not in rows.column_names:
        if column.nullable:
            return pa.chunked_array([pa.nulls(rows.num_rows, wanted)])
        if column.name in _DEFAULTS:
            return pa.chunked_array([pa.array([_DEFAULTS[column.name]] * rows.num_rows, wanted)])
        raise DataError(where, _wanted_arrow(column), "no such column in the stream")
    values = rows.column(column.name)
    if not _castable(values.type, wanted):
        raise DataError(where, _wanted_arrow(column), f"Arrow type {values.type}")
    if pa.types.is_dictionary(values.type) and _spread_bytes(values) > bytes_max:
        raise DataError(where, f"at most {bytes_max} bytes", "a dictionary that would unpack to more")
    try:
        values = values.cast(wanted)  # safe: an integer that does not fit is an error
    except Exception as error:  # ArrowInvalid, ArrowNotImplementedError, OverflowError
        raise DataError(where, _wanted_arrow(column), _first_line(error)) from None
    if not column.nullable and values.null_count:
        raise DataError(where, _wanted_arrow(column), f"{values.null_count} nulls")
    _check_inside(where, column, values)
    return values


def _check_inside(where: str, column: Column, values: pa.ChunkedArray) -> None:
    """Lists and maps hold no nulls, and a map no key twice. Errors: DataError."""
    for chunk in values.chunks:
        if column.type is Type.SYMS and chunk.flatten().null_count:
            raise DataError(where, _wanted_arrow(column), "a null in a list")
        if column.type is Type.MAP and (chunk.keys.null_count or chunk.items.null_count):
            raise DataError(where, _wanted_arrow(column), "a null in a map")


def _spread_bytes(values: pa.ChunkedArray) -> int:
    """Bytes of a dictionary column written out: one long text may be meant by millions of indices."""
    total = 0
    for chunk in values.chunks:
        if pa.types.is_string(chunk.dictionary.type) or pa.types.is_large_string(chunk.dictionary.type):
            lengths = pc.binary_length(chunk.dictionary).cast(pa.int64())
            total += pc.sum(lengths.take(chunk.indices)).as_py() or 0
    return total


def _castable(given: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a cast keeps the meaning and cannot grow without bound.

    No text from numbers, no number from texts, no integer from floats. Views are not taken: like a dictionary
    they can name one long text many times.
    """
    kinds = pa.types
    if given == wanted or kinds.is_null(given):
        return True
    if kinds.is_dictionary(given):
        flat = kinds.is_string(given.value_type) or kinds.is_large_string(given.value_type)
        return bool(flat and kinds.is_string(wanted))
    if kinds.is_string(wanted):
        return bool(kinds.is_large_string(given))
    if kinds.is_integer(wanted):
        return bool(kinds.is_integer(given) or (kinds.is_timestamp(given) and given.unit == "ns"))
    if kinds.is_floating(wanted):
        return bool(kinds.is_floating(given) or kinds.is_integer(given))
    if kinds.is_fixed_size_binary(wanted):
        return bool(kinds.is_binary(given) or kinds.is_large_binary(given))
    if kinds.is_list(wanted):
        listed = kinds.is_list(given) or kinds.is_large_list(given)
        return bool(listed and _castable(given.value_type, wanted.value_type))
    if kinds.is_map(wanted) and kinds.is_map(given):
        return _castable(given.key_type, wanted.key_type) and _castable(given.item_type, wanted.item_type)
    return False


def _wanted_arrow(column: Column) -> str:
    return f"{_ARROW[column.type]}{' or null' if column.nullable else ', never null'}"


def _first_line(error: Exception) -> str:
    text = str(error).splitlines()
    return f"{type(error).__name__}: {text[0][:120] if text else ''}"
