"""Which processes use which emulated GPU, and how much: read from /proc, as a GPU's driver knows it by itself.

A process uses the GPU that its environment names in CUDA_VISIBLE_DEVICES, if it runs in the host's network namespace.
So whatever a lab runs is seen, without being asked to report itself.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from pathlib import Path

LOOK_AGAIN_S = 10.0  # a walk through /proc takes some ms; a rank that has ended is looked for sooner
LOOK_AGAIN_NONE_S = 3.0


@dataclass(slots=True)
class Use:
    """What the processes of one GPU did since the last reading: `busy_s` CPU wanted, memory held."""

    busy_s: float = 0.0
    memory_bytes: int = 0


@dataclass(slots=True)
class GpuProcesses:
    """The processes on one host's GPUs. `inode` is that of the host's network namespace."""

    inode: int
    uuids: tuple[str, ...]
    proc: Path = Path("/proc")
    _users: dict[str, set[int]] = field(default_factory=dict)
    _looked_s: float = float("-inf")
    _busy_ns: dict[int, int] = field(default_factory=dict)  # pid -> at the last reading

    def read(self, now_s: float) -> dict[str, Use]:
        """What each GPU's processes did since the last call."""
        alive = {pid for pids in self._users.values() for pid in pids if (self.proc / str(pid)).exists()}
        if now_s - self._looked_s >= (LOOK_AGAIN_S if alive else LOOK_AGAIN_NONE_S):
            self._users = self._look()
            self._looked_s = now_s
        busy_ns: dict[int, int] = {}
        uses = {}
        for uuid in self.uuids:
            use = uses[uuid] = Use()
            for pid in self._users.get(uuid, ()):
                now_ns = wanted_cpu_ns(self.proc, pid)
                if now_ns is None:
                    continue
                busy_ns[pid] = now_ns
                use.busy_s += max(0, now_ns - self._busy_ns.get(pid, now_ns)) / 1e9
                use.memory_bytes += resident_bytes(self.proc, pid)
        self._busy_ns = busy_ns
        return uses

    def _look(self) -> dict[str, set[int]]:
        users: dict[str, set[int]] = {}
        for entry in os.listdir(self.proc):
            if not entry.isdigit():
                continue
            try:
                if os.stat(f"{self.proc}/{entry}/ns/net").st_ino != self.inode:
                    continue
                environment = (self.proc / entry / "environ").read_bytes()
            except OSError:  # it has ended, or is not ours to look at
                continue
            for uuid in visible_devices(environment):
                if uuid in self.uuids:
                    users.setdefault(uuid, set()).add(int(entry))
        return users


def visible_devices(environment: bytes) -> list[str]:
    """The values of CUDA_VISIBLE_DEVICES in the bytes of /proc/PID/environ."""
    for variable in environment.split(b"\0"):
        if variable.startswith(b"CUDA_VISIBLE_DEVICES="):
            return [each.strip() for each in variable.partition(b"=")[2].decode(errors="replace").split(",")]
    return []


def wanted_cpu_ns(proc: Path, pid: int) -> int | None:
    """How long all threads of a process ran or waited for a CPU; None if it is gone.

    Waiting counts, because ranks of a lab share few cores: a GPU of its own would have been busy all that time.
    """
    total = 0
    try:
        threads = os.listdir(f"{proc}/{pid}/task")
    except OSError:
        return None
    for thread in threads:
        try:
            with open(f"{proc}/{pid}/task/{thread}/schedstat", "rb") as file:
                ran, waited, *_ = file.read().split()
        except (OSError, ValueError):  # the thread ended, or the kernel keeps no such statistics
            continue
        total += int(ran) + int(waited)
    return total


def resident_bytes(proc: Path, pid: int) -> int:
    """Resident memory of a process; 0 if it is gone."""
    try:
        with open(f"{proc}/{pid}/statm", "rb") as file:
            return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, IndexError, ValueError):
        return 0
