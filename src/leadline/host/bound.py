"""A child process that ends with its parent, even if the parent is killed."""

from __future__ import annotations

import os
import signal
import sys

PR_SET_PDEATHSIG = 1

_BOUND = (
    "import ctypes, os, signal, sys; "
    f"ctypes.CDLL(None).prctl({PR_SET_PDEATHSIG}, int(signal.{signal.SIGTERM.name})); "
    # The parent may have died before the line above: then we are somebody else's child already.
    "os.getppid() == int(sys.argv[1]) or sys.exit(1); "
    "os.execvp(sys.argv[2], sys.argv[2:])"
)


def bound_to_parent(command: list[str]) -> list[str]:
    """`command`, wrapped so that the kernel ends it (SIGTERM) when the process that starts it is gone.

    A wrapper that sets the death signal and then becomes the command: unlike `preexec_fn` it is safe beside threads.
    """
    return [sys.executable, "-I", "-c", _BOUND, str(os.getpid()), *command]
