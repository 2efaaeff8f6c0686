"""`leadline show whatif`: how long a job's steps would have taken without each worker, stage and cause."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import ClusterOption, FromOption, Output, OutputOption, ServerOption, ToOption
from leadline.cli.output import console, emit, table
from leadline.cli.ranges import counted

PARTS_SHOWN = 8
CAUSE_WORDS = {
    "none": "nothing slows it by more than 10 %", "slow-worker": "a slow worker", "stage-imbalance": "a long stage",
    "sequence-length": "sequences of different length", "communication": "slow communication",
    "garbage-collection": "garbage collection", "unknown": "no single cause",
}  # fmt: skip


def whatif(
    job: Annotated[str, typer.Argument(help="bert-1 or job:bert-1.")],
    since: FromOption = "",
    until: ToOption = "",
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what each worker, stage, operation and cause costs a job, from its operation traces (`import trace`)."""
    client = Client(server)
    found = client.get("/api/v1/whatif", **{"job": job, "from": since, "to": until, "cluster": cluster})
    if not emit(found, output, "workers"):
        tell(console(), found)
    if not found["operations"]:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    if found["slowdown"] is None:
        out.print(f"what-if of {found['job']}: {counted({'operation': found['operations']})}", style="bold")
        out.print(found["why"], style="yellow", soft_wrap=True)
        _gpu_time(out, found["gpu_time"])
        return
    size = counted({"step": found["steps"], "replica": found["replicas"], "stage": found["stages"]})
    out.print(f"what-if of {found['job']}: {size}", style="bold")
    out.print(
        f"a step takes {found['step_s']:.3f} s; with every operation ideal {found['ideal_s']:.3f} s: slowdown "
        f"{found['slowdown']:.3f}"
    )
    out.print(f"cause: {CAUSE_WORDS[found['cause']]}{_where(found['place'])}, {found['confidence']:.0%} sure")
    rows = [
        {
            "without": CAUSE_WORDS[each["cause"]],
            "saves": f"{each['saves_s']:.3f} s",
            "of what is lost": f"{each['share']:.0%}",
        }
        for each in found["causes"]
    ]
    out.print("\na step would be shorter by", style="bold")
    out.print(table(rows, list(rows[0]), right=["saves", "of what is lost"]))
    workers = [
        {"name": f"rank {each['rank']} (replica {each['dp_rank']}, stage {each['stage']})", **each}
        for each in found["workers"]
    ]
    for title, parts in (("worker", workers), ("stage", found["by_stage"]), ("operation", found["by_kind"])):
        _parts(out, title, parts)
    for line in left_out(found["left_out"]):
        out.print(line, style="yellow", soft_wrap=True)


def _where(place: Mapping[str, Any]) -> str:
    if place["link"] is not None:
        return f" from rank {place['link'][0]} to rank {place['link'][1]}"
    if place["rank"] >= 0:
        return f": rank {place['rank']} (replica {place['dp_rank']}, stage {place['stage']})"
    return f": stage {place['stage']}" if place["stage"] >= 0 else ""


def _parts(out: Console, title: str, parts: Sequence[Mapping[str, Any]]) -> None:
    rows = [
        {title: each["name"], "slowdown": f"{each['slowdown']:.3f}", "costs a step": f"{each['costs_s']:.3f} s"}
        for each in parts[:PARTS_SHOWN]
    ]
    out.print(f"\nif only this {title} were as it was", style="bold")
    out.print(table(rows, list(rows[0]), right=["slowdown", "costs a step"]))
    if len(parts) > len(rows):
        out.print(f"and {len(parts) - len(rows)} that cost less; see --output json", style="dim")


def _gpu_time(out: Console, ranks: Sequence[Mapping[str, Any]]) -> None:
    if not ranks:
        return
    rows = [
        {"rank": each["rank"], "time": f"{each['whole_s']:.3f} s", **{
            name: f"{each[key] / each['whole_s'] if each['whole_s'] else 0.0:.1%}"
            for name, key in (("computing", "compute_s"), ("only communicating", "exposed_s"), ("idle", "idle_s"))}}
        for each in ranks[:PARTS_SHOWN]
    ]  # fmt: skip
    out.print("\nwhat the GPUs did", style="bold")
    out.print(table(rows, list(rows[0]), right=list(rows[0])))
    if len(ranks) > len(rows):
        out.print(f"and {len(ranks) - len(rows)} ranks more; see --output json", style="dim")


def left_out(left: Mapping[str, Any]) -> list[str]:
    """What of the stored operations was not used, a line each."""
    found = []
    if left["steps"]:
        steps = ", ".join(map(str, left["steps"][:8])) + (" ..." if len(left["steps"]) > 8 else "")
        found.append(f"steps that are not whole, left out: {steps}")
    if left["dp_ranks"]:
        found.append(f"replicas with too few whole steps, left out: {', '.join(map(str, left['dp_ranks'][:8]))}")
    if left["unknown_kinds"]:
        kinds = ", ".join(f"{count} {kind}" for kind, count in left["unknown_kinds"].items())
        found.append(f"operations of kinds that the schedule does not have, left out: {kinds}")
    if left["rows"] or left["copies"]:
        found.append(f"{left['rows']} rows without a usable time or place and {left['copies']} copies, left out")
    return found + [f"missing: {each}" for each in left["missing"]]
