"""`leadline top`: jobs, incidents and hosts on the terminal, live."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import ClusterOption, ServerOption
from leadline.cli.top.rows import SPANS
from leadline.model.errors import UsageError

MISSING = "leadline top needs Textual, which is not installed: pip install 'leadline[top]'"


def top(
    span: Annotated[str, typer.Option("--span", help=f"How far back: {', '.join(SPANS)}.")] = "1h",
    every_s: Annotated[float, typer.Option("--every", min=0.5, max=3600, help="Refresh interval in seconds.")] = 2.0,
    cluster: ClusterOption = "",
    server: ServerOption = "",
) -> None:
    """Watch jobs, incidents and hosts.

    Keys: j i h select a table, arrows a row, Enter opens it, o sorts by the next column, / finds, s changes the span,
    p pauses, q quits.
    """
    if span not in SPANS:
        raise UsageError(f"--span: expected one of {', '.join(SPANS)}, got {span!r}")
    try:
        from leadline.cli.top.app import Top
    except ModuleNotFoundError as error:
        if not (error.name or "").startswith("textual"):
            raise
        raise UsageError(MISSING) from None
    client = Client(server)
    client.get("/ready")  # who names a wrong server is told so before the screen is taken
    if not sys.stdout.isatty():
        raise UsageError("leadline top draws on a terminal; in a pipe use leadline status or leadline diagnose")
    Top(client.get, span, every_s, cluster).run()
