"""How every verb shows its `--help`: shared options apart, no type beside a switch, examples at the end."""

from __future__ import annotations

from typing import Any

from leadline.cli.help.examples import EXAMPLES

SHARED = ("server", "token_file", "ca_file", "cluster", "config", "output")
"""Options that many verbs take: below those of the verb itself."""
SHARED_PANEL = "Server and output"


def dress(command: Any, path: str) -> None:
    """Make a verb, and those below it, show their help this way. `path`: the verb as it is typed, `show ledger`."""
    for name, inner in getattr(command, "commands", {}).items():
        dress(inner, f"{path} {name}".strip())
    for option in command.params:
        if option.name in SHARED and option.param_type_name == "option":
            option.rich_help_panel = SHARED_PANEL
    shown = command.format_help

    def format_help(context: Any, formatter: Any) -> None:
        switches_without_type(command, context)
        shown(context, formatter)
        _print_examples(path)

    command.format_help = format_help


def switches_without_type(command: Any, context: Any) -> None:
    """Show no type beside the options of a command that take no value, its `--help` among them."""
    for option in command.get_params(context):
        if getattr(option, "is_flag", False):
            option.display_type_rich = _no_type


def _no_type(ctx: Any) -> None:
    """A switch takes no value, so it shows no type."""


def _print_examples(path: str) -> None:
    lines = EXAMPLES.get(path, ())
    if lines:
        from leadline.cli.output import console  # here: a Tab of the shell loads this module and prints no help

        out = console()
        out.print(" Examples", style="dim")
        for line in lines:
            command, mark, about = line.partition("  # ")
            out.print(f"   {command}", end="", soft_wrap=True)
            out.print(f"{mark}{about}", style="dim", soft_wrap=True)
        out.print()
