"""`leadline show graph`: what a job stands on, and what it shares with other jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Annotated, Any

import typer
from rich.console import Console

from leadline.cli.client import Client
from leadline.cli.exits import require_known
from leadline.cli.options import AtOption, ClusterOption, Output, OutputOption, ServerOption, SvgOption
from leadline.cli.output import console, emit, table, when
from leadline.cli.picture.folding import HOST, LEAF, Whole, homes, job_name, leaves, merged, neighbours, shown_name
from leadline.cli.picture.graph import ROW_NAMES, graph_picture
from leadline.cli.picture.save import save
from leadline.cli.ranges import counted, natural, ranges
from leadline.model.errors import UsageError

HOSTS_MAX = 32  # told one by one; more are told together by the leaves that they hang on
DRAWN_BESIDE = 3  # jobs that share something and are drawn beside the one asked for
SHARED_MAX = 40


def graph(
    job: Annotated[str, typer.Argument(help="bert-1 or job:bert-1.", show_default=False)] = "",
    at: AtOption = "",
    of: Annotated[str, typer.Option(help="Instead of a job: an entity, such as switch:leaf1 or host:h3.")] = "",
    svg: SvgOption = None,
    cluster: ClusterOption = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what a job depends on at a time: ranks, GPUs, hosts, NICs, links, switches, and who shares them."""
    if bool(job) == bool(of):
        raise UsageError("give a JOB, or --of ENTITY such as switch:leaf1, and not both")
    client = Client(server)
    found = client.get("/api/v1/graph", job=job, of=of, at=at, cluster=cluster)
    if svg is not None:
        save(svg, graph_picture([found, *_beside(client, found, cluster)], when(found["at_ns"])))
    if not emit(found, output, "edges"):
        tell(console(), found)
    if found["span"] is None:
        require_known(client, "job" if job else "entity", job or of, cluster=cluster)


def _beside(client: Client, found: Mapping[str, Any], cluster: str) -> list[dict[str, Any]]:
    """The graphs of the jobs that share most with the one asked for, so that both are in one picture."""
    if not found["job"]:
        return []
    shares: dict[str, int] = defaultdict(int)
    for each in found["shared"]:
        for job in each["jobs"]:
            shares[job_name(job)] += 1
    shares.pop(job_name(found["job"]), None)
    most = sorted(shares, key=lambda job: (-shares[job], natural(job)))[:DRAWN_BESIDE]
    return [client.get("/api/v1/graph", job=job, at=str(found["at_ns"]), cluster=cluster) for job in most]


def tell(out: Console, found: Mapping[str, Any]) -> None:
    """Print an answer for people."""
    whole = merged([found])
    what = found["of"] or f"job {job_name(found['job'])}"
    told = _counts(whole) if whole.edges else "no data about it at that time"
    out.print(f"{what} at {when(found['at_ns'])}: {told}", style="bold")
    if found["note"]:
        out.print(found["note"], style="yellow", soft_wrap=True)
    for line in lines(whole):
        out.print(f"  {line}", soft_wrap=True)
    _shared(out, found)
    if found["conflicts"]:
        out.print("\nsources contradict each other", style="bold")
        out.print(table(found["conflicts"], ["entity", "kind", "claims", "sources", "used", "text"]))
    for text in found["missing"]:
        out.print(f"not known: {text}", style="dim", soft_wrap=True)


def _counts(whole: Whole) -> str:
    kinds: dict[str, int] = dict.fromkeys(("job", "rank", "gpu", "host", "port", "switch", "storage"), 0)
    for node in whole.nodes.values():
        kinds[node.kind] = kinds.get(node.kind, 0) + 1
    return counted({kind: count for kind, count in kinds.items() if count} | whole.left_out)


def lines(whole: Whole) -> list[str]:
    """A line for each host (or, of many hosts, for those on the same leaves), then switches by tier and storage."""
    above, below = neighbours(whole)
    home = homes(whole, above, below)
    hosts = sorted((node.entity for node in whole.nodes.values() if node.layer == HOST), key=natural)
    on: dict[str, dict[str, list[str]]] = {host: defaultdict(list) for host in hosts}
    for entity, host in home.items():
        on[host][whole.nodes[entity].kind].append(shown_name(entity))
    together: dict[Any, list[str]] = defaultdict(list)
    for host in hosts:
        together[host if len(hosts) <= HOSTS_MAX else leaves(whole, host, below)].append(host)
    told = [_hosts_line(some, on, leaves(whole, some[0], below)) for some in together.values()]
    tiers: dict[int, list[str]] = defaultdict(list)
    for node in whole.nodes.values():
        if node.layer >= LEAF and node.kind == "switch":
            tiers[node.layer].append(shown_name(node.entity))
    told += [f"{ROW_NAMES.get(tier, f'tier {tier - 4}')}: {ranges(names, 12)}" for tier, names in sorted(tiers.items())]
    storage = [shown_name(node.entity) for node in whole.nodes.values() if node.kind == "storage"]
    return told + ([f"storage: {ranges(storage, 12)}"] if storage else [])


def _hosts_line(hosts: list[str], on: Mapping[str, Mapping[str, list[str]]], hang: tuple[str, ...]) -> str:
    """`bert-1 ranks 0-7 on h1: 8 GPUs (5c1e..), eth0-eth7 to leaf1-leaf8`."""
    names = ranges((shown_name(host) for host in hosts), 3)
    ranks: dict[str, list[str]] = defaultdict(list)
    for host in hosts:
        for rank in on[host]["rank"]:
            job, _, number = rank.rpartition("/")
            ranks[job].append(number)
    who = " and ".join(
        f"{job} rank{'s' if len(numbers) > 1 else ''} {ranges(numbers, 3)}" for job, numbers in sorted(ranks.items())
    )
    gpus = [gpu for host in hosts for gpu in on[host]["gpu"]]
    ports = [port for host in hosts for port in on[host]["port"]]
    line = f"{who} on {names}" if who else names
    parts = [f"{len(hosts)} hosts"] if len(hosts) > 1 else []
    if gpus:
        parts.append(f"{gpus[0]}" + (f" and {len(gpus) - 1} more GPUs" if len(gpus) > 1 else ""))
    if ports:
        parts.append(ranges((port.rpartition("/")[2] for port in ports), 3) if len(hosts) == 1
                     else counted({"port": len(ports)}))  # fmt: skip
    if hang:
        parts[-1:] = [f"{parts[-1]} to {ranges((shown_name(leaf) for leaf in hang), 4)}"] if ports else []
    return f"{line}: {'; '.join(parts)}" if parts else line


def _shared(out: Console, found: Mapping[str, Any]) -> None:
    if not found["shared"]:
        return
    out.print("\nshared with other jobs", style="bold")
    together: dict[tuple[str, ...], list[str]] = defaultdict(list)
    for each in found["shared"]:
        jobs = [*map(job_name, each["jobs"]), *_others(each.get("others", 0))]
        together[(each["kind"], *jobs)].append(shown_name(each["entity"]))
    rows = [
        {"kind": kind, "what": ranges(names, 8), "number": len(names), "jobs": jobs}
        for (kind, *jobs), names in together.items()
    ]
    out.print(table(rows[:SHARED_MAX], ["kind", "what", "number", "jobs"], right=["number"]))
    if len(rows) > SHARED_MAX:
        out.print(f"and {len(rows) - SHARED_MAX} more; see --output json", style="dim")


def _others(count: int) -> list[str]:
    return [f"{count} of another tenant"] if count else []
