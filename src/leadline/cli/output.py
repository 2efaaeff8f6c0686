"""How every verb prints: a table for people; JSON, YAML or CSV for programs.

Names and messages come from senders. A terminal acts on control characters in them (change the title, write to the
clipboard, overwrite a line) and on marks that reverse the direction of text, so none of these reaches it.
"""

from __future__ import annotations

import csv
import io
import json
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import yaml
from rich.box import SIMPLE_HEAD
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.segment import Segment
from rich.table import Table
from rich.text import Text

from leadline.cli.options import Output
from leadline.cli.texts import printable
from leadline.model.errors import UsageError

STATE_STYLE = {"ok": "green", "warning": "yellow", "critical": "red", "unknown": "dim"}

# In a pipe a row is a line, however long: `grep` and `cut` read lines. A number, because rich wants one.
PIPE_WIDTH = 10_000

TIME_CHARS = 20  # of `2026-11-20 20:21:20Z`
BETWEEN = 3  # columns of a table are this far apart, as rich draws them
_FORMULA = ("=", "+", "-", "@", "\t", "\r")


class _Printable:
    """What is to be printed, its texts printable. Rich's own control codes are added after this."""

    def __init__(self, renderable: ConsoleRenderable) -> None:
        self._renderable = renderable

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        segments = console.render(self._renderable, options)
        for segment in segments if console.is_terminal else _without_trailing_blanks(segments):
            yield segment if segment.control else Segment(printable(segment.text), segment.style)


def _without_trailing_blanks(segments: Iterable[Segment]) -> Iterator[Segment]:
    """The same lines without what cells were filled up with at their end. The last line may go on, so it stays."""
    line: list[Segment] = []
    for segment in segments:
        *ended, rest = segment.text.split("\n")
        for part in ended:
            line.append(Segment(part, segment.style))
            yield from _right_stripped(line)
            yield Segment("\n")
            line = []
        line.append(Segment(rest, segment.style, segment.control))
    yield from line


def _right_stripped(line: list[Segment]) -> list[Segment]:
    while line and not line[-1].control and not line[-1].text.rstrip():
        line.pop()
    return [*line[:-1], Segment(line[-1].text.rstrip(), line[-1].style, line[-1].control)] if line else []


class _OnlyPrintable(RenderHook):
    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        return [_Printable(each) for each in renderables]


def console(stderr: bool = False, into: io.StringIO | None = None, width: int = 0) -> Console:
    """A console on stdout (or stderr) that is not squeezed to 80 columns when it is a pipe.

    `into`: a text in place of them, in colours and `width` columns wide. What is printed stays as it is: brackets and
    colons in what a sender told us are no markup and no emoji.
    """
    stream = into or (sys.stderr if stderr else sys.stdout)
    made = Console(
        file=stream, width=width or (None if stream.isatty() else PIPE_WIDTH), highlight=False, markup=False,
        emoji=False, force_terminal=True if into else None, color_system="standard" if into else "auto",
    )  # fmt: skip
    made.push_render_hook(_OnlyPrintable())
    return made


def emit(answer: Mapping[str, Any], output: Output, rows: str = "") -> bool:
    """Print `answer` as JSON, YAML or CSV; returns False where the caller is to print its table.

    `rows`: the list in the answer that CSV consists of. Errors: UsageError for CSV of an answer that has none.
    """
    if output is Output.TABLE:
        return False
    if output is Output.CSV:
        if not rows:
            raise UsageError("--output csv: this verb prints no table; use json or yaml")
        sys.stdout.write(csv_text(answer[rows], answer.get("columns") if rows == "rows" else None))
    elif output is Output.JSON:
        # What json leaves unescaped (C1, directions) becomes its own escape, which reads back as the same text.
        sys.stdout.write(printable(json.dumps(answer, indent=2, ensure_ascii=False)) + "\n")
    else:
        text = yaml.safe_dump(dict(answer), sort_keys=False, allow_unicode=True)
        safe = printable(text) == text
        sys.stdout.write(text if safe else yaml.safe_dump(dict(answer), sort_keys=False))
    return True


