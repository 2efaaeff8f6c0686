"""What of a round of evals is done: one line of JSON for each call that ended, appended as it ends.

    {"job": "lab", "key": "5d0c…", "state": "done", "seconds": 812.4, "figures": [...], "why": ""}

A call is done if its line says so with the same key: arguments, source, names and sizes of its data. So a round that
was interrupted or killed goes on with exactly what is missing, and a changed source takes all figures again.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import Any, Literal

import leadline

EVALS = Path(__file__).parent
LEFT_OUT = ("leadline/server/", "leadline/cli/")  # no figure depends on how it is shown


@dataclass(frozen=True, slots=True)
class Taken:
    """How one call ended."""

    job: str
    key: str
    state: Literal["done", "failed"]
    seconds: float
    figures: Sequence[Mapping[str, Any]]
    why: str = ""  # of a failure: the last line that it printed


class Journal:
    """The file. Errors: OSError if it cannot be written."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._taken: dict[tuple[str, str], Taken] = {}
        if path.exists():
            for line in path.read_text(errors="replace").splitlines():
                self._take(line)

    def done(self, job: str, key: str) -> Taken | None:
        """What a call said, if it ended well."""
        found = self._taken.get((job, key))
        return found if found is not None and found.state == "done" else None

    def write(self, taken: Taken) -> None:
        """Remember a call; on disk when this returns."""
        self._taken[taken.job, taken.key] = taken
        self._path.parent.mkdir(parents=True, exist_ok=True)
        whole = not self._path.exists() or self._path.read_bytes()[-1:] in (b"", b"\n")
        with self._path.open("a") as file:
            # A line that was cut off by a kill must not swallow the next one.
            file.write(("" if whole else "\n") + json.dumps(asdict(taken)) + "\n")
            file.flush()
            os.fsync(file.fileno())

    def _take(self, line: str) -> None:
        try:
            taken = Taken(**json.loads(line))
        except (ValueError, TypeError):
            return  # cut off by a kill, or of another version: that call is made again
        self._taken[taken.job, taken.key] = taken


def key_of(command: Sequence[str]) -> str:
    """What the figures of a call depend on: its arguments, the source, and the data that its arguments name."""
    whole = hashlib.sha256(_source().encode())
    for option, word in pairwise(("", *command)):
        whole.update(word.encode() + b"\0")
        if option in ("--data", "--incidents"):
            for path in _files(Path(word)):
                whole.update(f"{path.relative_to(word)} {path.stat().st_size}\n".encode())
    return whole.hexdigest()[:16]


def _files(folder: Path) -> Iterator[Path]:
    yield from sorted(each for each in folder.rglob("*") if each.is_file())


@cache
def _source() -> str:
    """Hash of Leadline and of the evals; of pictures, pages and compiled things not."""
    root = Path(leadline.__file__).parent
    whole = hashlib.sha256()
    for base in (root, EVALS):
        for path in _files(base):
            name = path.relative_to(base.parent).as_posix()
            if path.suffix in (".py", ".yaml", ".json", ".leadline") and not name.startswith(LEFT_OUT):
                whole.update(name.encode() + b"\0" + path.read_bytes())
    return whole.hexdigest()
