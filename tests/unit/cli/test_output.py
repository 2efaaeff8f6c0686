"""Texts of senders on a terminal: nothing in them makes it do anything."""

from __future__ import annotations

import csv
import io
import json
import re
import sys

import pytest
import yaml
from rich.text import Text

from leadline.cli.output import Output, console, emit, printable, table
from leadline.model.errors import UsageError

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


WIDE = [{"name": "gpu:GPU-be1914a2-b5fd-5d10-a041-070a0f6c1544", "state": "ok", "what": "a text of several words"}] * 2


def shown(columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> list[str]:
    """The table on a terminal of so many columns."""
    monkeypatch.setenv("COLUMNS", str(columns))
    monkeypatch.setattr(sys.stdout, "isatty", lambda: True)
    console().print(table(WIDE, ("name", "state", "what")))
    return re.sub("\x1b\\[[0-9;]*m", "", capsys.readouterr().out).splitlines()


@pytest.mark.parametrize("columns", [160, 70, 40])
def test_no_word_is_broken_however_narrow_the_terminal(
    columns: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = shown(columns, monkeypatch, capsys)
    assert all(len(line) <= columns for line in lines)
    assert sum("GPU-be1914a2-b5fd-5d10-a041-070a0f6c1544" in line for line in lines) == (2 if columns > 50 else 0)
    assert {"several", "words"} <= set(" ".join(lines).split())


def test_where_a_table_does_not_fit_each_row_names_what_it_says(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = [line.rstrip() for line in shown(56, monkeypatch, capsys)]
    assert lines[:2] == [f"- name {WIDE[0]['name']}", "  state ok   what a text of several words"]
    assert len(lines) == 4


def test_in_a_pipe_a_row_is_a_line_without_blanks_at_its_end(capsys: pytest.CaptureFixture[str]) -> None:
    console().print(table([{"a": "word " * 100, "b": ""}, {"a": "x", "b": "y"}], ("a", "b")))
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 4
    assert lines == [line.rstrip() for line in lines]


def test_csv_reads_back_and_runs_no_formula(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"name": "a,b", "is": True, "n": None}, {"name": "=1+1", "more": {"x": [1]}, "n": -1.5}]
    assert emit({"rows": rows}, Output.CSV, "rows")
    said = list(csv.DictReader(io.StringIO(capsys.readouterr().out)))
    assert said == [
        {"name": "a,b", "is": "true", "n": "", "more": ""},
        {"name": "'=1+1", "is": "", "n": "-1.5", "more": '{"x": [1]}'},
    ]
    with pytest.raises(UsageError, match="prints no table"):
        emit({"rows": rows}, Output.CSV)
