"""The commands that pages tell people to type: those of fenced `sh` and `console` blocks, and `leadline` within text.

In a `console` block a command follows `$ ` and its output is below it; in a `sh` block every line is a command. A line
that ends with a backslash goes on, and so does one with an open quote or a here-document.
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

_FENCE = re.compile(r"^ *```(\w*)\s*$")
_INLINE = re.compile(r"`(leadline [^`]+)`")
_HERE = re.compile(r"<<-?\s*'?(\w+)'?")
# Deeper ones are output: advice of `leadline diagnose` to copy.
_TYPED = re.compile(r" {0,4}(\$ |leadline [a-z]+(?: |$)|\.venv/bin/leadline )")
KINDS = ("sh", "console")
PROMPT = "$ "


@dataclass(frozen=True, slots=True)
class Command:
    """One command of a page, as it stands there; lines that go on are one."""

    page: Path
    line: int
    text: str


def commands(page: Path) -> list[Command]:
    """Every command in the fenced blocks of a page, in order."""
    found: list[Command] = []
    for kind, first, lines in fenced(page):
        if kind in KINDS:
            found += [Command(page, at, text) for at, text in _joined(lines, first, kind == "console")]
    return found


def inline(page: Path) -> list[Command]:
    """Every `leadline ...` in the text of a page, which may leave out what a command needs."""
    lines = page.read_text().splitlines()
    for _, first, block in fenced(page):  # blanked, so that lines keep their numbers
        lines[first - 1 : first - 1 + len(block)] = [""] * len(block)
    text = "\n".join(lines)
    return [
        Command(page, text.count("\n", 0, match.start()) + 1, " ".join(match[1].split()))
        for match in _INLINE.finditer(text)
    ]


def hidden(page: Path) -> list[Command]:
    """What looks like a command in a block of no language, where nobody looks for it."""
    return [
        Command(page, at, line)
        for kind, first, lines in fenced(page)
        if not kind
        for at, line in enumerate(lines, first)
        if _TYPED.match(line)
    ]


def fenced(page: Path) -> Iterator[tuple[str, int, list[str]]]:
    """Each fenced block of a page: its language, the number of its first line, its lines."""
    language, first, inside = "", 0, None
    for at, line in enumerate(page.read_text().splitlines(), 1):
        fence = _FENCE.match(line)
        if fence and inside is None:
            language, first, inside = fence[1], at + 1, list[str]()
        elif fence and inside is not None:
            yield language, first, inside
            inside = None
        elif inside is not None:
            inside.append(line)


def _joined(lines: Iterable[str], first: int, prompted: bool) -> Iterator[tuple[int, str]]:
    """The commands among `lines` with their line numbers."""
    held, begun, here = "", first, ""
    for at, line in enumerate(lines, first):
        if held:
            held += "\n" + line
        elif prompted:
            if not line.strip().startswith(PROMPT):
                continue  # output
            held, begun = line.strip().removeprefix(PROMPT), at
        elif line.strip() and not line.strip().startswith("#"):
            held, begun = line.strip(), at
        else:
            continue
        here = here or next((match[1] for match in [_HERE.search(held)] if match), "")
        if here and line.strip() != here:
            continue
        if here or not _goes_on(held):
            yield begun, held.replace("\\\n", " ")
            held, here = "", ""
    assert not held, f"a command that does not end: {held}"


def _goes_on(text: str) -> bool:
    if text.endswith("\\"):
        return True
    try:
        shlex.split(text, comments=True)
    except ValueError:  # an open quote
        return True
    return False
