"""`leadline mark`: say whether a cause was right, wrong, or the incident none; comment on an incident, or assign it."""

from __future__ import annotations

import getpass
import re
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from leadline.cli.client import Client
from leadline.cli.options import Output, OutputOption, ServerOption
from leadline.cli.output import console, emit
from leadline.model.incidents import Mark


def mark(
    incident: Annotated[str, typer.Argument(help="Id of the incident, from `leadline show incidents`.")],
    what: Annotated[Mark, typer.Argument(help="Verdict on the cause; or dismiss, comment on, assign the incident.")],
    entity: Annotated[str, typer.Option(help="The component, if several causes are named.")] = "",
    rule: Annotated[str, typer.Option(help="The rule, if several causes are named.")] = "",
    reason: Annotated[
        str, typer.Option(help="Reason, or text of the comment; required to dismiss and to comment.")
    ] = "",
    to: Annotated[str, typer.Option(help="Of `assigned`: who takes care of it; nobody if empty.")] = "",
    server: ServerOption = "",
    output: OutputOption = Output.TABLE,
) -> None:
    """Mark the cause of an incident right or wrong, dismiss the incident, comment on it, or assign it.

    A rule that is often marked wrong stops naming causes; see `leadline show rules`. A dismissed incident sends no
    alerts.
    """
    if to and what is not Mark.ASSIGNED:
        raise typer.BadParameter(f"only an incident that is assigned has one: leadline mark {incident} assigned")
    why = to if what is Mark.ASSIGNED else reason
    said = {"incident": incident, "mark": what.value, "entity": entity, "rule": rule, "reason": why}
    found = Client(server).post("/api/v1/marks", {**said, "actor": _name()})
    if emit(found, output):
        return
    for row in found["marks"]:
        console().print(_told(row), soft_wrap=True)


def _told(row: Mapping[str, Any]) -> str:
    if row["mark"] == Mark.COMMENT:
        return f"{row['incident']}: {row['actor']} says: {row['reason']}"
    if row["mark"] == Mark.ASSIGNED:
        return f"{row['incident']}: assigned to {row['reason'] or 'nobody'} by {row['actor']}"
    about = f"{row['rule']} at {row['entity']}" if row["rule"] else f"the incident of {row['entity']}"
    return f"{row['incident']}: {about} is marked {row['mark']} by {row['actor']}"


def _name() -> str:
    """The user's name on this machine; empty where it has none, or one that the server does not take."""
    try:
        name = getpass.getuser()
    except (KeyError, OSError):
        return ""
    return name if re.fullmatch(r"[A-Za-z0-9._@-]{1,64}", name) else ""
