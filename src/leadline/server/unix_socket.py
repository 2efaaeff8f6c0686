"""The API on a UNIX socket (`server.socket`): for agents that share our disk but not our network.

A path reaches across network namespaces, where loopback does not. Only our own user may connect (mode 0600), so it
asks for no more than loopback does.
"""

from __future__ import annotations

import os
import socket
import stat
from pathlib import Path

from leadline.model.errors import WorldError
from leadline.server.sockets import BACKLOG

PROBE_S = 1.0  # a server that is alive accepts at once: the kernel does it for it
_SETTING = "server.socket"


class SocketFile:
    """A listening socket and its name in the file system; `remove` takes the name away again."""

    def __init__(self, path: Path) -> None:
        """Listen at a path; what a dead server left there is removed.

        Errors: WorldError if another server listens there, if something else has the name, or if it cannot be made.
        """
        self.path = path
        _make_way(path)
        self.listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        before = os.umask(0o177)  # 0600 from the first moment on; chmod after bind would leave a gap
        try:
            self.listener.bind(str(path))
            self.listener.listen(BACKLOG)
        except OSError as error:
            self.listener.close()
            text = error.strerror or str(error)  # a path too long has no strerror
            raise WorldError(f"cannot listen at {path} ({_SETTING}): {text}; choose another path") from error
        finally:
            os.umask(before)
        self._identity = _identity(path)

    def remove(self) -> None:
        """Close the socket and take its name away, unless another server has it by now."""
        self.listener.close()
        if _identity(self.path) == self._identity:
            self.path.unlink(missing_ok=True)


def _make_way(path: Path) -> None:
    """Remove a socket that nobody listens at. Errors: WorldError for anything else that has the name."""
    try:
        found = os.lstat(path)
    except FileNotFoundError:
        return
    except OSError as error:
        raise WorldError(f"cannot look at {path} ({_SETTING}): {error.strerror}; choose another path") from error
    if not stat.S_ISSOCK(found.st_mode):
        raise WorldError(f"{path} ({_SETTING}) is there and is no socket; move it away, or choose another path")
    if _is_live(path):
        raise WorldError(f"another server listens at {path} ({_SETTING}); stop it, or choose another path for this one")
    path.unlink(missing_ok=True)


def _is_live(path: Path) -> bool:
    """Whether somebody listens there. Only a refused connection says that nobody does."""
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
        probe.settimeout(PROBE_S)
        try:
            probe.connect(str(path))
        except (ConnectionRefusedError, FileNotFoundError):
            return False
        except OSError:  # full backlog, no permission: somebody's
            return True
        return True


def _identity(path: Path) -> tuple[int, int] | None:
    try:
        found = os.lstat(path)
    except OSError:
        return None
    return found.st_dev, found.st_ino