def csv_text(rows: Sequence[Mapping[str, Any]], columns: Sequence[str] | None = None) -> str:
    """Rows as CSV (RFC 4180) with a head line, values as the API gives them; lists and mappings as JSON.

    Text that a spreadsheet would run as a formula is kept text by a leading apostrophe, as in the page's files.
    """
    names = list(columns) if columns is not None else list(dict.fromkeys(name for row in rows for name in row))
    text = io.StringIO()
    writer = csv.writer(text)
    writer.writerow(names)
    writer.writerows([_csv_cell(row.get(name)) for name in names] for row in rows)
    return printable(text.getvalue().replace("\r\n", "\n"))


def _csv_cell(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, (Mapping, list, tuple)):
        return json.dumps(value, ensure_ascii=False)
    return f"'{value}" if isinstance(value, str) and value[:1] in _FORMULA else str(value)


class Rows:
    """A plain table of rows that never breaks a word; where a terminal is too narrow, each row is a few lines that name
    what they say. In a pipe a row is one line, however long.
    """

    def __init__(self, rows: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Sequence[str] = ()) -> None:
        self.columns = list(columns)
        self._right = right
        self.cells = [[_cell(row.get(column)) for column in columns] for row in rows]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        least = [self._widest(place, self._kept_whole(column)) for place, column in enumerate(self.columns)]
        room = options.max_width - BETWEEN * (len(self.columns) - 1)
        if sum(least) > room:
            yield from self._blocks(console, options.max_width)
        else:
            yield self._table(self._widths(least, room))

    def _widths(self, least: list[int], room: int) -> list[int]:
        """Of columns that together take no more than `room`: the widest give way first, none below its longest word."""
        widths = [self._widest(place, str.splitlines) for place in range(len(self.columns))]
        while sum(widths) > room:
            gives = max((place for place in range(len(widths)) if widths[place] > least[place]), key=widths.__getitem__)
            widths[gives] -= 1
        return widths

    def _table(self, widths: list[int]) -> Table:
        made = Table(box=SIMPLE_HEAD, pad_edge=False, show_edge=False)
        for column, width in zip(self.columns, widths, strict=True):
            made.add_column(column, justify="right" if column in self._right else "left", overflow="fold", width=width)
        for row in self.cells:
            made.add_row(*row)
        return made

    def _kept_whole(self, column: str) -> Callable[[str], list[str]]:
        """What is not broken: words, and a number with its unit or a time (`37.6 s`, `2026-11-20 20:21:20Z`)."""

        def parts(text: str) -> list[str]:
            is_number = text != column and (column in self._right or (text[:1].isdigit() and len(text) <= TIME_CHARS))
            return text.splitlines() if is_number else text.split()

        return parts

    def _widest(self, place: int, parts: Callable[[str], list[str]]) -> int:
        """The widest part (word, line) of a column."""
        texts = [self.columns[place], *(row[place].plain for row in self.cells)]
        return max((cell_len(part) for text in texts for part in parts(text)), default=0)

    def _blocks(self, console: Console, width: int) -> Iterator[Text]:
        """Each row as few lines: its columns that are not empty, each with its name, none torn apart if it fits."""
        for row in self.cells:
            lines = [Text("- ")]
            for column, cell in zip(self.columns, row, strict=True):
                if cell.plain in ("", "-"):
                    continue
                item = Text.assemble((f"{column} ", "dim"), Text(" ").join(cell.split()))
                if cell_len(lines[-1].plain) + cell_len(item.plain) > width and len(lines[-1].plain) > 2:
                    lines.append(Text("  "))
                first, *more = item.wrap(console, width - 4)
                lines[-1] = Text.assemble(lines[-1], first, "   ")
                lines += [Text.assemble("    ", each, "   ") for each in more]
            yield Text("\n").join(lines)


def table(rows: Sequence[Mapping[str, Any]], columns: Sequence[str], right: Sequence[str] = ()) -> Rows:
    """A plain table of rows; `right` columns are numbers and stand to the right."""
    return Rows(rows, columns, right)


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
    return datetime.fromtimestamp(time_ns // 10**9, UTC).strftime("%Y-%m-%d %H:%M:%SZ")


def precisely(time_ns: int | None) -> str | None:
    """A time in UTC to the microsecond, which is as far as a clock is worth reading; None for None."""
    return None if time_ns is None else f"{when(time_ns)[:-1]}.{time_ns % 10**9 // 1000:06d}Z"


def state_text(state: str) -> Text:
    """A state in its colour; the word itself carries the meaning."""
    return Text(state, style=STATE_STYLE.get(state, ""))
