"""All verbs with their flags and operands as data, read from the commands themselves: nothing is written twice."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, StrEnum
from pathlib import Path
from typing import Any

import typer

from leadline.cli.main import app
from leadline.cli.running.run import parser as run_parser
from leadline.host.main import parser as agent_parser

PROGRAM = "leadline"
PARSED = {"agent": agent_parser, "run": run_parser}
"""Verbs whose flags typer does not know, because they replace this process by one that reads them itself."""


class Kind(StrEnum):
    """What a value may be, beside the words that are listed."""

    ANY = ""
    FILES = "files"
    JOBS = "jobs"
    INCIDENTS = "incidents"


@dataclass(frozen=True, slots=True)
class Flag:
    """One flag under all its names, the long one first."""

    names: tuple[str, ...]
    help: str
    value: str = ""  # what stands for its value, such as FILE; empty for a switch
    words: tuple[str, ...] = ()  # the values it takes, where these are listed
    kind: Kind = Kind.ANY
    default: str = ""
    variable: str = ""  # of the environment, which is used where the flag is not given


@dataclass(frozen=True, slots=True)
class Operand:
    """A value that is known by its place."""

    name: str
    help: str
    required: bool
    many: bool
    words: tuple[str, ...] = ()
    kind: Kind = Kind.ANY


@dataclass(frozen=True, slots=True)
class Command:
    """A verb, or the program itself (its path is empty), with the verbs below it."""

    path: tuple[str, ...]
    text: str  # paragraphs with empty lines between them; one that begins with "\b" is as it stands
    flags: tuple[Flag, ...]
    operands: tuple[Operand, ...] = ()
    commands: tuple[Command, ...] = ()

    @property
    def summary(self) -> str:
        """Its first paragraph, in one line."""
        return " ".join(self.text.partition("\n\n")[0].split())

    def all(self) -> list[Command]:
        """Itself and all below it, in the order of `--help`."""
        return [self, *(each for command in self.commands for each in command.all())]


HELP = Flag(("--help", "-h"), "Show this message and exit.")


def program() -> Command:
    """`leadline` with all that is below it. Loads every verb, which takes a second."""
    return _command(typer.main.get_command(app), ())


def _command(found: Any, path: tuple[str, ...]) -> Command:
    text = "\n\n".join(filter(None, [(found.help or "").partition("\f")[0].strip(), (found.epilog or "").strip()]))
    if path[-1:] and path[-1] in PARSED:
        return Command(path, text, tuple(_parsed_flag(each) for each in PARSED[path[-1]]()._actions))
    shown = [each for each in found.params if not each.hidden]
    flags = tuple(_flag(each) for each in shown if each.param_type_name == "option")
    operands = tuple(_operand(each) for each in shown if each.param_type_name == "argument")
    return Command(path, text, (*flags, HELP), operands, tuple(_below(found, path)))


def _below(found: Any, path: tuple[str, ...]) -> Sequence[Command]:
    if not hasattr(found, "list_commands"):
        return ()
    context = typer.Context(found)
    named = [(name, found.get_command(context, name)) for name in found.list_commands(context)]
    return [_command(each, (*path, name)) for name, each in named if not each.hidden]


def _flag(found: Any) -> Flag:
    names = tuple(sorted((*found.opts, *found.secondary_opts), key=lambda name: not name.startswith("--")))
    if found.is_flag:
        return Flag(names, found.help or "")
    words, kind = _words(found), _kind(found)
    value = found.metavar or ("|".join(words) if words else "FILE" if kind is Kind.FILES else found.name.upper())
    default = found.default if found.show_default and not callable(found.default) else None
    return Flag(names, found.help or "", value, words, kind, _plain(default), found.envvar or "")


def _operand(found: Any) -> Operand:
    return Operand(found.name.upper(), found.help or "", found.required, found.nargs == -1, _words(found), _kind(found))


def _words(found: Any) -> tuple[str, ...]:
    return tuple(_plain(each) for each in found.type_descriptor.choices or ())


def _kind(found: Any) -> Kind:
    if found.name in ("job", "incident"):
        return Kind(f"{found.name}s")
    many = found.type_descriptor.is_list and Path in getattr(found.type_descriptor.annotation, "__args__", ())
    return Kind.FILES if found.type_descriptor.is_path or many else Kind.ANY


def _plain(value: Any) -> str:
    """A default as it is typed; empty where there is nothing to say."""
    return str(value.value if isinstance(value, Enum) else value) if value not in (None, "", False, [], ()) else ""


def _parsed_flag(found: argparse.Action) -> Flag:
    names = tuple(sorted(found.option_strings, key=lambda name: not name.startswith("--")))
    text = (found.help or "").strip()
    if text.split(" ")[0].rstrip(",").isalpha():  # argparse's manner is no capital and no full stop; not of an address
        text = f"{text[:1].upper()}{text[1:]}"
    text = f"{text.rstrip('.')}."
    if found.nargs == 0:
        return Flag(names, text)
    metavar = found.metavar if isinstance(found.metavar, str) else found.dest.upper()
    files = found.type is Path or found.dest.endswith(("_file", "_dir", "spool"))
    return Flag(names, text, metavar, kind=Kind.FILES if files else Kind.ANY)
