"""NDJSON rows that all have the same columns, as those of one sender have: parsed and checked column by column.

    lines ── `{...},{...}` as one array ──> objects with the same names ──> columns ── types and ranges at once ──> out

Several times as fast as row by row (docs/log.md, 2026-11-28). Whatever is out of the ordinary gives None, not
an error: `rows.decode_rows` then reads the body line by line, and says what does not fit and where.
"""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from leadline.model.tables import Column, Table, Type

ALIKE_BYTES_MAX = 1 << 20  # of one array: it is parsed in one go, and no other thread runs meanwhile (10 ms)
_NONE = type(None)


def columns_alike(
    body: bytes, table: Table, defaults: Mapping[str, str], readers: Mapping[Type, Callable[[Any], Any]]
) -> dict[str, list[Any]] | None:
    """Columns of `table.given`; None where the rows are not all alike, or one does not fit.

    Inputs: the unpacked body; `defaults`, what columns hold that no row has; `readers`, which check one value of a type
    and return it as the column holds it, or raise ValueError.
    """
    if len(body) > ALIKE_BYTES_MAX or any(each in body for each in _SPACED):
        return None
    lines = body.split(b"\n")
    if not lines[-1]:
        lines.pop()
    if not lines or not all(each.startswith(b"{") and each.endswith(b"}") for each in lines):
        return None
    rows = _objects(lines)
    if rows is None:
        return None
    names = rows[0].keys()
    if any(then in names for then in table.former.columns.values()):
        return None
    columns: dict[str, list[Any]] = {}
    found = 0
    try:
        for column in table.given:
            if column.name in names:
                found += 1
                columns[column.name] = _checked([row[column.name] for row in rows], column, readers)
            elif column.nullable or column.name in defaults:
                columns[column.name] = [None if column.nullable else defaults[column.name]] * len(rows)
            else:
                return None
    except (KeyError, ValueError):
        return None
    pairs = sum(map(len, rows))
    nested = [name for name, values in columns.items() if any(type(value) is dict for value in values)]
    inner = sum(len(value) for name in nested for value in columns[name] if value is not None)
    # A name twice in an object leaves one of it: then there are more colons behind quotes than names.
    if found != len(names) or pairs != found * len(rows) or body.count(b'":') != pairs + inner:
        return None
    return columns


# Behind a quote these leave it open whether a colon follows, by which names are counted.
_SPACED = (b'" ', b'"\t', b'"\r')


def _checked(values: list[Any], column: Column, readers: Mapping[Type, Callable[[Any], Any]]) -> list[Any]:
    if at_once := _AT_ONCE.get(column.type):
        return at_once(values, column)
    if not column.nullable and None in values:
        raise ValueError(column.name)
    read = readers[column.type]
    return [None if value is None else read(value) for value in values]


def _objects(lines: Sequence[bytes]) -> list[dict[str, Any]] | None:
    try:
        # No text holds a line feed, so none goes on in the next line.
        rows = json.loads(b"[" + b",\n".join(lines) + b"]", parse_constant=_no_constant)
    except (ValueError, RecursionError):
        return None
    if len(rows) != len(lines) or set(map(type, rows)) != {dict}:
        return None
    return rows  # type: ignore[no-any-return]


def _no_constant(text: str) -> Any:
    raise ValueError(text)


def _known(values: list[Any], column: Column, types: set[type]) -> list[Any]:
    """Values that are not null. Errors: ValueError where one is of another type, or null and may not be."""
    kinds = set(map(type, values))
    if _NONE in kinds:
        if not column.nullable:
            raise ValueError(column.name)
        kinds.discard(_NONE)
        values = [value for value in values if value is not None]
    if not kinds <= types:
        raise ValueError(column.name)
    return values


def _whole(least: int, most: int) -> Callable[[list[Any], Column], list[Any]]:
    def checked(values: list[Any], column: Column) -> list[Any]:
        known = _known(values, column, {int})
        if known and not (least <= min(known) and max(known) <= most):
            raise ValueError(column.name)
        return values

    return checked


def _floats(values: list[Any], column: Column) -> list[Any]:
    known = _known(values, column, {int, float})
    try:
        numbers = list(map(float, known))
    except OverflowError:
        raise ValueError(column.name) from None
    if not all(map(math.isfinite, numbers)):
        raise ValueError(column.name)
    return numbers if len(known) == len(values) else [None if value is None else float(value) for value in values]


def _texts(values: list[Any], column: Column) -> list[Any]:
    known = _known(values, column, {str})
    "".join(known).encode()  # lone surrogates are a UnicodeEncodeError, which is a ValueError
    return values


_AT_ONCE: dict[Type, Callable[[list[Any], Column], list[Any]]] = {
    Type.SYM: _texts,
    Type.STR: _texts,
    Type.I64: _whole(-(2**63), 2**63 - 1),
    Type.U64: _whole(0, 2**64 - 1),
    Type.F64: _floats,
}
"""Types that most columns have; of the others values are read one by one, as by line."""
