"""`leadline diagnose`: what is wrong, why, what to do; of a job, an incident, all, a recording, or metrics."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from leadline.cli.client import Client
from leadline.cli.diagnosis.given import DEFAULT_FOR, Given
from leadline.cli.diagnosis.offline import recorded_diagnosis
from leadline.cli.diagnosis.progress import analysing
from leadline.cli.diagnosis.truth import compared, comparison
from leadline.cli.diagnosis.words import state_line, tell
from leadline.cli.exits import EXIT_OF_STATE
from leadline.cli.options import (
    SERVER_VARIABLE,
    AtOption,
    ClusterOption,
    ConfigOption,
    Output,
    OutputOption,
    ServerOption,
    SvgOption,
)
from leadline.cli.output import console, emit, when
from leadline.cli.picture.diagnosis import diagnosis_picture
from leadline.cli.picture.save import save
from leadline.lab.truth import Entry, read_truth
from leadline.model.errors import LeadlineError, UsageError
from leadline.server.config import load
from leadline.store.bundle_format import SUFFIX
from leadline.store.bundle_redact import truth_path
from leadline.views.rows import SCHEMA_VERSION


def diagnose(
    about: Annotated[
        str,
        typer.Argument(
            help="A job (bert-1), an incident by its id, an entity (host:h3), or a recording (NAME.leadline). "
            "By default all."
        ),
    ] = "",
    within: Annotated[
        str, typer.Argument(help="Only this job, incident or entity of a recording.", show_default=False)
    ] = "",
    truth: Annotated[
        bool, typer.Option("--truth", help="Compare a recording with its ground truth, NAME.truth.json.")
    ] = False,
    every: Annotated[bool, typer.Option("--all", help="Print every incident in full, not only the costliest.")] = False,
    check: Annotated[bool, typer.Option("--check", help="Print one line only, like a Nagios plug-in.")] = False,
    svg: SvgOption = None,
    metrics: Annotated[
        Path | None,
        typer.Option(
            help="Rank causes from this table of readings alone (.parquet or .csv: time, entity, metric, value), "
            "without a server. The argument is then the entity that is slow or fails, if it is known."
        ),
    ] = None,
    relations: Annotated[
        Path | None, typer.Option(help="With --metrics: what depends on what (.csv: from,to[,kind]).")
    ] = None,
    lasting: Annotated[
        str, typer.Option("--for", help="With --metrics: how long after --at is judged (90s, 5m, 2h).")
    ] = DEFAULT_FOR,
    normal: Annotated[
        list[str] | None,
        typer.Option(help="With --metrics: normal operation, FROM/TO, can be repeated. Default: all before --at."),
    ] = None,
    role: Annotated[
        list[str] | None,
        typer.Option(
            help="With --metrics: METRIC=ROLE, can be repeated; latency, waiting, failed, requests, use, "
            "caller-latency, callee-latency."
        ),
    ] = None,
    symptom_metric: Annotated[
        str,
        typer.Option(
            help="With --metrics: what is wrong with the entity. Default: failures if they rose, else latency."
        ),
    ] = "",
    step: Annotated[
        str, typer.Option(help="With --metrics: length of an interval. Default: the usual distance of readings.")
    ] = "",
    at: AtOption = "",
    cluster: ClusterOption = "",
    config: ConfigOption = None,
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is wrong, since when, the cause with its evidence, what to do, and what waiting costs.

    Exit code 0: no incident; 1: an incident whose cause is unknown or that is suppressed; 2: an incident with a known
    cause; 3: cannot tell, or the name is unknown. In a recording, incidents that are over count too.
    """
    # A server that only the environment names does not contradict a file.
    flag = "" if server == os.environ.get(SERVER_VARIABLE) else server
    try:
        if metrics is not None:
            _refused("--metrics", within=within, truth=truth, svg=svg, cluster=cluster, config=config, server=flag)
            given = Given(metrics, relations, about, at, lasting, normal or (), role or (), symptom_metric, step)
            _tell_metrics(given, output, check=check, every=every)
        _needs_metrics(relations=relations, normal=normal, role=role, symptom_metric=symptom_metric, step=step)
        found, faults = _found(
            about, within, truth, at, cluster, config, server, flag, quiet=check or output is not Output.TABLE
        )
    except LeadlineError as error:
        raise typer.Exit(_nothing(about, str(error), output, check=check)) from error
    lines = compared(faults, found["incidents"]) if faults is not None else None
    if lines is not None:
        found["truth"] = [each.as_json() for each in lines]
    if svg is not None:
        save(svg, diagnosis_picture(found, when(found["at_ns"])))
    if not emit(found, output, "incidents"):
        out = console()
        if check:
            out.print(state_line(found), soft_wrap=True)
        else:
            tell(out, found, every)
            if lines is not None:
                out.print("\ncompared with the recorded ground truth", style="bold")
                out.print(comparison(lines) if lines else "nothing was broken, and nothing was found")
    raise typer.Exit(EXIT_OF_STATE[found["state"]])


