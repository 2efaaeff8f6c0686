"""`leadline mark`: say whether a cause was right, wrong, or the incident none."""

from __future__ import annotations

import getpass
import re
from typing import Annotated

import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit
from leadline.model.incidents import Mark


def mark(
    incident: Annotated[str, typer.Argument(help="Id of the incident, from `leadline show incidents`.")],
    what: Annotated[Mark, typer.Argument(help="Verdict on the cause, or dismiss for the incident.")],
    entity: Annotated[str, typer.Option(help="The component, if several causes are named.")] = "",
    rule: Annotated[str, typer.Option(help="The rule, if several causes are named.")] = "",
    reason: Annotated[str, typer.Option(help="Reason; required to dismiss.")] = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Mark the cause of an incident right or wrong, or dismiss the incident.

    A rule that is often marked wrong stops naming causes; see `leadline show rules`. A dismissed incident sends no
    alerts.
    """
    said = {"incident": incident, "mark": what.value, "entity": entity, "rule": rule, "reason": reason}
    found = Client(server).post("/api/v1/marks", {**said, "actor": _name()})
    if emit(found, output):
        return
    for row in found["marks"]:
        about = f"{row['rule']} at {row['entity']}" if row["rule"] else f"the incident of {row['entity']}"
        console().print(f"{row['incident']}: {about} is marked {row['mark']} by {row['actor']}", soft_wrap=True)


def _name() -> str:
    """The user's name on this machine; empty where it has none, or one that the server does not take."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ""
    return name if re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", name) else ""
