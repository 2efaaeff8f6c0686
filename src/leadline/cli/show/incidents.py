"""`leadline show incidents`: open and past, a line each, with the cause that was named."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import ClusterOption, FromOption, Output, OutputOption, ServerOption, ToOption
from leadline.cli.output import STATE_STYLE, console, emit, table, when
from leadline.cli.words.ledger import so_far, span
from leadline.model.units import gpu_time

SHOWN = 40


def incidents(
    job: Annotated[str, typer.Argument(help="Only of this job; by default of all.")] = "",
    since: FromOption = "",
    until: ToOption = "",
    state: Annotated[str, typer.Option(help="open or over; by default both.")] = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show incidents: since when, time lost, cause, and what to do; open ones first."""
    asked = {"job": job, "from": since, "to": until, "state": state, "cluster": cluster}
    client = Client(server)
    found = client.get("/api/v1/incidents", **asked)
    if not emit(found, output, "incidents"):
        tell(console(), found)
    if not found["incidents"]:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    some = found["incidents"]
    is_open = sum(1 for one in some if one["state"] == "open")
    out.print(f"incidents: {found['incidents_total']}, of which {is_open} open", style="bold")
    if not some:
        out.print("none in this time; `leadline diagnose` lists what was monitored", style="dim")
        return
    rows = [_row(one, found["to_ns"]) for one in some[:SHOWN]]
    out.print(table(rows, list(rows[0]), right=["for", "lost"]))
    if found["incidents_total"] > len(rows):
        out.print(f"and {found['incidents_total'] - len(rows)} more; see --output json", style="dim")
    out.print("run `leadline diagnose ID` for details", style="dim")


def _lost(one: Mapping[str, Any]) -> str:
    guess = so_far(one["lost_gpu_seconds"], one["estimated_gpu_seconds"])
    return f"{gpu_time(one['lost_gpu_seconds'])}{f' {guess}' if guess else ''}"


def _row(one: Mapping[str, Any], now_ns: int) -> dict[str, Any]:
    until_ns = one["end_ns"] or (max(now_ns, one["seen_ns"]) if one["state"] == "open" else one["seen_ns"])
    word = "unwatched" if one["unwatched"] else one["state"]
    state = Text(word, STATE_STYLE["critical"] if one["state"] == "open" else "dim")
    return {
        "state": f"suppressed: {one['suppressed']}" if one["suppressed"] else state,
        "since": when(one["start_ns"]), "for": span((until_ns - one["start_ns"]) / 1e9),
        "what": one["title"],
        "do": ", ".join(dict.fromkeys(cause["action"] for cause in one["causes"])) or "-",
        "lost": _lost(one), "id": one["incident"],
    }  # fmt: skip
