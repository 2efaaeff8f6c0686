"""`leadline sql`: one SELECT over one's own tables."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, precisely, table

TIMES_FROM_NS = 10**18  # 2001-09-09; as a length of time 32 years


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT in ClickHouse's SQL; - reads it from standard input.")],
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one SELECT over the tables of `leadline show tables`. Reads only.

    Times (columns that end in _ns) are shown in UTC, and as ns since 1970 with --output json or csv.
    Limited by the settings store.query_rows_max, query_seconds_max and query_bytes_max; beyond them it fails.
    """
    text = sys.stdin.read() if query == "-" else query
    found = Client(server).post("/api/v1/sql", {"sql": text})
    if emit(found, output, "rows"):
        return
    rows = _with_times(found["rows"], found["columns"])
    numbers = [name for name in found["columns"] if all(isinstance(row[name], (int, float)) for row in rows[:50])]
    console().print(table(rows, found["columns"], right=numbers if rows else []))


def _with_times(rows: list[dict[str, Any]], columns: list[str]) -> list[dict[str, Any]]:
    """Times as a person reads them. A column of `_ns` that is a length of time stays a number: so long is none."""
    times = [
        name
        for name in columns
        if name.endswith("_ns")
        and any(row[name] is not None for row in rows)
        and all(row[name] is None or (isinstance(row[name], int) and row[name] > TIMES_FROM_NS) for row in rows)
    ]
    return [{**row, **{name: precisely(row[name]) for name in times}} for row in rows]
