"""`leadline`: the verbs, listed. Errors become one line on standard error and an exit code."""

from __future__ import annotations

import os
import signal
import sys
from typing import Annotated

import typer

from leadline import __version__
from leadline.cli.compiled import compiled_code
from leadline.cli.exits import exit_of
from leadline.cli.options import ASKED, Output
from leadline.cli.verbs import Verbs
from leadline.model.errors import LeadlineError

app = typer.Typer(
    cls=Verbs,
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Finds what slows or breaks a distributed training job, and shows the evidence.",
)


def _print_version(wanted: bool) -> None:
    if wanted:
        print(f"leadline {__version__}")
        raise typer.Exit


@app.callback()
def _leadline(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Finds what slows or breaks a distributed training job, and shows the evidence."""


def main() -> None:
    """Entry point of the `leadline` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # while modules were loaded, see `leadline.cli`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    ASKED.output = Output.TABLE
    os.environ |= compiled_code(os.environ)
    try:
        app()
    except LeadlineError as error:
        _tell(error)
        sys.exit(exit_of(error))


def _tell(error: LeadlineError) -> None:
    """One line on standard error; for a program that asked for JSON or YAML, an object in place of the answer."""
    if ASKED.output in (Output.JSON, Output.YAML):
        from leadline.cli.output import emit  # as every verb has by now

        told = {"message": str(error), "kind": type(error).__name__, "exit_code": exit_of(error)}
        emit({"schema": 1, "error": told}, ASKED.output)
    else:
        print(f"leadline: {error}", file=sys.stderr)


if __name__ == "__main__":
    main()
