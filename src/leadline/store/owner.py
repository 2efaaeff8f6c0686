"""One owner per embedded store: a lock on a file that says who holds it."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from leadline.model.errors import StoreError, StoreLockedError

LOCK_FILE = "owner.lock"


class Owner:
    """The right to open the embedded store under `path`.

    The lock is flock's: it dies with the process however that ends, so a lock file left behind means nothing.
    """

    def __init__(self, path: str) -> None:
        self._path = Path(path)
        self._file: int | None = None

    def take(self) -> None:
        """Errors: StoreLockedError if somebody holds it, StoreError if the directory cannot be used."""
        assert self._file is None, "taken twice"
        try:
            is_ours = not self._path.exists() or (self._path / LOCK_FILE).exists()
            self._path.mkdir(parents=True, exist_ok=True)
            if is_ours:
                _keep_private(self._path)
            file = os.open(self._path / LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise StoreError(
                f"store.path {self._path}: expected a directory that can be written, got {error.strerror}; "
                f"give this user the right to write it, or set store.path to another directory"
            ) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.pread(file, 4096, 0).decode(errors="replace").strip() or "a process that is starting"
            os.close(file)
            raise StoreLockedError(
                f"the store at {self._path} is in use by {holder}; one process has an embedded store: ask that one "
                f"(--server and its address), stop it, or choose another directory with --data-dir (store.path)"
            ) from None
        os.ftruncate(file, 0)
        os.pwrite(file, f"pid {os.getpid()} ({_command()})\n".encode(), 0)
        self._file = file

    def give_back(self) -> None:
        """Let the next one open the store."""
        if self._file is not None:
            os.ftruncate(self._file, 0)
            os.close(self._file)
            self._file = None


def _command() -> str:
    return " ".join([Path(sys.argv[0]).name, *sys.argv[1:10]])[:200]


def _keep_private(directory: Path) -> None:
    """Let nobody but its owner into a store: the engine makes files that all may read, with the rows of all tenants.

    A directory that somebody else made for us, or uses too, is left as it is. Errors: OSError.
    """
    found = directory.stat()
    if found.st_uid == os.geteuid() and found.st_mode & 0o077:
        directory.chmod(0o700)
