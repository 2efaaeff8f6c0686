"""A rank that is stopped (it hangs) or crashes: by a real signal."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class _Signal(Fault):
    number: ClassVar[signal.Signals]

    job: str | None = None
    rank: int | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.rank is not None else replace(self, rank=lab.some_rank(self.job, rng))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = lab.rank(self.job, self.rank or 0)
        return (f"rank:{lab.job(self.job).name}/{one.rank}",)

    def start(self, lab: RunningLab) -> None:
        self._send(lab, self.number)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        process = lab.rank(self.job, self.rank or 0).process
        return {"state": state_of(process.pid), "exit": process.popen.poll()}

    def _send(self, lab: RunningLab, number: signal.Signals) -> None:
        process = lab.rank(self.job, self.rank or 0).process
        if process.popen.poll() is None:  # reaped: its number may be somebody else's
            os.kill(process.pid, number)


class Hang(_Signal):
    """SIGSTOP: the process is there and does nothing, as one that waits for a device for ever."""

    name = "sigstop"
    layer = "application"
    fault_class = "transient"
    number = signal.SIGSTOP

    def stop(self, lab: RunningLab) -> None:
        self._send(lab, signal.SIGCONT)


class Crash(_Signal):
    """SIGSEGV: the process dies as from a bug in native code."""

    name = "sigsegv"
    layer = "application"
    fault_class = "transient"
    lasts = False
    number = signal.SIGSEGV


def state_of(pid: int) -> str:
    """State letter of a process as in /proc/<pid>/stat (R, S, T, Z, ...), or "gone"."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"
