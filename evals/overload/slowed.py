"""A server on a machine that is so many times too slow: its processes are stopped whenever they had their share.

Signals, not control groups: these need rights that a container often lacks, and are different on each system.
"""

from __future__ import annotations

import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable
from types import TracebackType
from typing import Self

from bench.peers import cpu_s

TICK_S = 0.05  # the kernel counts CPU time in hundredths of a second


class Slowed:
    """While it is open, processes take `cores` in the mean, whatever they want. They go on at its end."""

    def __init__(self, pids: Callable[[], list[int]], cores: float) -> None:
        self._pids, self._cores = pids, cores
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name="slowed", daemon=True)
        self.took_s = 0.0  # CPU, while it was open

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        began, before_s = time.monotonic(), cpu_s(self._pids())
        try:
            while not self._over.wait(TICK_S):
                pids = self._pids()
                self.took_s = max(self.took_s, cpu_s(pids) - before_s)  # a process that ended takes its time with it
                allowed_s = self._cores * (time.monotonic() - began)
                _signal(pids, signal.SIGSTOP if self.took_s > allowed_s else signal.SIGCONT)
        finally:
            _signal(self._pids(), signal.SIGCONT)


def _signal(pids: Iterable[int], what: signal.Signals) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, what)
