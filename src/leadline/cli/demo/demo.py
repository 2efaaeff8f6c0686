"""`leadline up --demo`: a training cluster on this machine, what breaks in it, and what arrives here."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import ExitStack, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from rich.live import Live
from rich.text import Text

from leadline.cli.client import Client
from leadline.cli.demo.measured import measured
from leadline.cli.demo.story import FAULT_STYLE, Story
from leadline.cli.lab.server import Listening, tell_inventory
from leadline.cli.output import console
from leadline.cli.words.costs import cost_words, time_words
from leadline.lab.run import Happening, ScenarioRun, plan_for
from leadline.lab.scenarios.spec import Scenario, scenario_of
from leadline.lab.telemetry import TelemetryConfig
from leadline.lab.topology import load_named
from leadline.lab.truth import TruthFile

SCENARIO = "demo"
REFRESH_S = 2.0  # seven small queries: more often would cost the training CPU
DELIVER_S_MAX = 15.0  # what agents still hold when the cluster goes is delivered by then
JUDGE_S_MAX = 120.0  # the last windows are judged some seconds after the story ends, where CPU is short later
# What must have come from a cluster that trains and whose link flaps.
ARRIVED_SQL = """
SELECT (SELECT count() FROM step) AS steps, (SELECT count() FROM collective) AS collectives,
  (SELECT count() FROM flow_sample) AS flow_samples, (SELECT count() FROM metric_sample) AS metric_samples,
  (SELECT count() FROM event WHERE kind = 'link-down') AS link_downs,
  (SELECT count() FROM series) AS streams, (SELECT uniqExactIf(entity, entity != '') FROM series) AS entities
