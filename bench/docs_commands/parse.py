"""Whether `leadline` knows the verbs and flags of the commands of pages, without running any."""

from __future__ import annotations

import functools
import re
import shlex
from argparse import ArgumentParser
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from bench.docs_commands.blocks import Command, commands, inline
from leadline.cli.main import app
from leadline.cli.running.run import parser as run_parser
from leadline.host.main import parser as agent_parser

ROOT = Path(__file__).resolve().parents[2]
HELP = ("-h", "--help")
# Verbs that read their flags without typer.
OWN_PARSERS: Mapping[str, Callable[[], ArgumentParser]] = {"agent": agent_parser, "run": run_parser}


@dataclass(frozen=True, slots=True)
class Failure:
    """A command of a page that does not do what the page says."""

    page: str
    line: int
    text: str
    why: str

    def __str__(self) -> str:
        return f"{self.page}:{self.line}: {self.text}\n    {self.why}"


def failure(command: Command, why: str) -> Failure:
    """What to report of a command."""
    page = command.page.relative_to(ROOT) if command.page.is_relative_to(ROOT) else command.page
    return Failure(str(page), command.line, command.text, why)


def unknown(pages: Iterable[Path]) -> list[Failure]:
    """The commands of `pages`, in blocks and within text, with a verb or flag that `leadline` does not have."""
    found = [(each, _unknown(each.text)) for page in pages for each in (*commands(page), *inline(page))]
    return [failure(command, why) for command, why in found if why]


def _unknown(text: str) -> str:
    """What is not known of a command; nothing if all is, or it is none of ours."""
    try:
        words = shlex.split(text, comments=True)
    except ValueError as error:
        return f"no shell takes it: {error}"
    while words and re.match(r"\w+=", words[0]):
        words = words[1:]
    if not words or not words[0].endswith("leadline"):
        return ""
    if words[1:2] and words[1] in OWN_PARSERS:
        known = {flag for each in OWN_PARSERS[words[1]]()._actions for flag in each.option_strings}
        return _unknown_flags(words[2:], known)
    command, rest = _command(), words[1:]
    while hasattr(command, "get_command") and rest and re.match(r"[a-z]", rest[0]):
        verb, rest = rest[0], rest[1:]
        command = command.get_command(None, verb)
        if command is None:
            return f"there is no verb {verb!r}"
    flags = {flag for each in command.params for flag in (*each.opts, *each.secondary_opts)}
    return _unknown_flags(rest, {*flags, *HELP})


@functools.cache
def _command() -> Any:
    return typer.main.get_command(app)


def _unknown_flags(words: Sequence[str], flags: Collection[str]) -> str:
    given = {word.partition("=")[0] for word in _before_dashes(words) if re.match(r"--?[a-z]", word)}
    missing = given.difference(flags)
    return f"there is no flag {', '.join(sorted(missing))}" if missing else ""


def _before_dashes(words: Sequence[str]) -> Sequence[str]:
    """What stands before `--`: the rest is another program's."""
    return words[: words.index("--")] if "--" in words else words
