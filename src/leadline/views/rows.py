"""Reading a table for people and programs: the SQL of one page of rows, and rows as JSON."""

from __future__ import annotations

import base64
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import Any

import pyarrow as pa

from leadline.model.errors import UsageError
from leadline.model.ids import parse_entity_id
from leadline.model.principal import OPERATE, Principal
from leadline.model.tables import Column, Table, Type

LIMIT_MAX = 10_000

_PARAMETER = {
    Type.SYM: "String",
    Type.STR: "String",
    Type.I64: "Int64",
    Type.U64: "UInt64",
    Type.U128: "UInt128",
    Type.F64: "Float64",
    Type.BOOL: "Bool",
}
# What a null sorts as; the same as in the stored key, so that a page can go on after it.
_NULL: dict[Type, object] = {Type.SYM: "", Type.STR: "", Type.F64: 0.0, Type.BOOL: False}

# Entity kinds that are spelled by a column of their own where a table has no `entity` column.
_ENTITY_COLUMNS = {
    "job": ("job",),
    "host": ("host", "src", "dst"),
    "switch": ("switch",),
    "link": ("link",),
    "flow": ("flow",),
    "comm": ("comm",),
}


@dataclass(frozen=True, slots=True)
class PageQuery:
    """One page of a table. Times are ns, `from_ns` included, `to_ns` not."""

    columns: tuple[str, ...] = ()
    from_ns: int | None = None
    to_ns: int | None = None
    entity: str = ""
    cursor: str = ""
    limit: int = 1000


def rows_where(table: Table, where: str = "") -> str:
    """Rows of a table under a condition, as a sub-query; of verdicts those that are effective."""
    return f"SELECT * FROM leadline.{table.name}" + (f" WHERE {where}" if where else "")


def page_sql(table: Table, query: PageQuery, principal: Principal) -> tuple[str, dict[str, object]]:
    """The SQL of one page and its typed parameters; oldest rows first.

    Errors: UsageError for an unknown column, an entity the table does not speak of, a foreign cursor.
    """
    order = _order(table)
    shown = _shown(table, query.columns)
    asked = [column.name for column in shown] + [name for name in order if name not in {c.name for c in shown}]
    where: list[str] = []
    parameters: dict[str, object] = {}

    def bind(condition: str, name: str, value: object) -> None:
        where.append(condition)
        parameters[name] = value

    if not principal.may(OPERATE):
        bind("tenant = {tenant:String}", "tenant", principal.tenant)
    if query.from_ns is not None:
        bind(f"{table.time} >= {{from_ns:Int64}}", "from_ns", query.from_ns)
    if query.to_ns is not None:
        bind(f"{table.time} < {{to_ns:Int64}}", "to_ns", query.to_ns)
    if query.entity:
        condition, value = _about(table, query.entity)
        bind(condition, "entity", value)
    if query.cursor:
        last = _read_cursor(table, order, query.cursor)
        places = []
        for name, value in zip(order, last, strict=True):
            places.append(f"{{c_{name}:{_PARAMETER[table.column(name).type]}}}")
            parameters[f"c_{name}"] = value
        left = ", ".join(_sortable(table.column(name)) for name in order)
        where.append(f"({left}) > ({', '.join(places)})")
    shown_to = table.shown(asked, to_operator=principal.may(OPERATE))
    sql = f"SELECT {', '.join(shown_to)} FROM leadline.{table.name}"
    if where:
        sql += " WHERE " + " AND ".join(where)
    sql += f" ORDER BY {', '.join(_sortable(table.column(name)) for name in order)}"
    return sql + f" LIMIT {min(max(query.limit, 1), LIMIT_MAX)}", parameters


def page_rows(table: Table, query: PageQuery, found: pa.Table) -> tuple[list[dict[str, Any]], str]:
    """Rows of a page as JSON values, and the cursor of the next page ('' if this was the last)."""
    rows = json_rows(found)
    cursor = ""
    if rows and len(rows) >= min(max(query.limit, 1), LIMIT_MAX):
        last = found.slice(found.num_rows - 1).to_pylist()[0]
        values = [_cursor_value(table.column(name), last[name]) for name in _order(table)]
        cursor = base64.urlsafe_b64encode(json.dumps(values).encode()).decode()
    names = [column.name for column in _shown(table, query.columns)]
    return [{name: row[name] for name in names} for row in rows], cursor


