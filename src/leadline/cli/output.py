"""How every verb prints: a table for people, JSON or YAML for programs.

Names and messages come from senders. A terminal acts on control characters in them (change the title, write to the
clipboard, overwrite a line) and on marks that reverse the direction of text, so none of these reaches it.
"""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from leadline.cli.options import Output

STATE_STYLE = {"ok": "green", "warning": "yellow", "critical": "red", "unknown": "dim"}

# Wide enough for a table in a pipe or a log, where there is no terminal to ask.
PIPE_WIDTH = 160

# C0 and C1 but for tab and line feed, and what changes the direction of text (CVE-2021-42574).
_UNSAFE = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def printable(text: str) -> str:
    """The text with a visible escape (`\\u001b`) in place of each character that a terminal would act on."""
    return _UNSAFE.sub(lambda found: f"\\u{ord(found[0]):04x}", text)


class _Printable:
    """What is to be printed, its texts printable. Rich's own control codes are added after this."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for segment in console.render(self._renderable, options):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


class _OnlyPrintable(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(each) for each in renderables]


def console(stderr: bool = False) -> Console:
    """A console on stdout (or stderr) that is not squeezed to 80 columns when it is a pipe.

    Texts are printed as they are: brackets and colons in what a sender told us are no markup and no emoji.
    """
    stream = sys.stderr if stderr else sys.stdout
    made = Console(
        file=stream, width=None if stream.isatty() else PIPE_WIDTH, highlight=False, markup=False, emoji=False
    )
    made.push_render_hook(_OnlyPrintable())
    return made


def emit(answer: Mapping[str, Any], output: Output) -> bool:
    """Print `answer` as JSON or YAML; returns False where the caller is to print its table."""
    if output is Output.TABLE:
        return False
    if output is Output.JSON:
        # What json leaves unescaped (C1, directions) becomes its own escape, which reads back as the same text.
        sys.stdout.write(printable(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")
    else:
        text = yaml.safe_dump(dict(answer), sort_keys=False, allow_unicode=True)
        safe = printable(text) == text
        sys.stdout.write(text if safe else yaml.safe_dump(dict(answer), sort_keys=False))
    return True


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Sequence[str] = ()) -> Table:
    """A plain table of rows; `right` columns are numbers and stand to the right."""
    made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
    for column in columns:
        made.add_column(column, justify="right" if column in right else "left", overflow="fold")
    for row in rows:
        made.add_row(*[_cell(row.get(column)) for column in columns])
    return made


def _cell(value: Any) -> Text:
    if value is None:
        return Text("-", style="dim")
    if isinstance(value, Text):
        return value
    if isinstance(value, float):
        return Text(f"{value:.6g}")
    if isinstance(value, Mapping):
        return Text(", ".join(f"{name}={each}" for name, each in value.items()))
    if isinstance(value, (list, tuple, set)):
        return Text(", ".join(str(each) for each in value))
    return Text(str(value))


def ago(seconds: float | None) -> str:
    """A span as a person says it: `3 s`, `12 min`, `5 h`, `2 d`; `-` for None."""
    if seconds is None:
        return "-"
    for size, word in ((86400.0, "d"), (3600.0, "h"), (60.0, "min")):
        if abs(seconds) >= 2 * size:
            return f"{seconds / size:.0f} {word}"
    return f"{seconds:.1f} s" if abs(seconds) < 10 else f"{seconds:.0f} s"


def size(count: float) -> str:
    """Bytes as a person says them: `12 kB`, `3.4 MB`."""
    for factor, word in ((1e12, "TB"), (1e9, "GB"), (1e6, "MB"), (1e3, "kB")):
        if count >= factor:
            return f"{count / factor:.1f} {word}"
    return f"{count:.0f} B"


def when(time_ns: int | None) -> str:
    """A time in UTC to the second; `-` for None."""
    if time_ns is None:
        return "-"
    return datetime.fromtimestamp(time_ns / 1e9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def state_text(state: str) -> Text:
    """A state in its colour; the word itself carries the meaning."""
    return Text(state, style=STATE_STYLE.get(state, ""))
