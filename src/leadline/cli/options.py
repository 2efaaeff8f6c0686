"""Options that several verbs take, so that one name means one thing everywhere."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from leadline.views.times import SHORT_FORMS


class Output(StrEnum):
    """Output format."""

    TABLE = "table"
    JSON = "json"
    YAML = "yaml"
    CSV = "csv"


@dataclass
class Asked:
    """The format that this call of `leadline` was asked for, for its errors too; one process is one call."""

    output: Output = Output.TABLE


ASKED = Asked()


def _keep_output(value: Output) -> Output:
    ASKED.output = value
    return value


SERVER_VARIABLE = "LEADLINE_SERVER"
ServerOption = Annotated[
    str,
    typer.Option(
        "--server",
        envvar=SERVER_VARIABLE,
        help="Address of the server, or unix:PATH; by default that of leadline.yaml or http://127.0.0.1:8440.",
        show_default=False,
    ),
]
ConfigOption = Annotated[
    Path | None,
    typer.Option("--config", "-c", help="Configuration file; by default ./leadline.yaml if it is there."),
]
OutputOption = Annotated[
    Output, typer.Option("--output", "-o", help="Output format.", show_default=True, callback=_keep_output)
]
SvgOption = Annotated[Path | None, typer.Option("--svg", help="Also draw it into this file, NAME.svg.")]
ClusterOption = Annotated[str, typer.Option(help="Which cluster, where there are several.")]
AtOption = Annotated[
    str,
    typer.Option("--at", help=f"Time: {SHORT_FORMS}. Default: now, or when it was last seen."),
]
FromOption = Annotated[str, typer.Option("--from", help=f"Since when: {SHORT_FORMS}.")]
ToOption = Annotated[
    str, typer.Option("--to", help="Until when, in the same forms; if not given now, or the end of a job that is over.")
]
LabOption = Annotated[str, typer.Option("--name", help="Name of the lab; several can run at the same time.")]
SeedOption = Annotated[
    int,
    typer.Option(
        help="Seed for what a scenario leaves open: what breaks, which hosts a job gets, who shares a machine."
    ),
]
