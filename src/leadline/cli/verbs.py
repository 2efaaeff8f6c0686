"""The verbs of `leadline`, each loaded when it is asked for: all of them together take more than a second to load."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import typer
from typer.core import TyperGroup

from leadline.cli import connecting
from leadline.cli.help.shown import dress, switches_without_type

VERBS: Mapping[str, str] = {
    "run": "leadline.cli.running.verb:app",
    "demo": "leadline.cli.demo.verb:demo",
    "up": "leadline.cli.up:up",
    "token": "leadline.cli.token:app",
    "agent": "leadline.cli.agent:app",
    "diagnose": "leadline.cli.diagnosis.diagnose:diagnose",
    "doctor": "leadline.cli.doctor.verb:doctor",
    "status": "leadline.cli.status:status",
    "top": "leadline.cli.top.top:top",
    "sql": "leadline.cli.sql:sql",
    "compare": "leadline.cli.compare:compare",
    "explain": "leadline.cli.explain:explain",
    "mark": "leadline.cli.mark:mark",
    "record": "leadline.cli.record:record",
    "replay": "leadline.cli.replay:replay",
    "backup": "leadline.cli.backup:backup",
    "restore": "leadline.cli.backup:restore",
    "import": "leadline.cli.import_trace:app",
    "backfill": "leadline.cli.backfill:backfill",
    "show": "leadline.cli.show.app:app",
    "config": "leadline.cli.config_verb:app",
    "lab": "leadline.cli.lab.app:app",
    "completion": "leadline.cli.manual.completion:app",
}
"""A function, or the Typer app of a verb with verbs of its own, by `module:NAME`."""

GROUPS: Mapping[str, tuple[str, ...]] = {
    "Every day": (
        "run",
        "demo",
        "up",
        "agent",
        "diagnose",
        "doctor",
        "status",
        "top",
        "show",
        "explain",
        "compare",
        "mark",
    ),
    "Data": ("sql", "record", "replay", "import", "backfill"),
    "Operation": ("token", "config", "backup", "restore", "completion"),
    "Lab": ("lab",),
}
"""How `--help` lists them: what most people need most comes first."""


class Verbs(TyperGroup):
    """The group of all verbs. (typer keeps its types of commands and contexts to itself.)"""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in order."""
        return [name for names in GROUPS.values() for name in names if name in VERBS]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """The verb of a name; None if there is none."""
        return _loaded(cmd_name) if cmd_name in VERBS else None

    def format_help(self, ctx: Any, formatter: Any) -> None:
        """The verbs in their groups."""
        switches_without_type(self, ctx)
        super().format_help(ctx, formatter)


def _loaded(name: str) -> Any:
    module, _, what = VERBS[name].partition(":")
    found: Any = getattr(import_module(module), what)
    if not isinstance(found, typer.Typer):
        found, alone = typer.Typer(add_completion=False), found
        found.command(name)(alone)
    command: Any = typer.main.get_command(found)
    command.name = name
    command.rich_help_panel = next(group for group, names in GROUPS.items() if name in names)
    _ask_by_token(command)
    dress(command, name)
    return command


def _ask_by_token(command: Any) -> None:
    """Every verb that asks a server (`--server`) also takes what is needed to connect from elsewhere."""
    for inner in getattr(command, "commands", {}).values():
        _ask_by_token(inner)
    names = {each.name for each in command.params}
    if "server" in names and "token_file" not in names:  # the agent has its own
        command.params += connecting.options()
