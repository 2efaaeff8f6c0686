"""Texts of senders on a terminal: nothing in them makes it do anything."""

from __future__ import annotations

import json

import pytest
import yaml
from rich.text import Text

from leadline.cli.output import Output, console, emit, printable, table

HOSTILE = "a\x1b]52;c;ZXZpbA==\x07b\x9b31mc\u202ed\re\x00"
ESCAPED = "a\\u001b]52;c;ZXZpbA==\\u0007b\\u009b31mc\\u202ed\\u000de\\u0000"
ACTS = set("\x1b\x07\x9b\u202e\r\x00")


def test_each_character_that_a_terminal_acts_on_becomes_its_escape() -> None:
    assert printable(HOSTILE) == ESCAPED
    assert printable("tab\tline\nümlaut 日本 🙂") == "tab\tline\nümlaut 日本 🙂"


@pytest.mark.parametrize(
    "shown", [HOSTILE, Text(HOSTILE), table([{"n": HOSTILE}], ("n",))], ids=["text", "Text", "table"]
)
def test_nothing_that_is_printed_has_one(shown: object, capsys: pytest.CaptureFixture[str]) -> None:
    console().print(shown)
    said = capsys.readouterr().out
    assert not ACTS & set(said)
    assert "ZXZpbA==" in said


def test_colours_of_our_own_stay(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    console().print(Text("good", style="green"))
    assert "\x1b[32mgood" in capsys.readouterr().out


@pytest.mark.parametrize(("form", "read"), [(Output.JSON, json.loads), (Output.YAML, yaml.safe_load)])
def test_programs_read_back_what_was_there(form: Output, read: object, capsys: pytest.CaptureFixture[str]) -> None:
    assert emit({"name": HOSTILE, "plain": "ü"}, form)
    said = capsys.readouterr().out
    assert not ACTS & set(said)
    assert read(said) == {"name": HOSTILE, "plain": "ü"}  # type: ignore[operator]
