"""`leadline lab up|down|status`: a training cluster of network namespaces on this machine."""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Annotated, Any

import typer

from leadline.cli.exits import EXIT_OF_STATE
from leadline.cli.lab import listing
from leadline.cli.lab import matrix as lab_matrix
from leadline.cli.lab import run as lab_run
from leadline.cli.lab import server as lab_leadline
from leadline.cli.lab import simulate as lab_simulate
from leadline.cli.options import LabOption, Output, OutputOption
from leadline.cli.output import ago, console, emit, size, state_text, table
from leadline.lab import state
from leadline.lab.realise import leftovers
from leadline.lab.realise.cluster import Cluster
from leadline.lab.realise.status import NodeStatus, status
from leadline.lab.topology import load_named, preset_names
from leadline.model.errors import UsageError
from leadline.views.rows import SCHEMA_VERSION

app = typer.Typer(
    add_completion=False,
    no_args_is_help=True,
    help="An emulated cluster on this machine: real networking, real faults.",
)

app.command("list")(listing.list_scenarios)
app.command()(lab_run.run)
app.command()(lab_run.demo)
app.command()(lab_matrix.matrix)
app.command()(lab_simulate.simulate)


@app.callback()
def _lab() -> None:
    """An emulated cluster on this machine: real networking, real faults."""


@app.command()
def up(
    topology: Annotated[str, typer.Argument(help=f"A preset ({', '.join(preset_names())}) or a YAML file.")] = "clos8",
    name: LabOption = "lab",
    output: OutputOption = Output.TABLE,
) -> None:
    """Make a lab and leave it up; `leadline lab down` removes it. Needs root."""
    wanted = load_named(topology)
    began = time.monotonic()
    cluster = Cluster(wanted, name)
    cluster.up(keep=True)
    # Programs that belong to every lab (exporters, agents) are started here, detached, when `up` is to bring them.
    took_s = time.monotonic() - began
    answer = {
        "schema": SCHEMA_VERSION,
        "lab": name,
        "topology": wanted.name,
        "state": str(cluster.state),
        "nodes": len(wanted.nodes),
        "links": len(wanted.links),
        "took_s": round(took_s, 3),
    }
    if emit(answer, output):
        return
    counts = f"{len(wanted.switches)} switches, {len(wanted.hosts)} hosts, {len(wanted.links)} links"
    out = console()
    out.print(f"lab {name} ({wanted.name}: {counts}) is up, after {took_s:.2f} s; its files are in {cluster.state}")
    out.print(f"  a shell on a host:  ip netns exec {cluster.namespace(wanted.hosts[0].name)} bash")
    out.print(f"  take it down:       leadline lab down --name {name}")


@app.command()
def down(
    name: LabOption = "lab",
    force: Annotated[bool, typer.Option("--force", help="Also if a living process owns the lab.")] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Remove a lab, and whatever killed labs left behind; nothing else is touched."""
    root = state.state_root()
    removed = leftovers.remove_leftovers(root) + lab_leadline.remove_leftovers()
    record = state.read(root, state.checked_name(name))
    if record is not None:
        if record.owner_pid and not force:
            raise UsageError(
                f"lab {name} belongs to process {record.owner_pid}, which is running; end that, or say --force"
            )
        with state.claims(root):
            removed += [f"{name}: {what}" for what in leftovers.take_down(root, record)]
    if emit({"schema": SCHEMA_VERSION, "removed": removed}, output):
        return
    for each in removed or ["nothing to take down"]:
        console().print(each)


@app.command("status")
def show_status(
    node: Annotated[str, typer.Argument(help="Only this node, with its ports.")] = "",
    name: LabOption = "lab",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show the state of a lab: ports, rates, carrier changes, programs.

    Exit code 0 if every port has its carrier, 1 if one has not; more, with a message, if there is no such lab.
    """
    cluster = Cluster.attach(name)
    record = cluster.record
    nodes = status(cluster)
    if node:
        cluster.topology.node(node)
        nodes = [each for each in nodes if each.node == node]
    verdict = "ok" if all(port.carrier for each in nodes for port in each.ports) else "warning"
    answer = {
        "schema": SCHEMA_VERSION,
        "state": verdict,
        "lab": name,
        "topology": record.topology,
        "owner_pid": record.owner_pid or None,
        "created_ns": record.created_ns,
        "directory": str(cluster.state),
        "nodes": [asdict(each) for each in nodes],
    }
    if not emit(answer, output, "nodes"):
        age = ago((time.time_ns() - record.created_ns) / 1e9)
        owner = f"process {record.owner_pid}" if record.owner_pid else "no one; it stays up until `leadline lab down`"
        console().print(state_text(verdict), f"lab {name} ({record.topology}), up {age}, owned by {owner}\n")
        console().print(_ports_table(nodes[0]) if node else _nodes_table(nodes))
    raise typer.Exit(EXIT_OF_STATE[verdict])


def _nodes_table(nodes: list[NodeStatus]) -> Any:
    rows = [
        {
            "node": each.node,
            "kind": each.kind,
            "ports up": f"{sum(port.carrier for port in each.ports)} of {len(each.ports)}",
            "rates": ", ".join(sorted({_rate(port.rate_bps) for port in each.ports})),
            "carrier changes": sum(port.carrier_changes for port in each.ports),
            "sent": size(sum(port.sent_bytes for port in each.ports)),
            "dropped": sum(port.dropped for port in each.ports),
            "programs": ", ".join(f"{count} {program}" for program, count in sorted(each.programs.items())),
        }
        for each in nodes
    ]
    return table(rows, list(rows[0]), right=["ports up", "carrier changes", "sent", "dropped"])


def _ports_table(node: NodeStatus) -> Any:
    rows = [
        {
            "port": each.port,
            "linked to": each.peer,
            "role": each.role,
            "carrier": state_text("ok" if each.carrier else "critical"),
            "rate": _rate(each.rate_bps),
            "carrier changes": each.carrier_changes,
            "sent": size(each.sent_bytes),
            "received": size(each.received_bytes),
            "dropped": each.dropped,
            "waiting": size(each.queue_bytes),
        }
        for each in node.ports
    ]
    return table(rows, list(rows[0]), right=["rate", "carrier changes", "sent", "received", "dropped", "waiting"])


def _rate(rate_bps: int | None) -> str:
    return "not shaped" if rate_bps is None else f"{rate_bps / 1e6:g} Mbit/s"
