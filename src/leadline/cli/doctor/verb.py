"""The verb `leadline doctor`: how the server does, or one of the questions that its flags ask."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.cli.doctor.server import of_server
from leadline.cli.options import Output, OutputOption, ServerOption


def doctor(
    server: ServerOption = "",
    permissions: Annotated[
        bool,
        typer.Option(
            "--permissions",
            help="What the agent may read on this machine, why not, and what is lost by it; needs no server.",
        ),
    ] = False,
    relabel: Annotated[
        bool,
        typer.Option(
            "--relabel",
            help="Blocks for prometheus.yml that send only metrics which Leadline reads, and what comes beside them.",
        ),
    ] = False,
    agent: Annotated[
        bool,
        typer.Option("--agent", help="With --relabel: an agent runs on the scraped hosts; leave out what it sends."),
    ] = False,
    output: OutputOption = Output.TABLE,
) -> None:
    """Show what is connected, how fresh its data is, and what is refused and why.

    Exit code 0: all is well; 1: something needs attention; 2: Leadline or its store does not answer.
    """
    if permissions:
        from leadline.cli.doctor.permissions import permissions as print_permissions

        raise typer.Exit(print_permissions(output))
    if relabel:
        from leadline.cli.doctor.relabel import relabel as print_relabel

        raise typer.Exit(print_relabel(server, agent, output))
    raise typer.Exit(of_server(server, output))
