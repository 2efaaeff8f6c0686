"""`leadline show path`: the ways between two ranks, both directions."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption, SvgOption
from leadline.cli.output import console, emit, table, when
from leadline.cli.picture.path import path_picture
from leadline.cli.picture.save import save
from leadline.cli.ranges import counted, ranges
from leadline.cli.words.flows import bytes_words, link_ends, path_words, percent, rank_words, tuple_words
from leadline.model.ids import name_of

FLOWS_MAX = 8  # told hop by hop
ALTERNATIVES_MAX = 4
LINKS_MAX = 12  # named of a hop that has so many ways


def path(
    rank_a: Annotated[str, typer.Argument(help="bert-1/0 or rank:bert-1/0.")],
    rank_b: Annotated[str, typer.Argument(help="Another rank.")],
    at: AtOption = "",
    svg: SvgOption = None,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the flows between two ranks in both directions: hops with probability and volume, and alternative paths.

    If nothing was sampled: the paths that the topology allows, and what data is missing.
    """
    client = Client(server)
    found = client.get("/api/v1/path", a=rank_a, b=rank_b, at=at, cluster=cluster)
    if svg is not None:
        save(svg, path_picture(found, when(found["end_ns"])))
    if not emit(found, output, "flows"):
        tell(console(), found)
    if not found["flows"] and not found["possible"]["paths"]:
        require_known(client, "rank", rank_a, rank_b, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    a, b = rank_words(found["a"]), rank_words(found["b"])
    span = f"{found['window_ns'] / 1e9:g} s to {when(found['end_ns'])}" if found["end_ns"] else "no window"
    out.print(
        f"{a} and {b}, {span}: {counted({'flow': len(found['flows'])})}{_symmetry(found['asymmetric'])}", style="bold"
    )
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    for flow in found["flows"][:FLOWS_MAX]:
        _flow(out, flow)
    if len(found["flows"]) > FLOWS_MAX:
        out.print(f"and {len(found['flows']) - FLOWS_MAX} more flows; see --output json", style="dim")
    if not found["flows"]:
        _possible(out, found["possible"])
    for text in (found["why"], *(f"not known: {each}" for each in found["possible"]["missing"])):
        if text:
            out.print(text, style="dim", soft_wrap=True)


def _symmetry(asymmetric: bool | None) -> str:
    return {None: "", True: ", asymmetric", False: ", same path back"}[asymmetric]


def _flow(out: Console, flow: Mapping[str, Any]) -> None:
    out.print(
        f"\n{rank_words(flow['src_rank'])} > {rank_words(flow['dst_rank'])}  {tuple_words(flow)}  "
        f"{flow['state']}, {percent(flow['probability'])}, {flow['samples']} samples, {bytes_words(flow)}",
        soft_wrap=True,
    )
    if flow["why"]:
        out.print(f"  {flow['why']}", style="dim", soft_wrap=True)
    for each in flow["paths"][:ALTERNATIVES_MAX]:
        if each["alternative"]:
            links = [hop["link"] for hop in each["hops"]]
            out.print(f"  or, {percent(each['probability'])}: {path_words(links)}")
            continue
        rows = [
            {"hop": hop["hop"], "link": " ~ ".join(link_ends(hop["link"])), "probability": percent(hop["probability"]),
             "bytes (95 %)": bytes_words(hop)}
            for hop in each["hops"]
        ]  # fmt: skip
        out.print(table(rows, ["hop", "link", "probability", "bytes (95 %)"], right=["hop", "probability"]))
    left = max(flow["alternatives"] - min(len(flow["paths"]), ALTERNATIVES_MAX), 0)
    if left:
        out.print(f"  and {left} more that are as likely", style="dim")


def _possible(out: Console, possible: Mapping[str, Any]) -> None:
    """What the topology allows, where nothing was sampled."""
    if not possible["paths"]:
        return
    pairs = counted({"pair": len(possible["ports"])})
    out.print(
        f"\nthe topology allows {possible['paths']:,} equally short paths of {possible['hops']} hops from "
        f"{possible['a']} to {possible['b']} ({pairs} of NIC ports); those of one pair are as likely:",
        soft_wrap=True,
    )
    by_hop: dict[int, list[str]] = {}
    for link in possible["links"]:
        by_hop.setdefault(link["hop"], []).append(name_of(link["to"]))
    for hop, nodes in sorted(by_hop.items()):
        out.print(f"  hop {hop}: to {ranges(nodes, LINKS_MAX)}", soft_wrap=True)
