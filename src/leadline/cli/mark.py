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
    what: Annotated[Mark, typer.Argument(help="Of the cause, or of the incident.")],
    entity: Annotated[str, typer.Option(help="The component, where several causes are named.")] = "",
    rule: Annotated[str, typer.Option(help="The rule, where several causes are named.")] = "",
    reason: Annotated[str, typer.Option(help="Why; needed to dismiss.")] = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Say that the cause of an incident is right or wrong, or dismiss the incident.

    A rule that is often marked wrong names no cause any more; `leadline show rules` tells how each does. A dismissed
    incident sends no alert.
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
