"""A rank that is stopped (it hangs) or crashes: by a real signal."""

from __future__ import annotations

import os
import signal
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.base import RankFault
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class _Signal(RankFault):
    number: ClassVar[signal.Signals]

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"rank:{self.job}/{self.rank}",)

    def start(self, lab: RunningLab) -> None:
        self._send(lab, self.number)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        process = self.one(lab).process
        return {"state": state_of(process.pid), "exit": process.popen.poll()}

    def _send(self, lab: RunningLab, number: signal.Signals) -> None:
        process = self.one(lab).process
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
