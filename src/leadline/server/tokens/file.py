"""The token file: hashes of secrets, for its owner only, read again when it changes.

Whoever could write it could make tokens, so its mode is 0600 and its directory is nobody else's to write. It is
replaced as a whole: a reader sees the old one or the new one.
"""

from __future__ import annotations

import fcntl
import logging
import os
import stat
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from leadline.model.errors import BusyError, ConfigError, DataError, LeadlineError, WorldError
from leadline.server.tokens.token import Token, read, written

log = logging.getLogger("leadline")

LOOK_EVERY_S = 1.0  # how often the file is looked at: a token that was revoked is good for no longer than this
FILE_BYTES_MAX = 8 << 20  # 10,000 tokens of 300 bytes are 3 MB
SETTING = "server.token_file"


class TokenFile:
    """The tokens of a running server. Safe for many threads."""

    def __init__(self, path: Path, monotonic: Callable[[], float] = time.monotonic) -> None:
        """Errors: ConfigError for a file that is not there, may be read by others, or holds no token."""
        self.path = path
        self._monotonic = monotonic
        self._lock = threading.Lock()
        self._looked = monotonic()
        try:
            self._mark, self._tokens = loaded(path)
        except LeadlineError as error:
            raise ConfigError(f"{SETTING}: {error}") from error
        self._problem = ""
        if not self._tokens:
            raise ConfigError(
                f"{SETTING}: {path} holds no token, so nobody could connect; make one with "
                f"`leadline token create me --role admin --token-file {path}`"
            )

    def tokens(self, look: bool = False) -> Sequence[Token]:
        """All tokens as they were at most LOOK_EVERY_S ago; with `look`, as they are now.

        Errors: BusyError while the file cannot be read: senders keep what they have and try again.
        """
        if look or self._monotonic() - self._looked >= LOOK_EVERY_S:
            with self._lock:
                self._look()
        if self._problem:
            raise BusyError(f"the server cannot read its token file ({self._problem}); its operator must mend it", 5)
        return self._tokens

    def _look(self) -> None:
        try:
            if _mark(self.path) != self._mark or self._problem:
                self._mark, self._tokens = loaded(self.path)
            self._problem = ""
        except (LeadlineError, OSError) as error:
            text = str(error) if isinstance(error, LeadlineError) else f"{self.path}: {error.strerror}"
            if text != self._problem:
                log.error("no token is taken: %s", text)
            self._problem = text
        self._looked = self._monotonic()


def loaded(path: Path) -> tuple[tuple[int, ...], tuple[Token, ...]]:
    """What tells this version of the file from others, and its tokens.

    Errors: WorldError if it cannot be read or others could change it, DataError for a text that is no token file.
    """
    try:
        file = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError as error:
        raise WorldError(
            f"{path}: {error.strerror}; `leadline token create NAME --role admin --token-file {path}` makes it"
        ) from error
    try:
        _require_private(path, os.fstat(file))
        mark = _mark_of(os.fstat(file))
        text = b""
        while len(text) <= FILE_BYTES_MAX and (chunk := os.read(file, 1 << 20)):
            text += chunk
    except OSError as error:
        raise WorldError(f"{path}: {error.strerror}") from error
    finally:
        os.close(file)
    if len(text) > FILE_BYTES_MAX:
        raise DataError(str(path), f"a token file of at most {FILE_BYTES_MAX} bytes", "more")
    return mark, read(text.decode("utf-8", "replace"), str(path))


def _require_private(path: Path, found: os.stat_result) -> None:
    """Errors: WorldError if anybody but its owner, or root, could read or replace the file."""
    if found.st_uid not in (os.geteuid(), 0):
        raise WorldError(f"{path}: expected a file of our own user or root, got one of user {found.st_uid}")
    if found.st_mode & 0o077:
        mode = stat.S_IMODE(found.st_mode)
        raise WorldError(f"{path}: expected a file for its owner only, got mode {mode:04o}; `chmod 600 {path}`")
    directory = path.parent.stat()
    if directory.st_mode & 0o022 and not directory.st_mode & stat.S_ISVTX:
        mode = stat.S_IMODE(directory.st_mode)
        raise WorldError(
            f"{path.parent}: others may replace files here (mode {mode:04o}); `chmod 700 {path.parent}`, or keep the "
            "token file elsewhere"
        )


def _mark(path: Path) -> tuple[int, ...]:
    return _mark_of(os.stat(path))


def _mark_of(found: os.stat_result) -> tuple[int, ...]:
    """Changes with the file's text, and with its rights."""
    return found.st_ino, found.st_mtime_ns, found.st_size, found.st_ctime_ns


def changed(path: Path, change: Callable[[Sequence[Token]], tuple[Token, ...]]) -> None:
    """Replace the tokens of a file by what `change` makes of them; it and its directory are made if they are not there.

    Errors: those of `change` and `loaded`; WorldError if it cannot be written.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _alone(path.parent):
            before = loaded(path)[1] if path.exists() else ()
            _replace(path, written(change(before)))
    except OSError as error:
        raise WorldError(f"{path}: cannot be written: {error.strerror}; name another with --token-file") from error


@contextmanager
def _alone(directory: Path) -> Iterator[None]:
    """Nobody else changes token files of this directory meanwhile."""
    file = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield
    finally:
        os.close(file)


def _replace(path: Path, text: str) -> None:
    draft = path.with_name(f".{path.name}.{os.getpid()}")
    save_private(draft, text)
    try:
        os.rename(draft, path)
    except OSError:
        draft.unlink(missing_ok=True)
        raise
    file = os.open(path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(file)
    finally:
        os.close(file)


def save_private(path: Path, text: str) -> None:
    """Write a new file for its owner only, down to the disk. Errors: OSError, also if it is there."""
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    try:
        data = text.encode()
        while data:
            data = data[os.write(file, data) :]
        os.fsync(file)
    except OSError:
        path.unlink(missing_ok=True)
        raise
    finally:
        os.close(file)
