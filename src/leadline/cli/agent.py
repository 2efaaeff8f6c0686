"""`leadline agent`: becomes the agent's own process, which loads neither this command line nor the server."""

from __future__ import annotations

import os
import sys

import typer

from leadline.host.main import parser

HELP = ("-h", "--help")

app = typer.Typer(add_completion=False)


@app.command(
    "agent", context_settings={"allow_extra_args": True, "ignore_unknown_options": True, "help_option_names": []}
)
def agent(context: typer.Context) -> None:
    """Read this host's counters, links, kernel log and event rings, and send them to Leadline. `--help` lists flags."""
    if any(flag in context.args for flag in HELP):  # whoever asks in this process goes on in this process
        parser().parse_args([HELP[0]])
    sys.stdout.flush()
    # The verbs' libraries take more memory than the agent may: a new program image has none of them.
    os.execv(sys.executable, [sys.executable, "-m", "leadline.host.main", *context.args])
