"""How far the analysis of a recording is: a bar on a terminal, elsewhere a line every quarter. On standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn

from leadline.cli.output import console

LINE_EVERY = 0.25  # of a recording: four lines in a log


@contextmanager
def analysing(path: Path) -> Iterator[Callable[[float], None]]:
    """What to call with the share (0 to 1) that is analysed."""
    from leadline.server.background.kernels import ANALYSES, is_compiled  # loads numba

    out = console(stderr=True)
    if not is_compiled(ANALYSES):
        out.print("compiling the analyses as they are needed, once on this machine: about a minute", style="dim")
    if not out.is_terminal:
        yield _Lines(path)
        return
    columns = (TextColumn("analysing {task.description}"), BarColumn(), TaskProgressColumn())
    with Progress(*columns, console=out, transient=True) as bar:
        task = bar.add_task(path.name, total=1.0)
        yield lambda share: bar.update(task, completed=share)


class _Lines:
    def __init__(self, path: Path) -> None:
        self._path, self._next = path, LINE_EVERY
        console(stderr=True).print(f"analysing {path} ...", style="dim")

    def __call__(self, share: float) -> None:
        if share >= self._next:
            console(stderr=True).print(f"analysing {self._path}: {share:.0%} of the recording", style="dim")
            self._next = (share // LINE_EVERY + 1) * LINE_EVERY
