"""The statements that make tables, as the engine keeps them: copies of our own, and those that were cut off made whole.

    opened, altered, each 10 s    *.sql ── whole ──> copied to definitions/
    before opening, each 10 s     *.sql ── cut off ──> written anew from its copy

The engine writes such a file anew with each ALTER, goes on after a write that failed (chDB 26.9), and then cannot open
the store any more: no table of it. `disk.watch` alters tables just when space is short. A copy may be older than what
was cut off, by a setting or a column, which the next start brings in.
"""

from __future__ import annotations

import contextlib
import logging
import os
import threading
from collections.abc import Iterator
from pathlib import Path

log = logging.getLogger("leadline.store")

COPIES = "definitions"
_LAST_LINE = (b"SETTINGS ", b"ENGINE ")  # of a table, of a database


def is_whole(text: bytes) -> bool:
    """Whether a definition ends as the engine ends one."""
    return text.endswith(b"\n") and text[:-1].rpartition(b"\n")[2].startswith(_LAST_LINE)


class Definitions:
    """Those of an embedded store. Thread-safe; harmless at any time."""

    def __init__(self, path: Path) -> None:
        self._path, self._copies = path, path / COPIES
        self._lock = threading.RLock()

    def keep(self) -> None:
        """Copy what is whole, make whole what is not, forget tables that are gone. What fails now is done again by the
        next call."""
        with self._lock:
            self._keep_all()

    def _keep_all(self) -> None:
        names = set()
        for file in self._files():
            names.add(file.relative_to(self._path))
            with contextlib.suppress(OSError):
                self._keep(file)
        for copy in list(self._copies.rglob("*.sql")):
            if copy.relative_to(self._copies) not in names:
                copy.unlink(missing_ok=True)

    def mend(self) -> None:
        """Make whole what is cut off, before the engine reads it. Errors: OSError if it cannot be written."""
        with self._lock:
            for copy in list(self._copies.rglob("*.sql")):
                file = self._path / copy.relative_to(self._copies)
                if file.exists() and not is_whole(file.read_bytes()):
                    self._mend(file)

    def _files(self) -> Iterator[Path]:
        yield from self._path.glob("metadata/*.sql")
        yield from self._path.glob("store/*/*/*.sql")

    def _keep(self, file: Path) -> None:
        text, copy = file.read_bytes(), self._copies / file.relative_to(self._path)
        if not is_whole(text):
            self._mend(file)
        elif not copy.exists() or copy.read_bytes() != text:
            copy.parent.mkdir(parents=True, exist_ok=True)
            self._write(copy, text)

    def _mend(self, file: Path) -> None:
        copy = self._copies / file.relative_to(self._path)
        text = copy.read_bytes() if copy.exists() else b""
        if is_whole(text):
            self._write(file, text)
            log.error("%s was cut off, as if a write had failed; it was written anew from %s", file, copy)

    def _write(self, file: Path, text: bytes) -> None:
        """All of it or nothing; what is unfinished does not lie where the engine looks. Errors: OSError."""
        partial = self._copies / "partial"
        try:
            with partial.open("wb") as opened:
                opened.write(text)
                opened.flush()
                os.fsync(opened.fileno())
            os.replace(partial, file)
        except OSError:
            partial.unlink(missing_ok=True)
            raise
