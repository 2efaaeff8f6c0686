"""Writing a picture where the user wants it."""

from __future__ import annotations

from pathlib import Path

from leadline.cli.output import console
from leadline.model.errors import UsageError, WorldError


def save(path: Path, svg: str) -> None:
    """Write the file and say so. Errors: UsageError for a name that is no .svg, WorldError if it cannot be written."""
    if path.suffix != ".svg":
        raise UsageError(f"--svg: expected NAME.svg, got {path}")
    try:
        path.write_text(svg, encoding="utf-8")
    except OSError as error:
        raise WorldError(f"--svg: {path} cannot be written: {error.strerror}") from error
    console(stderr=True).print(f"drawn into {path}", style="dim")
