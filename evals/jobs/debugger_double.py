"""A double of a debugger: holds a process as gdb does that attached to it, then lets it go on.

python -m evals.jobs.debugger_double PID SECONDS
"""

from __future__ import annotations

import ctypes
import os
import sys
import time
from pathlib import Path

SEIZE, INTERRUPT, DETACH = 0x4206, 0x4207, 17  # linux/ptrace.h
WALL = 0x40000000  # of waitpid: threads, too


def held(pid: int, seconds: float) -> None:
    """Stop every thread of a process for so long. Errors: OSError where it may not be traced."""
    libc = ctypes.CDLL(None, use_errno=True)
    libc.ptrace.argtypes = (ctypes.c_long, ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    threads = [int(each.name) for each in Path(f"/proc/{pid}/task").iterdir()]
    for thread in threads:
        for request in (SEIZE, INTERRUPT):
            if libc.ptrace(request, thread, None, None) < 0:
                raise OSError(ctypes.get_errno(), f"ptrace of {thread}")
        os.waitpid(thread, WALL)
    time.sleep(seconds)
    for thread in threads:
        libc.ptrace(DETACH, thread, None, None)


if __name__ == "__main__":
    held(int(sys.argv[1]), float(sys.argv[2]))
