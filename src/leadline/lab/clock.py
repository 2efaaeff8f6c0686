"""The wall clocks of a lab's machines, set wrong and read. How that is made: `faketime`."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from typing import TYPE_CHECKING

from leadline.lab.faketime import clock_file, require, variables, write_offset
from leadline.lab.levers import Lever
from leadline.model.errors import WorldError

if TYPE_CHECKING:
    from leadline.lab.running import RunningLab

_PROBE = """
import ctypes, time
class Time(ctypes.Structure):
    _fields_ = [("s", ctypes.c_long), ("ns", ctypes.c_long)]
libc, true, gaps = ctypes.CDLL(None), Time(), []
libc.syscall.restype = ctypes.c_long
NUMBER = {"x86_64": 228, "aarch64": 113}[__import__("os").uname().machine]
for _ in range(5):
    libc.syscall(NUMBER, 0, ctypes.byref(true))
    gaps.append(time.time_ns() - true.s * 10**9 - true.ns)
print(min(gaps, key=abs))
"""


def prepare(lab: RunningLab) -> None:
    """Give every machine of the lab a clock that can go wrong; before anything runs there. Errors: UsageError."""
    require()
    for machine, hosts in lab.cluster.topology.machines().items():
        if not clock_file(lab.state, machine).exists():
            write_offset(clock_file(lab.state, machine), 0.0)
        for host in hosts:
            link = lab.state / "hosts" / host.name / "clock"
            if not link.is_symlink():
                link.symlink_to(os.path.relpath(clock_file(lab.state, machine), link.parent))


def offset(lab: RunningLab, machine: str) -> Lever:
    """The offset of a machine's clock from the true one, in seconds: what several want of it adds up."""
    path = clock_file(lab.state, machine)
    return Lever(("clock", machine), sum, lambda seconds: write_offset(path, seconds or 0.0))


def read_offset_ns(lab: RunningLab, host: str) -> int:
    """How far a host's clock is ahead, in ns: a program there reads it, and beside it the kernel's. Errors: WorldError.

    Within some 10 us: the two are read one after the other.
    """
    told = variables(lab.state, host)
    if not told:
        return 0
    environment = {**os.environ, **told}
    argv = [sys.executable, "-S", "-c", _PROBE]
    run = partial(subprocess.run, argv, env=environment, capture_output=True, text=True, check=False, timeout=30)
    done = lab.cluster.call_in(host, run)
    if done.returncode != 0:
        raise WorldError(f"{host}: its clock cannot be read: {done.stderr.strip() or 'no word'}")
    return int(done.stdout)
