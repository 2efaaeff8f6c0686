"""`--token-file` and `--ca-file`, which every verb takes that asks a server; `verbs` adds them, `client` uses them."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any

import typer

from leadline.host.secret import CA_VARIABLE, FILE_VARIABLE


@dataclass
class Given:
    """What this call of `leadline` was given; one process is one call."""

    token_file: Path | None = None
    ca_file: Path | None = None


GIVEN = Given()


def _keep_token(value: Path | None) -> None:
    GIVEN.token_file = value


def _keep_ca(value: Path | None) -> None:
    GIVEN.ca_file = value


def _pattern(
    token_file: Annotated[
        Path | None,
        typer.Option(
            help=f"File with the token, if the server needs one ({FILE_VARIABLE}).",
            callback=_keep_token,
            expose_value=False,
        ),
    ] = None,
    ca_file: Annotated[
        Path | None,
        typer.Option(
            help=f"CA certificates (PEM) to verify an https server ({CA_VARIABLE}).",
            callback=_keep_ca,
            expose_value=False,
        ),
    ] = None,
) -> None:
    """A verb with these flags alone: what typer makes of it is what others get."""


def options() -> list[Any]:
    """The flags, to be added to a command."""
    app = typer.Typer(add_completion=False)
    app.command()(_pattern)
    names = ("token_file", "ca_file")
    return [each for each in typer.main.get_command(app).params if each.name in names]
