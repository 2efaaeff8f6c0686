"""The verb `leadline doctor`: how the server does, or one of the questions that its flags ask."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.cli.doctor.server import of_server
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.model.errors import UsageError


def doctor(
    server: ServerOption = "",
    permissions: Annotated[
        bool,
        typer.Option(
            "--permissions",
            help="Show what the agent can read on this machine, why not, and what is lost without it. Needs no server.",
        ),
    ] = False,
    relabel: Annotated[
        bool,
        typer.Option(
            "--relabel",
            help="Print rules for prometheus.yml that keep only the metrics Leadline reads, and what arrives unused.",
        ),
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="With --relabel: an agent runs on the scraped hosts, so drop what it sends."),
    ] = False,
    size: Annotated[
        int | None,
        typer.Option(
            "--size",
            metavar="HOSTS",
            help="Estimate the server that so many training hosts need. Needs no server.",
            show_default=False,
        ),
    ] = None,
    gpus_per_host: Annotated[int, typer.Option(help="With --size: GPUs of a host.")] = 8,
    interval: Annotated[str, typer.Option(help="With --size: how often exporters are read, such as 15s.")] = "15s",
    retention: Annotated[str, typer.Option(help="With --size: how long raw rows are kept, such as 30d.")] = "30d",
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is connected, how fresh its data is, and what is refused and why.

    Exit code 0: all is well; 1: something needs attention; 2: Leadline or its store does not answer.
    """
    asked = [
        name
        for name, is_asked in (("--permissions", permissions), ("--relabel", relabel), ("--size", size is not None))
        if is_asked
    ]
    if len(asked) > 1:
        raise UsageError(f"{' and '.join(asked)} are different questions: ask one at a time")
    if agent and not relabel:
        raise UsageError("--agent says what --relabel may leave out: give both")
    raise typer.Exit(_answered(asked, server, agent, (size or 0, gpus_per_host, interval, retention), output))


def _answered(asked: list[str], server: str, agent: bool, fleet: tuple[int, int, str, str], output: Output) -> int:
    """Answer the question, loading what that takes. Returns the exit code."""
    if asked == ["--permissions"]:
        from leadline.cli.doctor.permissions import permissions

        return permissions(output)
    if asked == ["--relabel"]:
        from leadline.cli.doctor.relabel import relabel

        return relabel(server, agent, output)
    if asked == ["--size"]:
        from leadline.cli.doctor.sizing import sizing

        return sizing(*fleet, output)
    return of_server(server, output)
