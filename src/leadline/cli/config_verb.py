"""`leadline config show`: the effective settings and where each came from."""

from __future__ import annotations

import os

import typer

from leadline.cli.options import ConfigOption, Output, OutputOption
from leadline.cli.output import console, emit, table
from leadline.server.config import load
from leadline.views.rows import SCHEMA_VERSION

app = typer.Typer(add_completion=False, no_args_is_help=True, help="Show the configuration.")


@app.callback()
def _config() -> None:
    """Show the configuration."""


@app.command("show")
def show(config: ConfigOption = None, output: OutputOption = Output.TABLE) -> None:
    """Print every setting with its value and origin; an invalid value is reported with its file and line."""
    settings = [setting._asdict() for setting in load(config, os.environ).settings()]
    if emit({"schema": SCHEMA_VERSION, "settings": settings}, output, "settings"):
        return
    rows = [
        {
            "setting": f"{each['section']}.{each['key']}",
            "value": each["value"],
            "unit": each["unit"],
            "origin": each["origin"],
            "what": each["doc"],
        }
        for each in settings
    ]
    console().print(table(rows, ["setting", "value", "unit", "origin", "what"]))
