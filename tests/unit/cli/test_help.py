"""Every verb shows in `--help` what it is for, in its group, with examples that can be typed."""

from __future__ import annotations

import shlex
from typing import Any

import pytest
import typer
from tests.unit.cli.conftest import Run

from leadline.cli.help.examples import EXAMPLES
from leadline.cli.main import app
from leadline.cli.verbs import GROUPS, VERBS


def verbs(command: Any, path: str = "") -> dict[str, Any]:
    """Every verb that does something, by its words."""
    if not hasattr(command, "list_commands"):
        return {path: command}
    inner = (verbs(command.get_command(None, name), f"{path} {name}".strip()) for name in command.list_commands(None))
    return {name: each for some in inner for name, each in some.items()}


ALL = verbs(typer.main.get_command(app))
TYPED = [(name, line) for name, lines in EXAMPLES.items() for line in lines]


def test_every_verb_has_an_example_and_every_example_a_verb() -> None:
    assert EXAMPLES.keys() == ALL.keys()
    assert all(EXAMPLES.values())


@pytest.mark.parametrize(("name", "line"), TYPED, ids=[line for _, line in TYPED])
def test_an_example_parses(name: str, line: str) -> None:
    """Known flags with values of their types, no argument missing or too many; it is not run."""
    words = shlex.split(line.partition("  # ")[0].partition(" < ")[0].partition(" > ")[0])
    start = ["leadline", *name.split()]
    assert words[: len(start)] == start
    ALL[name].make_context(name, words[len(start) :])


def test_every_verb_is_in_one_group() -> None:
    grouped = [name for names in GROUPS.values() for name in names]
    assert sorted(grouped) == sorted(VERBS)


@pytest.mark.parametrize("name", ALL)
def test_help_prints_the_examples_plainly_and_no_type_beside_a_switch(leadline_cli: Run, name: str) -> None:
    ran = leadline_cli(*name.split(), "--help")
    assert ran.code == 0
    assert [line for line in EXAMPLES[name] if f"   {line}\n" not in ran.out] == []
    assert "<bool>" not in ran.out


def test_verbs_are_listed_by_group_what_is_used_daily_first(leadline_cli: Run) -> None:
    out = leadline_cli("--help").out
    assert out.index("Every day") < out.index(" diagnose ") < out.index("Data") < out.index("Operation")
    show = leadline_cli("show", "--help").out
    assert show.index(" incidents ") < show.index("Under the hood") < show.index(" symptoms ")
