"""`leadline show anomalies`: what was outside its own past or its peers, entity by entity."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import ClusterOption, FromOption, Output, OutputOption, ServerOption, ToOption
from leadline.cli.output import console, emit, table, when

ENTITIES_SHOWN = 15
METRICS_SHOWN = 4  # of an entity, unless only that one was asked for


def anomalies(
    entity: Annotated[str, typer.Argument(help="Only this entity, such as host:h3.")] = "",
    since: FromOption = "",
    until: ToOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show metrics that left their own past or their peers, strongest first. They are evidence and send no alerts."""
    asked = {"entity": entity, "from": since, "to": until, "cluster": cluster}
    client = Client(server)
    found = client.get("/api/v1/anomalies", **asked)
    if not emit(found, output, "entities"):
        tell(console(), found, every=bool(entity))
    if not found["entities"]:
        require_known(client, "entity", entity, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any], every: bool = False) -> None:
    """Print an answer for people; `every`: all metrics of each entity."""
    total = found["entities_total"]
    what = f"{total} {'entity' if total == 1 else 'entities'}"
    out.print(
        f"unusual metrics, {when(found['from_ns'])} to {when(found['to_ns'])}: {what}",
        style="bold",
    )
    if found["why"]:
        out.print(found["why"], style="yellow", soft_wrap=True)
    rows = []
    for each in found["entities"][:ENTITIES_SHOWN]:
        shown = each["metrics"] if every else each["metrics"][:METRICS_SHOWN]
        rows += [_line(row, (each["name"] or each["entity"]) if place == 0 else "") for place, row in enumerate(shown)]
        if len(each["metrics"]) > len(shown):
            rows.append(dict.fromkeys(rows[-1], "") | {"metric": f"and {len(each['metrics']) - len(shown)} more"})
    if rows:
        out.print(table(rows, list(rows[0]), right=["score", "usual", "seen"]))
    if total > ENTITIES_SHOWN:
        out.print(f"and {total - ENTITIES_SHOWN} more entities; see --output json", style="dim")


def _line(row: Mapping[str, Any], entity: str) -> dict[str, Any]:
    label = f" ({row['label']})" if row["label"] else ""
    return {
        "entity": entity, "metric": row["metric"] + label, "compared with": f"its {row['witness']}",
        "is": row["direction"], "score": f"{row['score']:.1f}",
        "usual": f"{row['expected']:.4g}", "seen": f"{row['seen']:.4g}",
        "since": when(row["start_ns"]), "until": _until(row),
    }  # fmt: skip


def _until(row: Mapping[str, Any]) -> str:
    if row["end_ns"] is None:
        return "lasts"
    return f"{when(row['end_ns'])}, then not watched" if row["unwatched"] else when(row["end_ns"])
