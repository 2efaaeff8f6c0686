"""`leadline show flows`: the flows of a job, the load of its links, and who collides with whom."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption, SvgOption
from leadline.cli.output import console, emit, size, table, when
from leadline.cli.picture.flows import flows_picture
from leadline.cli.picture.save import save
from leadline.cli.ranges import counted, ranges
from leadline.cli.words.flows import bytes_words, flow_name, link_ends, path_words, percent, rank_words, tuple_words

ROWS_MAX = 30
GROUPS_MAX = 12
CONFLICTS_SHOWN = 8


def flows(
    job: Annotated[str, typer.Argument(help="bert-1 or job:bert-1.")],
    at: AtOption = "",
    svg: SvgOption = None,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the flows of a job: ranks, paths, bytes; its links by load and who shares them; where flows collide."""
    client = Client(server)
    found = client.get("/api/v1/flows", job=job, at=at, cluster=cluster)
    if svg is not None:
        save(svg, flows_picture(found, when(found["end_ns"])))
    if not emit(found, output, "flows"):
        tell(console(), found)
    if not found["flows"]:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    span = f"{found['window_ns'] / 1e9:g} s to {when(found['end_ns'])}" if found["end_ns"] else "no window"
    carried = sum(flow["bytes"] for flow in found["flows"])
    out.print(
        f"flows of {found['job']}, {span}: {counted({'flow': found['flows_total']})}, {size(carried)}", style="bold"
    )
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    if found["flows"]:
        _flows(out, found)
        _links(out, found)
        _groups(out, found["groups"])
    _unowned(out, found["unowned"])
    _conflicts(out, found["conflicts"])
    if found["why"]:
        out.print(found["why"], style="dim", soft_wrap=True)


def _flows(out: Console, found: Mapping[str, Any]) -> None:
    rows = [
        {"from": _number(flow["src_rank"]), "to": _number(flow["dst_rank"]), "flow": tuple_words(flow),
         "state": flow["state"], "confidence": percent(flow["probability"]), "path": path_words(flow["links"]),
         "bytes (95 %)": bytes_words(flow)}
        for flow in found["flows"][:ROWS_MAX]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["confidence"]))
    if found["flows_total"] > len(rows):
        out.print(f"and {found['flows_total'] - len(rows)} smaller ones; see --output json", style="dim")
    for why in sorted({flow["why"] for flow in found["flows"] if flow["why"]})[:4]:
        out.print(f"  {why}", style="dim", soft_wrap=True)


def _number(rank: str | None) -> str:
    """The number of a rank within the job that the whole table is about."""
    return rank_words(rank).rpartition("/")[2]


def _links(out: Console, found: Mapping[str, Any]) -> None:
    if not found["links"]:
        return
    out.print("\nlinks by load, both directions together", style="bold")
    rows = [
        {"link": " ~ ".join(link_ends(link["link"])), "bytes (95 %)": bytes_words(link), "flows": link["flows"],
         "of": ", ".join(f"{job} {size(count)}" for job, count in link["jobs"].items()) + _others(link)}
        for link in found["links"][:ROWS_MAX]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["flows"]))
    if found["links_total"] > len(rows):
        out.print(f"and {found['links_total'] - len(rows)} with less; see --output json", style="dim")


def _others(link: Mapping[str, Any]) -> str:
    return f", {link['others']} of another tenant" if link["others"] else ""


def _groups(out: Console, groups: list[Mapping[str, Any]]) -> None:
    if not groups:
        return
    out.print("\nequal-cost links, the least even first (efficiency: mean over busiest, 1 is even)", style="bold")
    rows = [
        {"switch": group["switch"], "ports": ranges(group["group"].split(","), 6),
         "efficiency": f"{group['efficiency']:.2f}",
         "flows": group["flows"], "bytes": size(group["bytes"]), "busiest": " ~ ".join(link_ends(group["busiest"])),
         "collide": _collide(group)}
        for group in groups[:GROUPS_MAX]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["efficiency", "flows", "bytes"]))
    if len(groups) > GROUPS_MAX:
        out.print(f"and {len(groups) - GROUPS_MAX} more even ones; see --output json", style="dim")


def _collide(group: Mapping[str, Any]) -> str:
    if not group["colliding"]:
        return "-"
    flows = ", ".join(flow_name(flow) for flow in group["colliding"][:4])
    return f"{len(group['colliding'])} flows ({flows}) of {', '.join(group['jobs']) or 'nobody'}"


def _unowned(out: Console, unowned: Mapping[str, Any]) -> None:
    if not unowned["flows"]:
        return
    out.print(f"\nflows without an owner: {unowned['flows']}, {size(unowned['bytes'])}; the largest", style="bold")
    rows = [
        {"flow": tuple_words(flow), "state": flow["state"], "bytes (95 %)": bytes_words(flow)}
        for flow in unowned["top"]
    ]
    out.print(table(rows, list(rows[0])))


def _conflicts(out: Console, conflicts: list[Mapping[str, Any]]) -> None:
    """What contradicts the topology, anywhere in the cluster: it may be why a path is not known."""
    if not conflicts:
        return
    out.print("\nsamples contradict the topology, or each other", style="bold")
    rows = [{"of": each["entity"], "kind": each["kind"], "samples": each["count"], "what": each["text"]}
            for each in conflicts[:CONFLICTS_SHOWN]]  # fmt: skip
    out.print(table(rows, ["of", "kind", "samples", "what"], right=["samples"]))
    if len(conflicts) > len(rows):
        out.print(f"and {len(conflicts) - len(rows)} more; see --output json", style="dim")
