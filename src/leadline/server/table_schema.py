"""The API's description of a table's columns, derived from its spec."""

from __future__ import annotations

from typing import Any

from leadline.model.tables import Table, Type

_JSON: dict[Type, dict[str, Any]] = {
    Type.SYM: {"type": "string"},
    Type.STR: {"type": "string"},
    Type.SYMS: {"type": "array", "items": {"type": "string"}},
    Type.I64: {"type": "integer", "minimum": -(2**63), "maximum": 2**63 - 1},
    Type.U64: {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
    Type.U128: {"type": "string", "pattern": "^[0-9a-f]{32}$"},
    Type.F64: {"type": ["number", "string"], "description": "NaN, +Inf and -Inf as text"},
    Type.BOOL: {"type": "boolean"},
    Type.MAP: {"type": "object", "additionalProperties": {"type": "string"}},
}


def row_schema(table: Table) -> list[dict[str, Any]]:
    """One entry per column: name, our type, unit, doc, whether null is allowed, and its JSON schema."""
    return [
        {
            "name": column.name,
            "type": column.type.value,
            "unit": column.unit,
            "doc": column.doc,
            "nullable": column.nullable,
            "json": _JSON[column.type],
        }
        for column in table.columns
    ]
