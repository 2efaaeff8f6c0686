"""`python -m leadline.cli.manual SHARE`: man pages and completion, where programs look for them below a directory such
as /usr/share or ~/.local/share. The date of the pages is SOURCE_DATE_EPOCH, where that is set."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

from leadline.cli.manual import bash, fish, man, zsh
from leadline.cli.manual.commands import Command, program


def files(whole: Command, date: str) -> dict[str, str]:
    """Each file's text by its path below the directory."""
    return {f"man/man1/{name}": text for name, text in man.pages(whole, date).items()} | {
        "bash-completion/completions/leadline": bash.script(whole),
        "zsh/vendor-completions/_leadline": zsh.script(whole),
        "fish/vendor_completions.d/leadline.fish": fish.script(whole),
    }


def main() -> None:
    """Write them."""
    if len(sys.argv) != 2:
        sys.exit("usage: python -m leadline.cli.manual SHARE")
    epoch_s = int(os.environ.get("SOURCE_DATE_EPOCH") or time.time())
    for name, text in files(program(), time.strftime("%Y-%m-%d", time.gmtime(epoch_s))).items():
        path = Path(sys.argv[1]) / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)


if __name__ == "__main__":
    main()