def json_rows(found: pa.Table) -> list[dict[str, Any]]:
    """Rows as JSON values: 128-bit ids as 32 hex digits, maps as objects, NaN and infinities as text."""
    readers = [_json_reader(field.type) for field in found.schema]
    columns = [
        [None if value is None else read(value) for value in found.column(place).to_pylist()]
        for place, read in enumerate(readers)
    ]
    names = found.column_names
    return [dict(zip(names, values, strict=True)) for values in zip(*columns, strict=True)] if columns else []


def _order(table: Table) -> tuple[str, ...]:
    return (table.time, *(name for name in table.key if name != table.time))


def _shown(table: Table, names: tuple[str, ...]) -> tuple[Column, ...]:
    if not names:
        return table.columns
    known = {column.name: column for column in table.columns}
    for name in names:
        if name not in known:
            near = get_close_matches(name, known, 3)
            hint = f"did you mean {' or '.join(near)}?" if near else f"it has {', '.join(known)}"
            hint = f"it is called {table.today(name)} now" if table.today(name) != name else hint
            raise UsageError(f"table {table.name} has no column {name!r}; {hint}")
    return tuple(known[name] for name in names)


def _about(table: Table, text: str) -> tuple[str, object]:
    entity = parse_entity_id(text)
    names = {column.name: column for column in table.columns}
    if "entity" in names:
        return "entity = {entity:String}", text
    own = [name for name in _ENTITY_COLUMNS.get(entity.kind, ()) if name in names]
    if not own:
        raise UsageError(f"rows of {table.name} have no {entity.kind}; leave `entity` out")
    if names[own[0]].type is Type.U128:
        return f"{own[0]} = {{entity:UInt128}}", int(entity.name, 16)
    return "(" + " OR ".join(f"{name} = {{entity:String}}" for name in own) + ")", entity.name


def _sortable(column: Column) -> str:
    if not column.nullable:
        return column.name
    null = _NULL.get(column.type, 0)
    return f"ifNull({column.name}, {repr(null) if isinstance(null, str) else null})"


def _cursor_value(column: Column, value: Any) -> Any:
    if value is None:
        return _NULL.get(column.type, 0)
    return value.hex() if isinstance(value, bytes) else value


def _read_cursor(table: Table, order: tuple[str, ...], cursor: str) -> list[object]:
    try:
        values = json.loads(base64.urlsafe_b64decode(cursor.encode()))
        if not isinstance(values, list) or len(values) != len(order):
            raise ValueError
        return [_from_cursor(table.column(name).type, value) for name, value in zip(order, values, strict=True)]
    except (ValueError, TypeError, RecursionError):
        raise UsageError(f"this cursor is not of table {table.name}; begin again without one") from None


def _from_cursor(kind: Type, value: Any) -> object:
    """One value of a cursor as a parameter. Errors: ValueError, TypeError for one that the column cannot have."""
    if kind is Type.U128:
        raw = bytes.fromhex(value)
        if len(raw) != 16:
            raise ValueError
        return int.from_bytes(raw, "little")
    if kind in (Type.I64, Type.U64):
        low, high = (-(2**63), 2**63) if kind is Type.I64 else (0, 2**64)
        if type(value) is not int or not low <= value < high:
            raise ValueError
    elif type(value) is not {Type.BOOL: bool, Type.F64: float}.get(kind, str):
        raise ValueError
    return value


def _json_reader(kind: pa.DataType) -> Any:
    if pa.types.is_fixed_size_binary(kind):
        return lambda raw: f"{int.from_bytes(raw, 'little'):032x}"
    if pa.types.is_binary(kind) or pa.types.is_large_binary(kind):
        return lambda raw: raw.decode(errors="replace")
    if pa.types.is_map(kind):
        return dict
    if pa.types.is_floating(kind):
        return json_number
    if pa.types.is_temporal(kind) or pa.types.is_decimal(kind):
        return str
    if pa.types.is_nested(kind):
        return _json_nested
    return _same


def _same(value: Any) -> Any:
    return value


def _json_nested(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {str(name): _json_nested(each) for name, each in value.items()}
    if isinstance(value, (list, tuple)):
        return [_json_nested(each) for each in value]
    if isinstance(value, float):
        return json_number(value)
    return value if isinstance(value, (str, int, bool, type(None))) else str(value)


def json_number(value: float) -> float | str:
    """JSON has no NaN and no infinity: they become text, as in Prometheus' API."""
    if math.isfinite(value):
        return value
    return "NaN" if math.isnan(value) else ("+Inf" if value > 0 else "-Inf")


JsonRows = list[dict[str, Any]]
SCHEMA_VERSION = 1
"""Version of every JSON answer under /api/v1; it grows when a field changes its meaning or goes away."""
