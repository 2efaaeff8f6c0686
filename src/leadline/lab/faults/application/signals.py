"""Ranks that are stopped (they hang) or crash: by real signals."""

from __future__ import annotations

import signal
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.lab.faults.background import later
from leadline.lab.faults.ranks import RanksFault
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import RankProcess, signal_process
from leadline.model.errors import UsageError

STOPPED_S_MAX = 1.0  # a thread in the middle of a system call stops when that is done


@dataclass(frozen=True, slots=True)
class Hang(RanksFault):
    """SIGSTOP: the process is there and does nothing, as one that waits for a device for ever."""

    name = "sigstop"
    layer = "application"
    fault_class = "transient"
    signal = "stopped"
    magnitudes: ClassVar = {"small": {"hang_s": 4.0}, "large": {"ranks": 3}}

    hang_s: float = 0.0  # it goes on by itself after that; 0: when it is mended
    _now: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        RanksFault.check(self, topology)
        if self.hang_s < 0:
            raise UsageError(f"sigstop: hang_s must be seconds >= 0, got {self.hang_s}")

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.hold(lab.stopped(one), self, True)
        self._now["stopped"] = sum(_has_stopped(one) for one in self.befallen(lab))
        if self.hang_s:
            ranks = self.befallen(lab)
            self._now["later"] = later("hang-ends", self.hang_s, lambda: self._go_on(lab, ranks))

    def stop(self, lab: RunningLab) -> None:
        try:
            if "later" in self._now:
                self._now.pop("later").end()
        finally:
            self._go_on(lab, self.befallen(lab))

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        one = self.one(lab).process
        return {"stopped": self._now.get("stopped", 0), "state": state_of(one.pid), "exit": one.popen.poll()}

    def _go_on(self, lab: RunningLab, ranks: list[RankProcess]) -> None:
        for one in ranks:
            lab.release(lab.stopped(one), self)


@dataclass(frozen=True, slots=True)
class Crash(RanksFault):
    """SIGSEGV: the process dies as from a bug in native code."""

    name = "sigsegv"
    layer = "application"
    fault_class = "transient"
    lasts = False
    signal = "segfaults"
    magnitudes: ClassVar = {"small": {"ranks": 1}, "large": {"ranks": 4}}

    ranks: int = 2

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            signal_process(one.process, signal.SIGSEGV)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        one = self.one(lab).process
        exits = [each.process.popen.poll() for each in self.befallen(lab)]
        return {
            "segfaults": exits.count(-signal.SIGSEGV),
            "exits": [each.process.popen.poll() for each in lab.ranks(self.job)],
            "state": state_of(one.pid),
        }


def state_of(pid: int) -> str:
    """State letter of a process as in /proc/<pid>/stat (R, S, T, Z, ...), or "gone"."""
    try:
        with open(f"/proc/{pid}/stat") as file:
            return file.read().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return "gone"


def _has_stopped(one: RankProcess) -> bool:
    return one.process.popen.poll() is None and has_stopped(one.process.pid)


def has_stopped(pid: int) -> bool:
    """Whether the kernel says that a process has stopped, within `STOPPED_S_MAX`."""
    deadline = time.monotonic() + STOPPED_S_MAX
    while (state := state_of(pid)) not in ("T", "Z", "X", "gone") and time.monotonic() < deadline:
        time.sleep(0.01)
    return state == "T"
