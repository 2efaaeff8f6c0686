"""`--watch`: a verb that stays in the terminal and draws what it shows anew, until Ctrl-C."""

from __future__ import annotations

import io
import time
from collections.abc import Callable
from typing import Annotated

import typer
from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from leadline.cli.options import Output
from leadline.cli.output import console
from leadline.model.errors import LeadlineError, UsageError

EVERY_S_MIN = 0.5  # more often nothing new is there: windows are seconds long
WatchOption = Annotated[bool, typer.Option("--watch", "-w", help="Stay, and draw it anew until Ctrl-C.")]
EveryOption = Annotated[
    float, typer.Option("--every", min=EVERY_S_MIN, max=3600, help="With --watch: seconds between two drawings.")
]
Draw = Callable[[Console], None]


def refuse_unless_terminal(output: Output, out: Console) -> None:
    """Errors: UsageError where nothing can be drawn anew."""
    if output is not Output.TABLE:
        raise UsageError(f"--watch draws on a terminal; for --output {output} ask once, as often as it is needed")
    if not out.is_terminal:
        raise UsageError("--watch draws on a terminal; in a pipe ask without it, or with --output json")


def watch(draw: Draw, every_s: float, out: Console | None = None, sleep: Callable[[float], None] = time.sleep) -> None:
    """Draw every `every_s`, never more than half of the time that asking takes; Ctrl-C ends it and leaves the last.

    `draw` asks and prints. What fails after the first time is told under the last drawing, and it goes on.
    Errors: of the first drawing, LeadlineError.
    """
    out = out or console()
    began_s = time.monotonic()
    last, trouble = _drawn(draw, out.width), ""
    try:
        with Live(console=out, screen=True, auto_refresh=False, vertical_overflow="crop") as live:
            while True:
                live.update(
                    Group(Text(f"every {every_s:g} s, Ctrl-C ends  {trouble}", style="dim"), last), refresh=True
                )
                sleep(max(every_s, time.monotonic() - began_s))
                began_s = time.monotonic()
                try:
                    last, trouble = _drawn(draw, out.width), ""
                except LeadlineError as error:
                    trouble = str(error)
    except KeyboardInterrupt:
        out.print(last)  # the screen as it was before comes back: what was last seen stays in it


def _drawn(draw: Draw, width: int) -> Text:
    written = io.StringIO()
    draw(console(into=written, width=width))
    return Text.from_ansi(written.getvalue())
