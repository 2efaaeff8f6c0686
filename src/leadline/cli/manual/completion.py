"""`leadline completion`: a script with which a shell completes verbs, flags, and the names of jobs and incidents."""

from __future__ import annotations

from typing import Annotated

import typer

from leadline.cli.connecting import GIVEN
from leadline.cli.manual.known import LISTED, known
from leadline.cli.options import ServerOption
from leadline.model.errors import UsageError

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    help="Print a script that completes verbs, flags, jobs and incidents in a shell.",
)


@app.command("bash")
def bash() -> None:
    """Print the script for bash 4.4 or newer.

    Keep it: `leadline completion bash > ~/.local/share/bash-completion/completions/leadline`.
    """
    from leadline.cli.manual.bash import script
    from leadline.cli.manual.commands import program  # loads every verb, which what is asked at each Tab does not

    print(script(program()), end="")


@app.command("zsh")
def zsh() -> None:
    """Print the script for zsh.

    Keep it in a directory of fpath: `leadline completion zsh > ~/.zfunc/_leadline`.
    """
    from leadline.cli.manual.commands import program
    from leadline.cli.manual.zsh import script

    print(script(program()), end="")


@app.command("fish")
def fish() -> None:
    """Print the script for fish 3 or newer.

    Keep it: `leadline completion fish > ~/.config/fish/completions/leadline.fish`.
    """
    from leadline.cli.manual.commands import program
    from leadline.cli.manual.fish import script

    print(script(program()), end="")


@app.command("names", hidden=True)
def names(what: Annotated[str, typer.Argument(help=f"One of {', '.join(LISTED)}.")], server: ServerOption = "") -> None:
    """Print names of the last hour, one a line; nothing if no server answers. The scripts call it."""
    if what not in LISTED:
        raise UsageError(f"completion names: expected one of {', '.join(LISTED)}, got {what!r}")
    for name in known(what, server, GIVEN.token_file, GIVEN.ca_file):
        print(name)
