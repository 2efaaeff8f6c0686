"""`leadline lab simulate`: a fleet of any size from a seed, without a kernel."""

from __future__ import annotations

import os
import time
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal, cast

import typer
import yaml

from leadline.cli import connecting
from leadline.cli.output import console, size
from leadline.host.secret import certificates, secret_of
from leadline.model.errors import UsageError
from leadline.simulator.spec import (
    FULL_DETAIL_GPUS,
    START_NS,
    Detail,
    SimulationSpec,
    planned_of,
    read_planned,
)
from leadline.store.bundle_format import SUFFIX
from leadline.store.bundle_redact import truth_path, write_truth

if TYPE_CHECKING:  # loaded where a fleet is simulated: it brings kernels, and the other verbs need none
    from leadline.simulator.run import Simulation
    from leadline.simulator.write import ServerSink, Sink

TROUBLE = ("silent_switches", "lying_switches", "failing_links")


def simulate(
    gpus: Annotated[int, typer.Option(min=1, help="How many GPUs.")] = 1000,
    minutes: Annotated[float, typer.Option(help="How long.")] = 10.0,
    seed: Annotated[int, typer.Option(min=0, help="The same seed gives the same rows.")] = 1,
    to: Annotated[Path | None, typer.Option(help="The bundle to write; FLEET.leadline if neither is given.")] = None,
    server: Annotated[str, typer.Option(help="Instead of a bundle: a running Leadline, http://127.0.0.1:8440.")] = "",
    scenario: Annotated[Path | None, typer.Option(help="YAML with `faults:` and `harmless:`, at_s, magnitude.")] = None,
    faults: Annotated[str, typer.Option(help="A number, `all`, or names: slow-link,dead-nic/large.")] = "",
    quiet: Annotated[bool, typer.Option("--quiet", help="Nothing breaks; harmless things happen.")] = False,
    hazards: Annotated[bool, typer.Option(help="Parts fail by their age.")] = True,
    detail: Annotated[
        str, typer.Option(help=f"jobs, hosts or all; by default all up to {FULL_DETAIL_GPUS} GPUs, then hosts.")
    ] = "",
    metrics_every: Annotated[float, typer.Option(help="Period of metrics, seconds.")] = 30.0,
    sampling: Annotated[int, typer.Option(help="sFlow: one packet in this many.")] = 50_000,
    flow_rows: Annotated[
        int, typer.Option(help="Maximum number of flow samples; beyond it fewer switches report.")
    ] = 20_000_000,
    spray: Annotated[bool, typer.Option("--spray", help="Each packet takes its own path.")] = False,
    probes: Annotated[bool, typer.Option(help="With --detail all: what a mesh of probers sees.")] = True,
    drop_share: Annotated[float, typer.Option(help="Share of rows to lose in transit.")] = 0.0,
    silent_share: Annotated[float, typer.Option(help="Share of the agents that are silent for a while.")] = 0.0,
    silent_switches: Annotated[float, typer.Option(help="Share of the switches that sample nothing.")] = 0.0,
    lying_switches: Annotated[float, typer.Option(help="Share of the switches that name wrong ports.")] = 0.0,
    failing_links: Annotated[
        float, typer.Option(help="Share of the links between switches that are down for a quarter of the time.")
    ] = 0.0,
    flow_truth: Annotated[
        bool, typer.Option("--flow-truth", help="Write what flows really carry to NAME.flows.parquet.")
    ] = False,
    machines_known: Annotated[
        bool, typer.Option("--machines-known", help="An inventory tells which virtual hosts share a machine.")
    ] = False,
    gpus_per_host: Annotated[int, typer.Option(help="And NICs.")] = 8,
    utilisation: Annotated[float, typer.Option(help="Share of the hosts that jobs have.")] = 0.85,
    placement: Annotated[str, typer.Option(help="packed or random.")] = "packed",
) -> None:
    """Simulate a fleet: jobs, faults, lost telemetry, with the ground truth next to the bundle. Needs no root.

    Prints the expected number of rows first, and refuses what does not fit on the disk.
    """
    if server and to is not None:
        raise UsageError("give --to or --server, not both")
    if scenario is not None and faults:
        raise UsageError("give --scenario or --faults, not both")
    from leadline.lab.flow_truth import FlowTruthFile, beside
    from leadline.simulator.live import Live
    from leadline.simulator.run import Simulation
    from leadline.simulator.write import bundle_sink, require_room, room_needed

    path = to or Path(f"FLEET{SUFFIX}")
    if flow_truth and (detail or ("all" if gpus <= FULL_DETAIL_GPUS else "hosts")) != "all":
        raise UsageError("--flow-truth needs --detail all: flows are simulated only there")
    if path.suffix != SUFFIX:
        raise UsageError(f"--to: expected NAME{SUFFIX}, got {path}")
    detail = detail or ("all" if gpus <= FULL_DETAIL_GPUS else "hosts")
    spec = SimulationSpec(
        gpus=gpus, minutes=minutes, seed=seed, quiet=quiet, hazards=hazards, detail=cast(Detail, detail),
        metrics_s=metrics_every, sampling=sampling, flow_rows_max=flow_rows, spray=spray, probes=probes,
        drop_share=drop_share,
        silent_share=silent_share, gpus_per_host=gpus_per_host, utilisation=utilisation,
        placement=cast(Literal["packed", "random"], placement),
        silent_switches=silent_switches, lying_switches=lying_switches, failing_links=failing_links,
        shares_machine=machines_known,
        start_ns=time.time_ns() - round(minutes * 60e9) if server else START_NS,
    )  # fmt: skip
    planned = read_planned(scenario) if scenario is not None else planned_of(faults, spec.seconds, seed)
    spec = replace(spec, planned=planned)
    simulation = Simulation(spec)
    _tell_estimate(simulation)
    if not server:
        require_room(path.parent, room_needed(simulation.estimate()))
    sink: Sink = _to_server(server) if server else bundle_sink(path, spec.start_ns, spec.end_ns, _config(spec))
    out = console()
    with ExitStack() as stack:
        stack.callback(sink.close)
        flows = stack.enter_context(FlowTruthFile(beside(path))) if flow_truth else None
        live = Live(_to_server(server), simulation.watermark_rows) if server else None
        if live is not None:
            stack.callback(live.close)
            live.start()
        written = simulation.write(sink, flows, live.say) if live else simulation.write(sink, flows)
        stack.callback(written.close)  # also on Ctrl-C it says that nothing more will come
        shown = 0.0
        for share in written:
            if share - shown >= 0.1:
                out.print(f"{share:.0%}")
                shown = share
        if flows is not None:
            flows.finish()
            out.print(f"{flows.rows:,} rows of what flows really carry in {flows.path}", soft_wrap=True)
    truth = truth_path(path)
    write_truth(truth, simulation.outcome.truth)
    _tell_outcome(simulation, server or str(path), truth)


