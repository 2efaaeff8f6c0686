"""`leadline sql`: one SELECT over one's own tables."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leadline.cli.client import Client, ServerOption
from leadline.cli.output import Output, OutputOption, console, emit, table


def sql(
    query: Annotated[str, typer.Argument(help="A SELECT in ClickHouse's SQL; - reads it from standard input.")],
    rows_max: Annotated[int, typer.Option(min=1, max=1_000_000, help="More rows than this is an error.")] = 10_000,
    seconds_max: Annotated[int, typer.Option(min=1, max=300, help="Stopped after this many seconds.")] = 30,
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Run one SELECT over the tables of `leadline show tables`. Reads only."""
    text = sys.stdin.read() if query == "-" else query
    found = Client(server).post("/api/v1/sql", {"sql": text, "rows_max": rows_max, "seconds_max": seconds_max})
    if emit(found, output):
        return
    numbers = [
        name for name in found["columns"] if all(isinstance(row[name], (int, float)) for row in found["rows"][:50])
    ]
    console().print(table(found["rows"], found["columns"], right=numbers if found["rows"] else []))