"""
NEEDED = ("steps", "collectives", "flow_samples", "metric_samples", "link_downs")
EXAMPLE_SQL = (
    "SELECT rank, round(avg(end_ns - start_ns) / 1e9, 2) AS seconds FROM step GROUP BY rank ORDER BY seconds DESC"
)


class Demo:
    """The scenario `demo` in a lab, sent to a running Leadline. Built inert; `show` starts it."""

    def __init__(self, listening: Listening, lab_name: str, seed: int = 1) -> None:
        self._stopping = threading.Event()
        scenario = scenario_of(SCENARIO)
        self.truth = listening.data_dir.with_name(f"{listening.data_dir.name}.truth.json")
        self._url = listening.url
        self.run = ScenarioRun(
            scenario,
            load_named(scenario.topology),
            lab_name=lab_name,
            seed=seed,
            truth=TruthFile(self.truth, scenario.name, seed),
            leadline=listening.url,
            telemetry=TelemetryConfig(collectors=(listening.sflow,)),
            stopping=self._stopping.is_set,
        )

    def stop(self) -> None:
        """End it early; `show` returns when everything is removed."""
        self._stopping.set()

    def show(self, once: bool) -> Generator[int | None, None, None]:
        """Tell the story, a step at each `next`; yields an exit code at its end if `once`, else None for ever."""
        plan = plan_for(self.run.scenario, self.run.topology, self.run.seed)
        tell_inventory(self._url, plan.topology, time.time_ns())
        try:
            story = yield from told(self.run, self._url)
        finally:
            self.stop()
        arrived = self._arrived()
        self._settle(story)
        story.ask_ledger()
        console().print("", story.found.held_against(self.run.truth.entries), sep="\n")
        _summary(arrived, self.truth, story, once)
        if self.run.probes:
            console().print(measured(story.client, story.job, story.ended_ns or time.time_ns()), soft_wrap=True)
        sys.stdout.flush()
        missing = [name for name in NEEDED if not arrived[name]]
        if missing:
            console().print(f"none of these arrived: {', '.join(missing)}", style="red")
        while True:
            yield (1 if missing else 0) if once else None

    def _settle(self, story: Story) -> None:
        """Ask until every fault has its cause, or all is judged: where training took the CPU, that is behind."""
        deadline = time.monotonic() + JUDGE_S_MAX
        story.ask_causes()
        if not story.found.complete(self.run.truth.entries, story.ended_ns):
            console().print(f"analysing the rest, for {JUDGE_S_MAX:.0f} s at most ...", style="dim")
            sys.stdout.flush()
        while not story.found.complete(self.run.truth.entries, story.ended_ns) and time.monotonic() < deadline:
            time.sleep(1.0)
            story.ask_causes()

    def _arrived(self) -> dict[str, Any]:
        client, deadline = Client(self._url), time.monotonic() + DELIVER_S_MAX
        while True:
            found: dict[str, Any] = client.post("/api/v1/sql", {"sql": ARRIVED_SQL})["rows"][0]
            if all(found[name] for name in NEEDED) or time.monotonic() > deadline:
                return found
            time.sleep(1.0)


def told(one: ScenarioRun, url: str) -> Generator[None, None, Story]:
    """Run a scenario and show it: a picture redrawn on a terminal, a line for each happening elsewhere.

    The scenario runs in a thread; what it raised is raised here when it has ended. Leaving early joins it, so the
    caller tells it to stop first.
    """
    out = console()
    story = Story(Client(url), one.scenario, job_of(one.scenario))
    one.tell = story.add if out.is_terminal else _lines(story)
    if not out.is_terminal:
        story.conclude = _concluded_line
    with ExitStack() as stack:
        running = stack.enter_context(_beside(one.run))
        live = stack.enter_context(Live(console=out, auto_refresh=False)) if out.is_terminal else None
        drawn = 0.0
        while running():
            if live is not None and time.monotonic() - drawn >= REFRESH_S:
                drawn = time.monotonic()
                story.ask()
                live.update(story.picture(one.at_s), refresh=True)
            elif live is None and time.monotonic() - drawn >= REFRESH_S:
                drawn = time.monotonic()
                story.ask_causes()
            yield
        story.ask()
        if live is not None:
            live.update(story.picture(one.scenario.duration_s), refresh=True)
    if live is None:
        out.print(story.picture(one.scenario.duration_s))
        sys.stdout.flush()
    return story


def job_of(scenario: Scenario) -> str:
    """The job that the picture is about: the first that trains, else the first."""
    training = [each.name for each in scenario.workloads if each.kind == "bert"]
    return (training or [each.name for each in scenario.workloads] or [""])[0]


def _summary(arrived: dict[str, Any], truth: Path, story: Story, once: bool) -> None:
    """What was concluded, what is in the store and how to ask for it: at the job's last moment, for it has ended and
    nothing is of now."""
    job, ended_ns = story.job, story.ended_ns
    store = truth.with_name(truth.name.removesuffix(".truth.json"))
    store = store.relative_to(Path.cwd()) if store.is_relative_to(Path.cwd()) else store
    at = f" --at {datetime.fromtimestamp(ended_ns // 10**9, UTC):%Y-%m-%dT%H:%M:%SZ}" if ended_ns else ""
    console().print(
        f"\n{arrived['steps']} steps, {arrived['collectives']} collectives, {arrived['flow_samples']} flow samples and "
        f"{arrived['metric_samples']} metric samples of {arrived['streams']} streams about {arrived['entities']} "
        f"entities are in the store.{_concluded(story)}\nThe injected faults are recorded in {truth}. Ask for the rest"
        f"{f' (once `leadline up --data-dir {store}` runs)' if once else ''}:\n"
        f"  .venv/bin/leadline diagnose {job}{at}\n"
        f'  .venv/bin/leadline sql "{EXAMPLE_SQL}"\n'
        f"  .venv/bin/leadline show ledger {job}\n"
        f"  .venv/bin/leadline show sle{at}\n"
        f"  .venv/bin/leadline show graph {job}{at}\n"
        f"  .venv/bin/leadline show path {job}/0 {job}/1{at}\n"
        f"  .venv/bin/leadline show flows {job}{at}\n",
        soft_wrap=True,
    )
    sys.stdout.flush()


def _concluded(story: Story) -> str:
    """Where the time of the job went and who cost most, by the ledger; empty where it has no window yet."""
    went, cost = time_words(story.told.ledger), cost_words(story.told.ledger)
    lines = [
        f"Where the time of {story.job} went: {went}." if went else "",
        f"By part: {cost}." if cost else "",
    ]
    return "".join(f"\n{line}" for line in lines if line)


def _concluded_line(text: str) -> None:
    console().print(Text(f"        Leadline: {text}", "bold bright_magenta"))
    sys.stdout.flush()


def _lines(story: Story) -> Callable[[Happening], None]:
    def line(happening: Happening) -> None:
        story.add(happening)
        at = "" if happening.at_s is None else f"{happening.at_s:.0f} s"
        console().print(Text(f"{at:>6}  {happening.text}", style=FAULT_STYLE.get(happening.kind, "")))
        sys.stdout.flush()

    return line


@contextmanager
def _beside(work: Callable[[], None]) -> Iterator[Callable[[], bool]]:
    """Do `work` in a thread; the value says whether it still goes on. What it raised is raised at the end."""
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
        if failed:
            raise failed[0]
