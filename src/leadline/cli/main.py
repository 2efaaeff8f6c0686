"""`leadline`: the verbs, listed. Errors become one line on standard error and an exit code."""

from __future__ import annotations

import signal
import sys
from typing import Annotated

import typer

from leadline import __version__
from leadline.cli import agent as agent_verb
from leadline.cli import config_verb, show
from leadline.cli import lab as lab_verb
from leadline.cli.backfill import backfill
from leadline.cli.compare import compare
from leadline.cli.diagnose import diagnose
from leadline.cli.doctor import doctor
from leadline.cli.explain import explain
from leadline.cli.mark import mark
from leadline.cli.record import record
from leadline.cli.replay import replay
from leadline.cli.sql import sql
from leadline.cli.status import status
from leadline.cli.top import top
from leadline.cli.up import up
from leadline.model.errors import LeadlineError, UsageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    help="Leadline finds what slows or breaks a distributed training job, and says how it knows.",
)
app.command()(up)
app.command(context_settings=agent_verb.SETTINGS)(agent_verb.agent)
app.command()(diagnose)
app.command()(doctor)
app.command()(status)
app.command()(top)
app.command()(sql)
app.command()(compare)
app.command()(explain)
app.command()(mark)
app.command()(record)
app.command()(replay)
app.command()(backfill)
app.add_typer(show.app, name="show")
app.add_typer(config_verb.app, name="config")
app.add_typer(lab_verb.app, name="lab")

EXIT_USAGE = 2
EXIT_WORLD = 3


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
    """Leadline finds what slows or breaks a distributed training job, and says how it knows."""


def main() -> None:
    """Entry point of the `leadline` command."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_DFL:  # while modules were loaded, see `leadline.cli`
        signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        app()
    except LeadlineError as error:
        print(f"leadline: {error}", file=sys.stderr)
        sys.exit(EXIT_USAGE if isinstance(error, UsageError) else EXIT_WORLD)


if __name__ == "__main__":
    main()
