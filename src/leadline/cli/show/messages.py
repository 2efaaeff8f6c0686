"""`leadline show messages`: the rings of a job, and each edge's share of what its collectives took."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption, SvgOption
from leadline.cli.output import console, emit, size, table, when
from leadline.cli.picture.messages import messages_picture
from leadline.cli.picture.save import save
from leadline.cli.ranges import counted, ranges
from leadline.cli.words.flows import flow_name, link_ends, percent
from leadline.cli.words.messages import delay_words, order_words, span_words

EDGES_SHOWN = 32  # of a communicator; with more, those that held most
COMMS_SHOWN = 8
CHANNELS_SHOWN = 8


def messages(
    job: Annotated[str, typer.Argument(help="bert-1 or job:bert-1.")],
    at: AtOption = "",
    window: Annotated[str, typer.Option(help="Sum up windows this far back: 60s, 5m, 1h.")] = "",
    svg: SvgOption = None,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the messages of a job: its rings in order, and each edge's share of collective time."""
    client = Client(server)
    found = client.get("/api/v1/messages", job=job, at=at, window=window, cluster=cluster)
    if svg is not None:
        save(svg, messages_picture(found, when(found["end_ns"])))
    if not emit(found, output, "communicators"):
        tell(console(), found)
    if not found["communicators"]:
        require_known(client, "job", job, cluster=cluster)


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    span = f"{found['window_ns'] / 1e9:g} s to {when(found['end_ns'])}" if found["end_ns"] else "no window"
    total = sum(comm["messages"] for comm in found["communicators"])
    out.print(f"messages of {found['job']}, {span}: {counted({'message': total})}", style="bold")
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    for comm in found["communicators"][:COMMS_SHOWN]:
        _communicator(out, comm)
    more = found["communicators_total"] - COMMS_SHOWN
    if more > 0:
        out.print(f"\nand {more} more communicators; see --output json", style="dim")
    if found["why"]:
        out.print(found["why"], style="dim", soft_wrap=True)


def _communicator(out: Console, comm: Mapping[str, Any]) -> None:
    out.print(
        f"\n{comm['comm']}: {counted({'rank': comm['ranks']})}, {size(comm['bytes'])}, "
        f"{span_words(comm['collectives_s'] * 1e9)} in collectives, of which edges held {_share(comm)}",
        style="bold", soft_wrap=True,
    )  # fmt: skip
    for channel in comm["channels"][:CHANNELS_SHOWN]:
        out.print(f"channel {channel['channel']}, {order_words(channel)}", soft_wrap=True)
    if comm["channels_total"] > CHANNELS_SHOWN:
        out.print(f"and {comm['channels_total'] - CHANNELS_SHOWN} channels more", style="dim")
    edges = comm["edges"]
    if len(edges) > EDGES_SHOWN:
        edges = sorted(edges, key=lambda edge: -edge["held_s"])[:EDGES_SHOWN]
    rows = [_row(edge) for edge in edges]
    numbers = ["share", "messages", "bytes", "p50", "p99", "unpaired"]
    out.print(table(rows, list(rows[0]), right=numbers))
    if comm["edges_total"] > len(rows):
        out.print(f"and {comm['edges_total'] - len(rows)} edges with less; see --output json", style="dim")
    for words in [*collisions_words(edges), *_troubles(comm)]:
        out.print(words, style="yellow", soft_wrap=True)


def _share(comm: Mapping[str, Any]) -> str:
    if not comm["collectives_s"]:
        return "nothing"
    return percent(comm["held_s"] / comm["collectives_s"])


def _row(edge: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "edge": f"{edge['src_rank']} > {edge['dst_rank']}",
        "on": ranges(str(channel) for channel in edge["channels"]) or "-",
        "share": percent(edge["share"]),
        "messages": edge["messages"],
        "bytes": size(edge["bytes"]),
        "p50": span_words(edge["transfer_p50_ns"]),
        "p99": span_words(edge["transfer_p99_ns"]),
        "delay": delay_words(edge),
        "flow": _flow(edge),
        "unpaired": edge["unpaired"],
    }


def _flow(edge: Mapping[str, Any]) -> str:
    if edge["flow"] is not None:
        return flow_name(edge["flow"])
    return f"one of {edge['flows']} flows" if edge["flows"] else "not known"


def collisions_words(edges: Sequence[Mapping[str, Any]]) -> list[str]:
    """Whose flows collide with whose, a line for each edge."""
    found = []
    for edge in edges:
        if collision := edge["collision"]:
            mine, *others = map(flow_name, (collision["flow"], *collision["flows"]))
            found.append(
                f"{edge['src_rank']} > {edge['dst_rank']}: its flow {mine} collides with {', '.join(others)} on "
                f"{' ~ '.join(link_ends(collision['link']))}, while a link beside it has room; jobs: "
                f"{', '.join(collision['jobs']) or 'nobody known'}"
            )
    return found


def _troubles(comm: Mapping[str, Any]) -> list[str]:
    """What makes numbers doubtful, and what to do."""
    found = []
    if comm["unpaired"]:
        ends = counted({"end": comm["unpaired"]})
        found.append(f"{ends} without the other: does every rank report its messages (`leadline doctor`)?")
    if comm["conflicting"]:
        odd = counted({"message": comm["conflicting"]})
        found.append(f"{odd} with contradicting ends: bytes differ, or a step was reported twice")
    backwards = sum(edge["backwards"] for edge in comm["edges"])
    if backwards:
        early = counted({"message": backwards})
        found.append(f"{early} arrived before they were sent, beyond the clock error: no delay is reported for these")
    return found
