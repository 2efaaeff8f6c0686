"""`leadline show mesh`: one-way delays between hosts as a matrix, who is slow, who is dark, by rack and pod."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption
from leadline.cli.output import ago, console, emit, table
from leadline.cli.pasted import pasted
from leadline.cli.ranges import counted, ranges
from leadline.cli.show.watching import EveryOption, WatchOption, refuse_unless_terminal, watch
from leadline.cli.words.flows import tuple_words
from leadline.cli.words.mesh import (
    TITLES,
    Host,
    heat,
    hosts_of,
    legend,
    pairs_of,
    places_of,
    slowest_pairs,
    square_of,
    threshold_of,
    told,
)

PIPE_COLUMNS = 80  # of a matrix in a pipe, which has no width
HOSTS_SHOWN, PAIRS_SHOWN, PLACES_SHOWN, FLOWS_SHOWN, ROUTERS_SHOWN = 20, 8, 20, 5, 3
FOLDS = {"rack": "rack", "ecmp": "ECMP group", "pod": "pod", "run": "run of hosts"}


class Measure(StrEnum):
    """What is shown of a pair."""

    QUEUE_P50 = "queue_p50"
    QUEUE = "queue"
    P50 = "p50"
    P99 = "p99"
    MIN = "min"
    LOST = "lost"


class By(StrEnum):
    """What a row of the matrix is."""

    HOST = "host"
    RACK = "rack"
    ECMP = "ecmp"
    POD = "pod"


def mesh(
    match: Annotated[str, typer.Argument(help="Only hosts with this in their name, rack, pod, other tag or job.")] = "",
    job: Annotated[str, typer.Option(help="Only hosts that this job runs on.")] = "",
    measure: Annotated[
        Measure, typer.Option(help="Queueing, a percentile of the one-way delay, or loss.")
    ] = Measure.QUEUE_P50,
    threshold: Annotated[str, typer.Option(help="Slow from here on: 5us, 800ns; of loss 1%. Default: 5us, 1%.")] = "",
    by: Annotated[By, typer.Option(help="Rows of the matrix; folded further where they do not fit.")] = By.HOST,
    traffic_class: Annotated[
        int | None, typer.Option("--class", min=0, max=255, help="Traffic class. Default: the one probed most.")
    ] = None,
    at: AtOption = "",
    watching: WatchOption = False,
    every_s: EveryOption = 2.0,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show delays between hosts: the matrix, who is slow, who is dark, by rack and pod."""
    client = Client(server)
    limit = threshold_of(threshold, measure)

    def ask() -> dict[str, Any]:
        asked = {"at": at, "cluster": cluster}
        chosen = {"measure": measure.value, "class": "" if traffic_class is None else traffic_class}
        return {
            "mesh": client.get("/api/v1/mesh", **asked, **chosen),
            "board": client.get("/api/v1/mesh/hosts", **asked, **chosen),
            "flows": client.get("/api/v1/mesh/flows", job=job.removeprefix("job:"), **asked),
        }

    if watching:
        refuse_unless_terminal(output, console())
        watch(lambda out: tell(out, ask(), limit, match=match, job=job, by=by, url=client.url), every_s)
        return
    found = ask()
    if job and not hosts_of(found["board"], job=job):
        require_known(client, "job", job.removeprefix("job:"), cluster=cluster)
    if not emit(for_programs(found, limit, match, job), output, "pairs"):
        tell(console(), found, limit, match=match, job=job, by=by, url=client.url)


def for_programs(found: Mapping[str, Any], threshold: float, match: str = "", job: str = "") -> dict[str, Any]:
    """The same as rows: hosts, and pairs of which CSV consists."""
    of_mesh, board = found["mesh"], found["board"]
    hosts = hosts_of(board, match, job)
    place = {name: at for at, name in enumerate(board["hosts"])}
    lists = ("heard_ns", "inbound_bound_ns", "outbound_bound_ns", "inbound_peers", "outbound_peers", "inbound_silent",
             "outbound_silent", "nics_total", "nics_healthy", "nics_unknown")  # fmt: skip
    return {
        **{name: of_mesh[name] for name in ("schema", "at_ns", "from_ns", "measure", "unit", "traffic_class")},
        "classes": of_mesh["classes"],
        **{name: of_mesh[name] for name in ("routers_total", "routers_unplaced")},
        "threshold": threshold,
        "hosts": [
            {"host": host.name, "state": host.state, "slow": host.slow(threshold), "words": host.words,
             "inbound": host.inbound, "outbound": host.outbound, "tags": dict(host.tags), "jobs": list(host.jobs),
             **{name: board[name][place[host.name]] for name in lists}}
            for host in hosts
        ],
        "pairs": pairs_of(of_mesh, hosts),
        "pairs_of_hosts_total": of_mesh["hosts_total"],
        "machines": [{"hosts": [board["hosts"][at] for at in one["hosts"]], "probability": one["probability"]}
                     for one in board["machines"]],
        "machines_unknown": [{"hosts": [board["hosts"][at] for at in one["hosts"]], "why": one["why"]}
                             for one in board["machines_unknown"]],
        "flows": found["flows"]["flows"], "flows_why": found["flows"]["why"], "why": of_mesh["why"],
    }  # fmt: skip


