"""`leadline agent`: becomes the agent's own process, which loads neither this command line nor the server."""

from __future__ import annotations

import inspect
import os
import sys
from argparse import Action
from collections.abc import Callable
from typing import Annotated, Any

import typer

from leadline.host.main import parser
from leadline.model.programs import OWN_PYTHON

app = typer.Typer(add_completion=False)


def _agent(**given: Any) -> None:
    """Read this host's counters, links, kernel log and event rings, and send them to Leadline.

    All settings are in the section `agent` of leadline.yaml; these flags win.
    """
    arguments = []
    for action in _flags():
        value = given[action.dest]
        if value not in (None, False):
            arguments += [action.option_strings[0]] if action.nargs == 0 else [f"{action.option_strings[0]}={value}"]
    sys.stdout.flush()
    # The verbs' libraries take more memory than the agent may: a new program image has none of them.
    os.execv(sys.executable, [*OWN_PYTHON, "-m", "leadline.host.main", *arguments])


def _flags() -> list[Action]:
    """The flags of the agent's own parser, which is the one place that declares them."""
    return [action for action in parser()._actions if action.dest != "help"]


def _as_option(action: Action) -> inspect.Parameter:
    option = typer.Option(
        *action.option_strings,
        help=action.help,
        metavar=str(action.metavar) if action.metavar else None,
        show_default=False,
    )
    kind: Any = bool if action.nargs == 0 else action.type or str
    annotation: Any = Annotated[kind, option] if kind is bool else Annotated[kind | None, option]
    default = False if kind is bool else None
    return inspect.Parameter(action.dest, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=annotation)


def _with_flags(function: Callable[..., None]) -> Callable[..., None]:
    """The function with a parameter for each flag, as typer reads them: from its signature."""
    options = [_as_option(action) for action in _flags()]
    function.__signature__ = inspect.Signature(options)  # type: ignore[attr-defined]
    function.__annotations__ = {option.name: option.annotation for option in options}
    return function


app.command("agent")(_with_flags(_agent))
