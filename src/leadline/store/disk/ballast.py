"""A file that holds space which nobody else can take: let go first when the disk is full, so that what the engine has
begun finds room until it is stopped."""

from __future__ import annotations

import contextlib
import os
import shutil
from pathlib import Path

BALLAST_BYTES = 128 << 20
"""What merges and appends that run write in the second until they have stopped: 100 MB/s is what two cores compress."""
NAME = "ballast"


class Ballast:
    """The file. Not thread-safe; every call is harmless at any time."""

    def __init__(self, directory: Path, size_bytes: int = BALLAST_BYTES) -> None:
        self._path, self._size_bytes = directory / NAME, size_bytes

    def take(self, floor_bytes: int) -> bool:
        """Hold the space, if more than an eighth over the floor stays free. Returns: whether it is held."""
        if self._path.exists():
            return True
        if shutil.disk_usage(self._path.parent).free < floor_bytes + floor_bytes // 8 + self._size_bytes:
            return False
        file = os.open(self._path, os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            os.posix_fallocate(file, 0, self._size_bytes)
        except OSError:
            self.release()
            return False
        finally:
            os.close(file)
        return True

    def release(self) -> None:
        """Let the space go."""
        with contextlib.suppress(OSError):
            self._path.unlink(missing_ok=True)