def tell(
    out: Console, found: Mapping[str, Any], threshold: float, *, match: str = "", job: str = "", by: str = "",
    url: str = "",
) -> None:  # fmt: skip
    """Print an answer for people."""
    of_mesh, board = found["mesh"], found["board"]
    hosts = hosts_of(board, match, job)
    if of_mesh["why"]:
        _empty(out, of_mesh["why"], url)
        return
    if not hosts:
        out.print(f"no host of the mesh has {match or job!r} in its name, tags or jobs", style="yellow")
        return
    _head(out, of_mesh, board, hosts, threshold)
    _matrix(out, of_mesh, hosts, threshold, by)
    _slow(out, hosts, threshold, of_mesh["unit"])
    _pairs(out, slowest_pairs(of_mesh, hosts, threshold), of_mesh["unit"])
    _dark(out, hosts)
    _places(out, hosts, threshold, of_mesh["unit"])
    _machines(out, board, {host.name for host in hosts})
    _routers(out, of_mesh)
    _flows(out, found["flows"])


def _empty(out: Console, why: str, url: str) -> None:
    out.print(f"{why}.", style="yellow")
    out.print("Delays come from agents that probe each other; start one on each of two hosts or more:")
    out.print(f"  {pasted('agent')} --mesh --server {url}", soft_wrap=True)
    out.print("An agent without --mesh (agent.mesh) does not probe. `leadline doctor` says what a host lacks.")


def _head(
    out: Console, of_mesh: Mapping[str, Any], board: Mapping[str, Any], hosts: Sequence[Host], limit: float
) -> None:
    slow = sum(host.slow(limit) for host in hosts)
    dark = sum(host.state == "dark" for host in hosts)
    rest = sum(host.state == "unprobed" for host in hosts)
    out.print(
        f"{TITLES[of_mesh['measure']]}, class {of_mesh['traffic_class']}: {counted({'host': len(hosts)})}, {slow} slow "
        f"(from {told(limit, of_mesh['unit'])}), {dark} dark" + (f", {rest} not probed" if rest else ""),
        style="bold",
    )  # fmt: skip
    begun_ns = of_mesh["from_ns"]
    since = ago((of_mesh["at_ns"] - begun_ns) / 1e9) if begun_ns is not None else "unknown"
    unknown = [host for host in hosts if host.most is not None and host.bound_ns is None]
    nics, healthy = (sum(board[name]) for name in ("nics_total", "nics_healthy"))
    known = nics - sum(board["nics_unknown"])
    words = [f"windows of the last {since}"]
    words += [f"the bound of {counted({'host': len(unknown)})} is not known"] if unknown else []
    words += [f"{healthy} of {known} NICs healthy"] if known else []
    out.print("; ".join(words), style="dim")


def _matrix(out: Console, of_mesh: Mapping[str, Any], hosts: Sequence[Host], threshold: float, by: str) -> None:
    width = out.width if out.is_terminal else PIPE_COLUMNS
    square = square_of(of_mesh, hosts, width, by)
    if not square.names:
        return
    if of_mesh["hosts_total"] > len(of_mesh["hosts"]):
        of = f"the {len(of_mesh['hosts'])} hosts with the largest values of {of_mesh['hosts_total']}"
        out.print(f"matrix of {of}", style="dim")
    out.print("\nfrom (row) to (column)" + (
        f", by {FOLDS[square.by]}: the worst pair of each two" if square.by != "host" else ""
    ))  # fmt: skip
    for line in heat(square, threshold, width):
        out.print(line, soft_wrap=True)
    out.print(legend(threshold, of_mesh["unit"]), style="dim")


def _slow(out: Console, hosts: Sequence[Host], threshold: float, unit: str) -> None:
    slow = sorted((host for host in hosts if host.slow(threshold)), key=lambda host: -(host.most or 0.0))
    if not slow:
        return
    out.print("\nslow to half of their peers or more, the slowest first", style="bold")
    rows = [
        {"host": host.name, "rack": host.tags.get("rack"), "pod": host.tags.get("pod"),
         "inbound": told(host.inbound, unit), "outbound": told(host.outbound, unit),
         **({} if unit == "ratio" else {"right within": told(host.bound_ns, "ns") if host.bound_ns else "unknown"}),
         "peers": host.peers, "jobs": ", ".join(host.jobs)}
        for host in slow[:HOSTS_SHOWN]
    ]  # fmt: skip
    shown = [name for name in rows[0] if name not in ("rack", "pod", "jobs") or any(row[name] for row in rows)]
    out.print(table(rows, shown, right=["inbound", "outbound", "right within", "peers"]))
    _more(out, len(slow) - len(rows))