def _tell_metrics(given: Given, output: Output, *, check: bool, every: bool) -> NoReturn:
    from leadline.cli.diagnosis import metrics  # here: it takes a second to load, and a server answers without

    found = metrics.metrics_diagnosis(given)
    if not emit(found, output):
        if check:
            console().print(metrics.line(found), soft_wrap=True)
        else:
            metrics.tell(console(), found, every)
    raise typer.Exit(EXIT_OF_STATE[found["state"]])


def _refused(by: str, **options: Any) -> None:
    """Errors: UsageError for options that say nothing beside `by`."""
    given = [name for name, value in options.items() if value]
    if given:
        words = ", ".join("a second name" if name == "within" else f"--{name}" for name in given)
        raise UsageError(f"{by} reads files alone, so it goes without {words}")


def _needs_metrics(**options: Any) -> None:
    """Errors: UsageError for options of `--metrics` without it."""
    given = [f"--{name.replace('_', '-')}" for name, value in options.items() if value]
    if given:
        raise UsageError(f"{', '.join(given)}: only with --metrics FILE")


def _found(
    about: str, within: str, truth: bool, at: str, cluster: str, config: Path | None, server: str, flag: str, *,
    quiet: bool,
) -> tuple[dict[str, Any], list[Entry] | None]:  # fmt: skip
    """The answer, and the faults of its truth if that was asked for. `flag`: the --server of the command line.

    Errors: LeadlineError.
    """
    path = Path(about)
    if not about.endswith(SUFFIX) and not (about and path.is_file()):
        if truth:
            raise UsageError(f"--truth is for a recording (NAME{SUFFIX}), got {about or 'no name'!r}")
        if within:
            raise UsageError(f"one name is asked for, or a recording (NAME{SUFFIX}) and one; got {about} and {within}")
        return Client(server).get("/api/v1/diagnosis", job=about, at=at, cluster=cluster), None
    if at or cluster or flag:
        raise UsageError(
            "--at, --cluster and --server need a running Leadline; a recording is analysed here, as a whole"
        )
    faults = _faults(path) if truth else None
    price = load(config, os.environ).ledger
    if quiet:
        return recorded_diagnosis(path, price, within), faults
    with analysing(path) as progress:
        return recorded_diagnosis(path, price, within, progress), faults


def _faults(path: Path) -> list[Entry]:
    beside = truth_path(path)
    if not beside.exists():
        raise UsageError(f"--truth: there is no {beside}; the lab writes it beside a recording")
    return read_truth(beside)[0]


def _nothing(about: str, message: str, output: Output, *, check: bool) -> int:
    """Say that cannot tell."""
    answer = {"schema": SCHEMA_VERSION, "state": "unknown", "about": about, "why": message, "incidents": []}
    if not emit(answer, output, "incidents"):
        if check:
            console().print(f"UNKNOWN: {message}", soft_wrap=True)
        else:
            console(stderr=True).print(f"leadline: {message}", soft_wrap=True)
    return EXIT_OF_STATE["unknown"]
