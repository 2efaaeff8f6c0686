"""`leadline lab run` and `leadline lab demo`: a scenario on an emulated cluster, watched by a Leadline of its own."""

from __future__ import annotations

import time
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.demo.demo import job_of, told
from leadline.cli.demo.measured import measured
from leadline.cli.lab.server import own_leadline, tell_inventory
from leadline.cli.options import LabOption, SeedOption
from leadline.cli.output import console
from leadline.cli.record import record_run
from leadline.cli.serving import stop_on_signals
from leadline.lab.flow_truth import beside
from leadline.lab.oscillators import IN_LABS
from leadline.lab.probe_trace import beside as probe_trace
from leadline.lab.probe_trace import write_probe_trace
from leadline.lab.run import ScenarioRun, plan_for
from leadline.lab.scenarios.spec import scenario_of
from leadline.lab.state import checked_name
from leadline.lab.telemetry import TelemetryConfig
from leadline.lab.topology import load_named
from leadline.lab.truth import TruthFile
from leadline.model.errors import UsageError
from leadline.store.bundle_format import SUFFIX

LOOK_EVERY_S = 0.25
DELIVER_S = 4.0  # what agents still hold when the cluster goes is delivered by then


def run(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario, a fault's name, or a YAML file.")],
    seed: SeedOption = 1,
    record: Annotated[Path | None, typer.Option(help="Write NAME.leadline and NAME.truth.json next to it.")] = None,
    truth: Annotated[
        Path | None, typer.Option(help="Where to write the truth; by default next to --record, or SCENARIO.truth.json.")
    ] = None,
    seconds: Annotated[float | None, typer.Option(min=1.0, help="Override the scenario's duration.")] = None,
    topology: Annotated[str, typer.Option(help="Override the scenario's topology: a preset or a YAML file.")] = "",
    data_dir: Annotated[Path | None, typer.Option(help="Keep the store here. Default: deleted at the end.")] = None,
    flow_truth: Annotated[
        bool,
        typer.Option("--flow-truth", help="Count every flow at every switch: NAME.flows.parquet next to --record."),
    ] = False,
    inventory: Annotated[
        bool, typer.Option(help="Send the topology to Leadline, as a site's inventory would: switches, links.")
    ] = True,
    sampling: Annotated[int, typer.Option(min=1, help="sFlow of the switches: one packet in this many.")] = 100,
    mesh: Annotated[bool, typer.Option(help="Hosts probe each other.")] = True,
    clocks: Annotated[
        str, typer.Option(help="Clocks of probes: normal, stress, cold (from 10 s off), or true: this machine's own.")
    ] = "normal",
    name: LabOption = "lab",
) -> None:
    """Run a scenario: cluster, training, faults with ground truth, watched by a separate Leadline.

    Needs root and Linux network namespaces. Ctrl-C ends it and removes everything it made.
    """
    planned = scenario_of(scenario, seconds)
    cluster = load_named(topology or planned.topology)
    if record is not None and record.suffix != SUFFIX:
        raise UsageError(f"--record: expected NAME{SUFFIX}, got {record}")
    if record is not None and not record.parent.is_dir():
        raise UsageError(f"--record: {record.parent} is no directory; make it first")
    if clocks not in IN_LABS:
        raise UsageError(f"--clocks: expected {', '.join(IN_LABS)}, got {clocks!r}")
    written = truth or (record or Path(f"{planned.name}{SUFFIX}")).with_suffix(".truth.json")
    flows = beside(record or Path(f"{planned.name}{SUFFIX}")) if flow_truth or planned.flow_truth else None
    plan = plan_for(planned, cluster, seed)
    plan.require_machine()  # nothing is started for what cannot be
    with ExitStack() as stack:
        stopping = stack.enter_context(stop_on_signals())
        listening = stack.enter_context(own_leadline(checked_name(name), data_dir, lambda: bool(stopping)))
        if stopping:
            console().print("interrupted before anything was made")
            raise typer.Exit(128 + stopping[0])
        console().print("Leadline is at", Text(listening.url, style="bold"), "while this runs")
        one = ScenarioRun(
            planned,
            cluster,
            lab_name=name,
            seed=seed,
            truth=TruthFile(written, planned.name, seed),
            leadline=listening.url,
            telemetry=TelemetryConfig(collectors=(listening.sflow,), sampling_rate=sampling),
            stopping=lambda: bool(stopping),
            flow_truth=flows,
            mesh=mesh,
            clocks=clocks,
        )
        began_ns = time.time_ns()
        if inventory:
            tell_inventory(listening.url, plan.topology, began_ns)
        story = told(one, listening.url)
        try:
            for _ in story:
                listening.watch()
                time.sleep(LOOK_EVERY_S)
        except BaseException:
            stopping.append(0)  # the scenario goes on in a thread until it is told to stop
            story.close()
            raise
        ended_ns = time.time_ns()
        deliver_until = time.monotonic() + DELIVER_S
        while record is not None and not stopping and time.monotonic() < deliver_until:
            time.sleep(LOOK_EVERY_S)
        lost = record is not None and bool(stopping)
        if one.probes and not stopping:
            console().print(measured(Client(listening.url), job_of(planned), ended_ns), soft_wrap=True)
        if record is not None and not lost:
            record_run(Client(listening.url), began_ns, time.time_ns(), record)
            if rows := write_probe_trace(record, written):
                console().print(
                    f"{probe_trace(record)}: {rows} rows of edges of the mesh, with what clocks really showed"
                )
    out = console()
    if stopping:
        told_so = "interrupted: the cluster and all that ran on it are gone"
        out.print(told_so + ("; nothing was recorded" if lost else ""))
    out.print(f"the truth is in {written}" + (f", that of flows in {flows}" if flows else ""), soft_wrap=True)
    if stopping:
        raise typer.Exit(128 + stopping[0])


def demo(
    seed: SeedOption = 1,
    scenario: Annotated[str, typer.Option(help="Another scenario: its name, a fault's name, or a YAML file.")] = "demo",
    name: LabOption = "lab",
) -> None:
    """Follow one fault on the terminal: what the lab does, side by side with what Leadline receives."""
    run(scenario, seed=seed, name=name)