def _pairs(out: Console, pairs: Sequence[Mapping[str, Any]], unit: str) -> None:
    if not pairs:
        return
    out.print("\nslowest pairs", style="bold")
    rows = [
        {"from": pair["src"], "to": pair["dst"], "value": told(pair["value"], unit),
         "right within": told(pair["bound_ns"], "ns") if pair["bound_ns"] is not None else "unknown"}
        for pair in pairs[:PAIRS_SHOWN]
    ]  # fmt: skip
    shown = [name for name in rows[0] if name != "right within" or unit != "ratio"]
    out.print(table(rows, shown, right=["value", "right within"]))
    _more(out, len(pairs) - len(rows))


def _dark(out: Console, hosts: Sequence[Host]) -> None:
    dark = [host for host in hosts if host.state == "dark"]
    for host in dark[:HOSTS_SHOWN]:
        where = ", ".join(f"{name} {host.tags[name]}" for name in ("rack", "pod") if name in host.tags)
        jobs = f"; runs {', '.join(host.jobs)}" if host.jobs else ""
        out.print(f"dark: {host.name}{f' ({where})' if where else ''}: {host.words}{jobs}", style="red")
    _more(out, len(dark) - HOSTS_SHOWN)
    rest = [host.name for host in hosts if host.state == "unprobed"]
    if rest:
        out.print(f"not probed (no agent with the mesh on): {ranges(rest, 8)}", style="dim")


def _places(out: Console, hosts: Sequence[Host], threshold: float, unit: str) -> None:
    rows = places_of(hosts, threshold, unit)
    if not rows:
        return
    names = [name for name in rows[0] if name != "pod" or any(row["pod"] != "-" for row in rows)]
    out.print(f"\nby {names[0]}, the median of its hosts", style="bold")
    numbers = ["hosts", "slow", "dark", "not probed", "inbound", "outbound"]
    out.print(table(rows[:PLACES_SHOWN], names, right=numbers))
    _more(out, len(rows) - PLACES_SHOWN)


def _machines(out: Console, board: Mapping[str, Any], shown: set[str]) -> None:
    for one in board["machines"]:
        names = [board["hosts"][at] for at in one["hosts"]]
        if shown.intersection(names):
            out.print(f"on one machine: {ranges(names)} (p {min(one['probability'], 0.99):.2f})")
    for one in board["machines_unknown"]:
        if names := sorted(shown.intersection(board["hosts"][at] for at in one["hosts"])):
            out.print(f"whether they share a machine is unknown: {ranges(names, 4)}: {one['why']}", style="dim")


def _routers(out: Console, of_mesh: Mapping[str, Any]) -> None:
    unplaced = of_mesh["routers_unplaced"]
    if unplaced:
        more = ", ..." if len(unplaced) > ROUTERS_SHOWN else ""
        out.print(
            f"{len(unplaced)} of {of_mesh['routers_total']} routers that answer traces are in no inventory "
            f"({', '.join(unplaced[:ROUTERS_SHOWN])}{more}): what is bad beyond them is not located. Tell whose "
            "addresses they are: address:A in swport:SWITCH/PORT",
            style="yellow", soft_wrap=True,
        )  # fmt: skip


def _flows(out: Console, found: Mapping[str, Any]) -> None:
    if not found["flows"]:
        return
    out.print("\nqueue pairs and sockets, as messages tell, the slowest first", style="bold")
    rows = [
        {"job": flow["job"], "ranks": f"{flow['src_rank']} > {flow['dst_rank']}",
         "flow": tuple_words(flow) if flow["src_ip"] else f"one of {flow['flows']}" if flow["flows"] else "not known",
         "p50": told(flow["delay_p50_ns"], "ns"), "p99": told(flow["delay_p99_ns"], "ns"),
         "right within": told(flow["bound_ns"], "ns") if flow["bound_ns"] is not None else "unknown"}
        for flow in found["flows"][:FLOWS_SHOWN]
    ]  # fmt: skip
    out.print(table(rows, list(rows[0]), right=["p50", "p99", "right within"]))
    _more(out, found["flows_total"] - len(rows))


def _more(out: Console, count: int) -> None:
    if count > 0:
        out.print(f"and {count} more; see --output json", style="dim")