def _tell_estimate(simulation: Simulation) -> None:
    from leadline.simulator.write import ROW_BYTES

    rows = simulation.estimate()
    fleet, plan = simulation.fleet, simulation.schedule
    needed = sum(ROW_BYTES.get(name, 20.0) * count for name, count in rows.items())
    out = console()
    out.print(
        f"{fleet.gpu_count:,} GPUs on {fleet.hosts:,} hosts, {fleet.switches:,} switches, {len(plan.runs):,} runs of "
        f"jobs, {len(plan.faults):,} faults, {plan.utilisation:.0%} used"
    )
    told = ", ".join(f"{name} {count:,.0f}" for name, count in rows.items())
    out.print(f"about {sum(rows.values()):,.0f} rows, {size(int(needed))}: {told}", soft_wrap=True)


def _tell_outcome(simulation: Simulation, where: str, truth: Path) -> None:
    outcome = simulation.outcome
    out = console()
    out.print(
        f"{sum(outcome.rows.values()):,} rows, {size(outcome.bytes)}, in {outcome.seconds:.1f} s: "
        f"{outcome.rows_per_second / 1e6:.2f} M rows/s to {where}",
        soft_wrap=True,
    )
    if lost := sum(outcome.lost.values()):
        out.print(f"{lost:,} rows were lost in transit, as requested: {dict(outcome.lost)}", soft_wrap=True)
    out.print(f"the truth is in {truth}", soft_wrap=True)


def _config(spec: SimulationSpec) -> str:
    """What the bundle says of how it was made, as its configuration."""
    told = {
        name: getattr(spec, name)
        for name in ("gpus", "minutes", "seed", "quiet", "hazards", "detail", "metrics_s", "sampling", "spray",
                     "probes", "drop_share", "silent_share", "gpus_per_host", "utilisation", "placement")
    }  # fmt: skip
    told |= {name: share for name in TROUBLE if (share := getattr(spec, name))}
    return yaml.safe_dump({"simulation": told}, sort_keys=False)


def _to_server(url: str) -> ServerSink:
    """A running Leadline, with what is needed to be let in."""
    from leadline.simulator.write import ServerSink

    verify = certificates(connecting.GIVEN.ca_file, os.environ) if url.startswith("https:") else True
    return ServerSink(url, secret_of(connecting.GIVEN.token_file, os.environ), verify)
