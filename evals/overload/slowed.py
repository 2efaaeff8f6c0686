"""A server on a machine that is so many times too slow: its processes are stopped whenever they had their share.

Signals, not control groups: these need rights that a container often lacks, and are different on each system.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator

from bench.peers import cpu_s

TICK_S = 0.05  # the kernel counts CPU time in hundredths of a second


@contextlib.contextmanager
def slowed(pids: Callable[[], list[int]], cores: float) -> Iterator[None]:
    """Meanwhile processes take `cores` in the mean, whatever they want. They go on at its end."""
    over = threading.Event()
    thread = threading.Thread(target=_hold, args=(pids, cores, over), name="slowed", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _hold(pids: Callable[[], list[int]], cores: float, over: threading.Event) -> None:
    began, before_s, took_s = time.monotonic(), cpu_s(pids()), 0.0
    try:
        while not over.wait(TICK_S):
            now = pids()
            took_s = max(took_s, cpu_s(now) - before_s)  # a process that ended takes its time with it
            _signal(now, signal.SIGSTOP if took_s > cores * (time.monotonic() - began) else signal.SIGCONT)
    finally:
        _signal(pids(), signal.SIGCONT)


def _signal(pids: Iterable[int], what: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)
