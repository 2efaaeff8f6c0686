"""`leadline show clock`: where each clock stands, how well that is known, and which is not to be trusted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any

import typer
from rich.console import Console
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import ago, console, emit, table
from leadline.cli.pasted import pasted
from leadline.cli.ranges import counted, ranges
from leadline.cli.show.watching import EveryOption, WatchOption, refuse_unless_terminal, watch
from leadline.cli.words.units import duration, figures
from leadline.views.mesh.clocks import is_held

ROWS_MAX = 40
DOUBTS_SHOWN = 20
STYLE = {
    "fitted": "green", "carried": "yellow", "lost": "red", "lying": "red", "stepped": "yellow", "asymmetric": "yellow",
    "re-anchored": "yellow",
}  # fmt: skip


def clock(
    match: Annotated[str, typer.Argument(help="Only hosts with this in their name.")] = "",
    at: AtOption = "",
    watching: WatchOption = False,
    every_s: EveryOption = 1.0,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show each clock: offset, drift, bound, state; who is not to be trusted and why; which can be compared."""
    client = Client(server)

    def ask() -> dict[str, Any]:
        found = client.get("/api/v1/clock", at=at, cluster=cluster)
        return {**found, "clocks": [row for row in found["clocks"] if match.lower() in row["host"].lower()]}

    if watching:
        refuse_unless_terminal(output, console())
        watch(lambda out: tell(out, ask(), match, client.url), every_s)
        return
    found = ask()
    if not emit(found, output, "clocks"):
        tell(console(), found, match, client.url)


def tell(out: Console, found: Mapping[str, Any], match: str = "", url: str = "") -> None:
    """Print an answer for people."""
    clocks = found["clocks"]
    if found["why"]:
        out.print(f"{found['why']}.", style="yellow")
        out.print("Clocks are fitted from probes between agents; start one on each of two hosts or more:")
        out.print(f"  {pasted('agent')} --mesh --server {url}", soft_wrap=True)
        out.print("An agent without --mesh (agent.mesh) does not probe.")
        return
    if not clocks:
        out.print(f"no clock of a host with {match!r} in its name is fitted", style="yellow")
        return
    _head(out, found, clocks)
    several = len({row["host"] for row in clocks}) < len(clocks)
    rows = [_row(row, found["at_ns"], several) for row in clocks[:ROWS_MAX]]
    out.print(table(rows, list(rows[0]), right=["offset", "bound", "drift", "island", "age"]))
    if len(clocks) > ROWS_MAX:
        out.print(f"and {len(clocks) - ROWS_MAX} better known; see --output json", style="dim")
    _doubts(out, clocks)
    _islands(out, found, clocks)


def _head(out: Console, found: Mapping[str, Any], clocks: Sequence[Mapping[str, Any]]) -> None:
    doubted = sum(bool(row["doubts"]) for row in clocks)
    bounds = [row["bound_ns"] for row in clocks if is_held(row)]
    within = f"right within {duration(max(bounds) / 1e9)}" if bounds else "none of them known"
    lost = len(clocks) - len(bounds)
    out.print(
        f"{counted({'clock': len(clocks)})}, {within}{f', {lost} lost' if lost else ''}, "
        f"{counted({'island': found['islands']})}; "
        + (f"{doubted} not to be trusted" if doubted else "all to be trusted to within their bounds"),
        style="bold",
    )  # fmt: skip


def _row(row: Mapping[str, Any], at_ns: int, several: bool) -> dict[str, Any]:
    lost = not is_held(row)
    sign = "+" if row["offset_ns"] > 0 else ""
    return {
        "host": row["host"], **({"clock": row["clock"]} if several else {}),
        "state": Text(row["state"], style=STYLE.get(row["state"], "dim")),
        "offset": "unknown" if lost else f"{sign}{duration(row['offset_ns'] / 1e9)}",
        "bound": None if lost else duration(row["bound_ns"] / 1e9),
        "drift": None if lost else drift_words(row["rate_ppb"]),
        "island": None if lost else row["island"], "age": ago(max(0.0, (at_ns - row["end_ns"]) / 1e9)),
    }  # fmt: skip


def drift_words(rate_ppb: float) -> str:
    """`+12.5 ppb`, `-38 ppm`."""
    value, unit = (rate_ppb / 1000, "ppm") if abs(rate_ppb) >= 10_000 else (rate_ppb, "ppb")
    return f"{'+' if value > 0 else ''}{figures(value)} {unit}"


def _doubts(out: Console, clocks: Sequence[Mapping[str, Any]]) -> None:
    doubted = [row for row in clocks if row["doubts"]]
    if not doubted:
        return
    out.print("\nnot to be trusted", style="bold")
    for row in doubted[:DOUBTS_SHOWN]:
        style = "red" if not is_held(row) else "yellow"
        out.print(f"  {row['host']}: {'; '.join(row['doubts'])}", style=style)
    if len(doubted) > DOUBTS_SHOWN:
        out.print(f"  and {len(doubted) - DOUBTS_SHOWN} more; see --output json", style="dim")


def _islands(out: Console, found: Mapping[str, Any], clocks: Sequence[Mapping[str, Any]]) -> None:
    if found["islands"] < 2:
        return
    out.print("\nislands: times of two of them cannot be compared", style="bold")
    for one in found["island_sizes"]:
        whose = (one["tenant"], one["cluster"], one["island"])
        names = [
            row["host"] for row in clocks
            if is_held(row) and (row["tenant"], row["cluster"], row["island"]) == whose
        ]  # fmt: skip
        out.print(f"  {one['island']}: {counted({'clock': one['clocks']})}: {ranges(names, 8) or '-'}")
