"""Draw docs/img/up.svg: the terminal of `leadline up --demo` after half a minute, as it really looked.

Needs tmux. Usage: `.venv/bin/python docs/picture.py` (takes 40 s; nothing else may use Leadline's ports meanwhile).
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
WIDTH, HEIGHT = 142, 24
WATCH_S = 35


def main() -> None:
    """Run the demo in a terminal of its own, copy its screen, draw it."""
    with tempfile.TemporaryDirectory() as folder:
        command = f"cd {folder} && clear && echo '$ make up' && {sys.executable} -m leadline.cli.main up --demo"
        tmux = ["tmux", "-L", "leadline-picture"]
        subprocess.run(
            [*tmux, "new-session", "-d", "-x", str(WIDTH), "-y", str(HEIGHT), "sh", "-c", command], check=True
        )
        try:
            time.sleep(WATCH_S)
            screen = subprocess.run([*tmux, "capture-pane", "-p", "-e"], check=True, capture_output=True, text=True)
            subprocess.run([*tmux, "send-keys", "C-c"], check=True)
            time.sleep(4)
        finally:
            subprocess.run([*tmux, "kill-server"], check=False, capture_output=True)
    console = Console(record=True, width=WIDTH, file=io.StringIO())
    console.print(Text.from_ansi(screen.stdout.rstrip()))
    TARGET.parent.mkdir(exist_ok=True)
    picture = console.export_svg(title="make up")
    # rich points to a font on somebody's server; the reader's own will do.
    picture = re.sub(r"@font-face \{.*?\}\s*", "", picture, flags=re.DOTALL)
    TARGET.write_text(picture.replace("Fira Code", "ui-monospace"))


if __name__ == "__main__":
    main()
