"""`leadline lab run` and `leadline lab demo`: a scenario on an emulated cluster, watched by a Leadline."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Annotated

import typer
from rich.live import Live
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.lab_leadline import Listening, own_leadline
from leadline.cli.output import console
from leadline.cli.record import record_run
from leadline.cli.story import FAULT_STYLE, Story
from leadline.cli.up import stop_on_signals
from leadline.lab.realise import privileges
from leadline.lab.run import Happening, ScenarioRun
from leadline.lab.scenarios.spec import Scenario, scenario_of
from leadline.lab.state import state_root
from leadline.lab.telemetry import TelemetryConfig
from leadline.lab.topology import load
from leadline.lab.truth import TruthFile
from leadline.model.errors import LeadlineError, UsageError
from leadline.store.bundle_format import SUFFIX

REFRESH_S = 1.0
DELIVER_S = 4.0  # what agents still hold when the cluster goes is delivered by then
LabOption = Annotated[str, typer.Option("--name", help="Name of the lab; labs of different names live side by side.")]
SeedOption = Annotated[int, typer.Option(help="What a scenario leaves open is chosen from it.")]


def run(
    scenario: Annotated[str, typer.Argument(help="A shipped scenario, a fault's name, or a YAML file.")],
    seed: SeedOption = 1,
    record: Annotated[Path | None, typer.Option(help="Write NAME.leadline, and NAME.truth.json beside it.")] = None,
    truth: Annotated[
        Path | None,
        typer.Option(help="Where the truth is written; by default beside --record, or SCENARIO.truth.json."),
    ] = None,
    topology: Annotated[str, typer.Option(help="Instead of the scenario's: a preset or a YAML file.")] = "",
    data_dir: Annotated[
        Path | None, typer.Option(help="Keep the store here. By default it is gone at the end.")
    ] = None,
    name: LabOption = "lab",
) -> None:
    """Run a scenario: cluster, training, faults with their truth, watched by a Leadline of its own.

    Needs root and Linux network namespaces. Ctrl-C ends it and removes everything it made.
    """
    planned = scenario_of(scenario)
    cluster = load(topology or planned.topology)
    if record is not None and record.suffix != SUFFIX:
        raise UsageError(f"--record: expected NAME{SUFFIX}, got {record}")
    told = truth or (record or Path(f"{planned.name}{SUFFIX}")).with_suffix(".truth.json")
    privileges.require()
    with ExitStack() as stack:
        stopping = stack.enter_context(stop_on_signals())
        listening = stack.enter_context(own_leadline(name, data_dir))
        console().print("Leadline is at", Text(listening.url, style="bold"), "while this runs")
        one = ScenarioRun(
            planned,
            cluster,
            lab_name=name,
            seed=seed,
            truth=TruthFile(told, planned.name, seed),
            leadline=listening.agents,
            telemetry=TelemetryConfig(collectors=(listening.sflow,)),
            stopping=lambda: bool(stopping),
        )
        began_ns = time.time_ns()
        tell(one, listening)
        if record is not None and not stopping:
            time.sleep(DELIVER_S)
            record_run(Client(listening.url), began_ns, time.time_ns(), record)
    console().print(f"truth in {told}")
    if stopping:
        raise typer.Exit(130)


def demo(
    name: LabOption = "lab",
    seed: SeedOption = 1,
    scenario: Annotated[
        str, typer.Option(help="Another story: a shipped scenario, a fault's name, a YAML file.")
    ] = "demo",
) -> None:
    """Tell the story of a fault on the terminal: what the lab does, and beside it what Leadline is told."""
    run(
        scenario,
        seed=seed,
        record=None,
        truth=state_root() / f"{name}.truth.json",
        topology="",
        data_dir=None,
        name=name,
    )


def tell(one: ScenarioRun, listening: Listening) -> None:
    """Run a scenario and show it: a picture that is redrawn on a terminal, lines elsewhere."""
    out = console()
    story = Story(Client(listening.url), one.scenario, job_of(one.scenario))
    if not out.is_terminal:
        one.tell = _told_as_lines(story)
        one.run()
        story.ask()
        out.print(story.picture(one.scenario.duration_s))
        sys.stdout.flush()
        return
    one.tell = story.add
    with Live(console=out, auto_refresh=False) as live, _beside(one.run) as running:
        while running():
            story.ask()
            live.update(story.picture(one.at_s), refresh=True)
            time.sleep(REFRESH_S)
        story.ask()
        live.update(story.picture(one.scenario.duration_s), refresh=True)


def job_of(scenario: Scenario) -> str:
    """The job that the picture is about: the first that trains, else the first."""
    training = [each.name for each in scenario.workloads if each.kind == "bert"]
    return (training or [each.name for each in scenario.workloads] or [""])[0]


def _told_as_lines(story: Story) -> Callable[[Happening], None]:
    def line(happening: Happening) -> None:
        story.add(happening)
        at = "" if happening.at_s is None else f"{happening.at_s:.0f} s"
        console().print(Text(f"{at:>6}  {happening.text}", style=FAULT_STYLE.get(happening.kind, "")))
        sys.stdout.flush()

    return line


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Do `work` in a thread; the value says whether it still goes on. Its error is raised at the end."""
    failed: list[BaseException] = []

    def guarded() -> None:
        try:
            work()
        except BaseException as error:
            failed.append(error)

    thread = threading.Thread(target=guarded, name="scenario")
    thread.start()
    try:
        yield thread.is_alive
    finally:
        thread.join()
    for error in failed:
        raise error if isinstance(error, LeadlineError) else RuntimeError("the scenario failed") from error
