"""Where compiled code is kept by an account that has no place of its own, before anything loads numba."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import leadline


def compiled_code(environ: Mapping[str, str]) -> dict[str, str]:
    """Where numba keeps what it compiles, for an account that may write neither beside the source nor at home: without
    such a place it refuses to load. Nothing where it finds one by itself."""
    cache = environ.get("XDG_CACHE_HOME") or str(Path(environ.get("HOME", "/nonexistent")) / ".cache")
    if "NUMBA_CACHE_DIR" in environ or any(_may_write(Path(each)) for each in (leadline.__path__[0], cache)):
        return {}
    own = Path(environ.get("TMPDIR") or "/tmp") / f"leadline-compiled-{os.getuid()}"
    with suppress(OSError):
        own.mkdir(mode=0o700, exist_ok=True)
        found = own.lstat()
        if stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid():  # nobody else's code is loaded from there
            return {"NUMBA_CACHE_DIR": str(own)}
    return {}


def _may_write(path: Path) -> bool:
    """Whether files can be made in a folder, or it in one that there is. Never where one above may not be entered."""
    try:
        there = next((each for each in (path, *path.parents) if each.exists()), Path("/"))
    except PermissionError:  # after `su` or `sudo -u` HOME may be another's
        return False
    return os.access(there, os.W_OK | os.X_OK)
