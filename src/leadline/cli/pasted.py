"""Commands that are printed to be pasted: with the program as this shell finds it, and the server that is meant."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path

from leadline.cli.options import SERVER_VARIABLE
from leadline.server.config import load


def pasted(verb: str, url: str = "") -> str:
    """`doctor` as it is typed here: `leadline doctor`, `.venv/bin/leadline doctor --server http://127.0.0.1:9440`.

    `url`: the server that the command is to ask; a verb asks another one by itself if that is not the usual one here.
    """
    usual = os.environ.get(SERVER_VARIABLE) or load(None, os.environ).server.url
    return f"{program()} {verb}" + (f" --server {url}" if url not in ("", usual) else "")


def program() -> str:
    """What starts this program: `leadline`, where that is what the shell finds; else its path, or the module."""
    ours, found = Path(sys.argv[0]), shutil.which("leadline")
    if ours.name != "leadline":  # `make up` runs the module
        ours = Path(sys.executable).parent / "leadline"
        if not ours.exists():
            return "leadline" if found else f"{Path(sys.executable).name} -m leadline.cli.main"
    if found and (not ours.exists() or os.path.samefile(found, ours)):
        return "leadline"
    return str(ours.relative_to(Path.cwd()) if ours.is_relative_to(Path.cwd()) else ours)
