"""Draw docs/img/up.svg: the terminal of `leadline up --demo` near the end of its story, as it really looked.

Needs root and tmux. Usage: `.venv/bin/python docs/picture.py` (takes 3 minutes; nothing else may use Leadline's ports).
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.text import Text

ROOT = Path(__file__).resolve().parent.parent
TARGET = ROOT / "docs" / "img" / "up.svg"
WIDTH, HEIGHT = 142, 33
NEAR_THE_END = " s slow-worker on"  # then, and a little later, the picture is taken
LATER_S, WATCH_S_MAX = 40, 400


def main() -> None:
    """Run the demo in a terminal of its own, copy its screen, draw it."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"cd {folder} && clear && echo '$ make up' && {sys.executable} -m leadline.cli.main up --demo"
        tmux = ["tmux", "-L", "leadline-picture"]
        subprocess.run(
            [*tmux, "new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "sh", "-c", command], check=True
        )
        try:
            deadline = time.monotonic() + WATCH_S_MAX
            while NEAR_THE_END not in _screen(tmux) and time.monotonic() < deadline:
                time.sleep(2)
            time.sleep(LATER_S)
            screen = _screen(tmux, "-e")
            subprocess.run([*tmux, "send-keys", "C-c"], check=True)
            while _lives(tmux) and time.monotonic() < deadline:  # the cluster is taken down, the store is closed
                time.sleep(1)
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(screen.rstrip()))
    TARGET.parent.mkdir(exist_ok=True)
    picture = console.export_svg(title="make up")
    # rich points to a font on somebody's server; the reader's own will do.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    TARGET.write_text(picture.replace("Fira Code", "ui-monospace"))


def _lives(tmux: list[str]) -> bool:
    return subprocess.run([*tmux, "has-session"], check=False, capture_output=True).returncode == 0


def _screen(tmux: list[str], *how: str) -> str:
    command = [*tmux, "capture-pane", "-p", *how]
    return subprocess.run(command, check=True, capture_output=True, text=True).stdout


if __name__ == "__main__":
    main()
