"""`leadline sql`: one SELECT over one's own tables."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, table


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT in ClickHouse's SQL; - reads it from standard input.")],
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one SELECT over the tables of `leadline show tables`. Reads only.

    Limited by the settings store.query_rows_max, query_seconds_max and query_bytes_max; beyond them it fails.
    """
    text = sys.stdin.read() if query == "-" else query
    found = Client(server).post("/api/v1/sql", {"sql": text})
    if emit(found, output, "rows"):
        return
    numbers = [
        name for name in found["columns"] if all(isinstance(row[name], (int, float)) for row in found["rows"][:50])
    ]
    console().print(table(found["rows"], found["columns"], right=numbers if found["rows"] else []))
