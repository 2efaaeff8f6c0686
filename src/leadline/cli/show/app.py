"""`leadline show ...`: what the store holds, and what concludes from it."""

from __future__ import annotations

import difflib
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit, size, table, when
from leadline.cli.show.analyses import print_analyses
from leadline.cli.show.anomalies import anomalies
from leadline.cli.show.clock import clock
from leadline.cli.show.failures import failures
from leadline.cli.show.flows import flows
from leadline.cli.show.graph import graph
from leadline.cli.show.incidents import incidents
from leadline.cli.show.ledger import ledger
from leadline.cli.show.mesh import mesh
from leadline.cli.show.messages import messages
from leadline.cli.show.path import path
from leadline.cli.show.rules import rules
from leadline.cli.show.sle import expectations, sle
from leadline.cli.show.symptoms import symptoms
from leadline.cli.show.whatif import whatif
from leadline.model.errors import UnknownNameError
from leadline.model.tables import renamed

DAILY, INNER = "Every day", "Under the hood"

app = typer.Typer(
    add_completion=False, no_args_is_help=True, help="Show what was measured, and what Leadline concludes from it."
)
for daily in (incidents, ledger, failures, sle, graph, path, flows, mesh, clock):
    app.command(rich_help_panel=DAILY)(daily)
for inner in (symptoms, anomalies, expectations, rules, messages, whatif):
    app.command(rich_help_panel=INNER)(inner)


@app.command(rich_help_panel=INNER)
def tables(
    name: Annotated[str, typer.Argument(help="Only this table, with its columns.")] = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """List the tables and their sizes; with a NAME, its columns."""
    found = Client(server).get("/api/v1/tables")
    if name:
        known = [each["name"] for each in found["tables"]]
        found["tables"] = [each for each in found["tables"] if each["name"] == name]
        if not found["tables"]:
            near = difflib.get_close_matches(name, known, 3) or known[:3]
            hint = renamed(name) or f"did you mean {' or '.join(near)}?"
            raise UnknownNameError(f"no table {name!r} is known; {hint} `leadline show tables` lists all")
    if emit(found, output, "tables"):
        return
    out = console()
    if name:
        only = found["tables"][0]
        out.print(f"{name}: {only['doc']}\nwritten by {only['written_by']}; kept {_kept(only['kept_hours'])}\n")
        out.print(table(only["columns"], ["name", "type", "unit", "nullable", "doc"]))
        return
    rows = [
        {
            "table": each["name"],
            "rows": each["rows"],
            "on disk": size(each["bytes"]),
            "oldest": when(each["oldest_ns"]),
            "newest": when(each["newest_ns"]),
            "kept": _kept(each["kept_hours"]),
            "what": each["doc"],
        }
        for each in found["tables"]
    ]
    out.print(table(rows, list(rows[0]), right=["rows", "on disk", "kept"]))


@app.command(rich_help_panel=INNER)
def series(
    match: Annotated[str, typer.Argument(help="Part of the metric name.")] = "",
    entity: Annotated[str, typer.Option(help="Only streams of this entity, such as gpu:GPU-5c1e.")] = "",
    limit: Annotated[int, typer.Option(min=1, max=10_000, help="Maximum number of metric names.")] = 100,
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """List metric names: streams, entities, and the label with the most values."""
    client = Client(server)
    found = client.get("/api/v1/series", match=match, entity=entity, limit=limit)
    if not found["rows"]:
        require_known(client, "entity", entity)
    if emit(found, output, "rows"):
        return
    rows = [
        {**row, "newest": when(row["last_ns"]), "labels with most values": row["most_values"]} for row in found["rows"]
    ]
    columns = ["name", "streams", "entities", "entity_kind", "type", "unit", "newest", "labels with most values"]
    console().print(table(rows, columns, right=["streams", "entities"]))
    if len(rows) == limit:
        console(stderr=True).print(f"first {limit} names; --limit shows more", style="dim")


@app.command(rich_help_panel=INNER)
def analyses(server: ServerOption = "", output: OutputOption = Output.TABLE) -> None:
    """List the analyses: what each computes, how far it has got, what failed."""
    found = Client(server).get("/api/v1/analyses")
    if emit(found, output, "analyses"):
        return
    out = console()
    print_analyses(out, found["analyses"])
    for each in found["analyses"]:
        out.print(f"{each['name']}: {each['doc']}", style="dim")


def _kept(hours: int) -> str:
    return f"{hours // 24} d" if hours >= 24 else f"{hours} h"
