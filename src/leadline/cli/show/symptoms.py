"""`leadline show symptoms`: open and past, before they are put together into incidents."""

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
from leadline.cli.words.ledger import share, span
from leadline.model.units import gpu_time

SHOWN = 40
BLAMED_SHOWN = 3
STYLE = {"open": STATE_STYLE["critical"], "stale": STATE_STYLE["warning"], "unwatched": STATE_STYLE["warning"]}


def symptoms(
    job: Annotated[str, typer.Argument(help="Only of this job; by default of all.")] = "",
    since: FromOption = "",
    until: ToOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the symptoms that incidents are made of, and what each blames; open ones first."""
    asked = {"job": job, "from": since, "to": until, "cluster": cluster}
    client = Client(server)
    found = client.get("/api/v1/symptoms", **asked)
    if not emit(found, output, "symptoms"):
        tell(console(), found)
    if not found["symptoms"]:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    some = found["symptoms"]
    is_open = sum(1 for one in some if one["state"] == "open")
    out.print(f"symptoms: {found['symptoms_total']}, of which {is_open} open", style="bold")
    if not some:
        out.print("none in this time; `leadline diagnose` lists what was monitored", style="dim")
        return
    rows = [_row(one) for one in some[:SHOWN]]
    out.print(table(rows, list(rows[0]), right=["for", "lost", "share"]))
    if found["symptoms_total"] > len(rows):
        out.print(f"and {found['symptoms_total'] - len(rows)} more; see --output json", style="dim")
    out.print("leadline diagnose shows why", style="dim")


def _row(one: Mapping[str, Any]) -> dict[str, Any]:
    until_ns = one["seen_ns"] if one["end_ns"] is None else one["end_ns"]
    blamed = [str(each.get("owner")) for each in one["blamed"][:BLAMED_SHOWN] if each.get("owner")]
    return {
        "state": Text(one["state"], STYLE.get(one["state"], "dim")), "since": when(one["start_ns"]),
        "for": span(max(0.0, (until_ns - one["start_ns"]) / 1e9)), "who": one["entity"], "what": one["symptom"],
        "lost": gpu_time(one["lost_gpu_seconds"]), "share": share(one["lost_share"]),
        "blames": ", ".join(blamed) or (f"unknown: {one['missing']}" if one["missing"] else "-"),
    }  # fmt: skip
