"""The processes of ranks: processor time, memory, bytes read and written, and whether somebody stopped them.

A process that a signal stopped (SIGSTOP) stands still and nobody knows why; one that a debugger holds is looked at by a
person. The kernel tells them apart: the second is in a tracing stop, or has a tracer while it is stopped. It is looked
at as often as the rings are, because a rank that stands still is missed within seconds. A debugger is told as of the
look before: it may have held the process since then, and a job that a person looks at is not blamed for that second.

Told under OpenTelemetry's names (`process.cpu.time`), of the entity `process:<host>/<pid>`; which rank that is, is a
relation.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

from leadline.host.found import Event, Found, Labels, Sample, Stream
from leadline.host.sources.access import Access, Grant, host_processes, of_others, opened
from leadline.host.sources.site import TICKS_PER_S, RankSeen, Site, numbers_by_name, read_if_there
from leadline.host.sources.source import Source

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOPPED, TRACED = "T", "t"  # states in /proc/<pid>/stat: proc_pid_stat(5)
PROCESS, DEBUGGER = "process", "debugger"  # by whom a process is held
# Seconds since the last look within which what jobs tell waits for the next. Source: judgement; a busy host was seen to
# look 2.8 s late, and a source that hangs shall not hold all jobs back.
LATE_S = 5.0


class Stat(NamedTuple):
    """What /proc/<pid>/stat tells."""

    state: str
    user_s: float
    system_s: float
    threads: int
    resident_bytes: int
    major_faults: int


def _io(site: Site) -> str:
    """Read what another user's process read and wrote. Errors: PermissionError."""
    return of_others(site, lambda pid: opened(site.config.proc_root / str(pid) / "io"))


class Ranks(Source):
    """Every rank's process."""

    name = "ranks"
    reports = (
        "processor time, memory, bytes of each rank's process; who holds it: a signal (SIGSTOP), or a debugger (a "
        "tracing stop)"
    )
    told_as = "`process.*`; events `process-stopped`, `process-continued`, `debugger-begin`, `debugger-end`"
    accesses = (
        Access(
            "processes of the host",
            host_processes,
            "CPU, memory, exit and cgroup of a rank's process are unknown, and so is who stopped it",
            Grant(
                "CAP_SYS_PTRACE",
                "no ProtectProc=invisible in its unit; /proc without hidepid; podman or docker run --pid host",
                "hostPID: true",
            ),
            ("process-stopped", "never-came", "program-failed", "killed"),
        ),
        Access(
            "bytes read and written by other users' processes",
            _io,
            "which rank reads or writes heavily is unknown",
            Grant("CAP_SYS_PTRACE"),
            ("memory-pressure",),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._held: dict[int, str] = {}  # pid -> by whom
        self._sampled_ns = 0
        self._looked_ns = site.now_ns()

    @property
    def every_s(self) -> float:
        return self.site.config.ring_interval_s

    def poll(self, now_ns: int) -> Found:
        found = Found()
        before_ns, self._looked_ns = min(self._looked_ns, now_ns), now_ns
        self._held = {pid: by for pid, by in self._held.items() if pid in self.site.ranks}
        # Half a look early, or it would slip by one look whenever the clock runs a little behind.
        is_due = abs(now_ns - self._sampled_ns) > (self.site.config.interval_s - self.every_s / 2) * 1e9
        self._sampled_ns = now_ns if is_due else self._sampled_ns
        for pid, rank in self.site.ranks.items():
            directory = self.site.config.proc_root / str(pid)
            stat = parse_stat(read_if_there(directory / "stat"))
            if stat is None:
                continue  # it has ended; `exits` tells
            if is_due:
                found.samples += samples_of(pid, stat, parse_io(read_if_there(directory / "io")), now_ns)
            held, before = held_by(stat.state, directory / "status"), self._held.pop(pid, "")
            if held != before:
                since_ns = before_ns if held == DEBUGGER and not before else now_ns
                found.events += [_stop_event(rank, by, is_held, since_ns) for by, is_held in
                                 ((before, False), (held, True)) if by]  # fmt: skip
            if held:
                self._held[pid] = held
        return found

    @property
    def held_ns(self) -> int | None:
        """Since the last look a process may have been stopped."""
        is_late = abs(self.site.now_ns() - self._looked_ns) > LATE_S * 1e9
        return None if is_late or not self.site.ranks else self._looked_ns + 1


def parse_stat(text: bytes) -> Stat | None:
    """/proc/<pid>/stat. The name stands in brackets and may hold anything, brackets too."""
    fields = text.rpartition(b")")[2].split()
    try:
        return Stat(
            fields[0].decode("ascii"),
            int(fields[11]) / TICKS_PER_S,
            int(fields[12]) / TICKS_PER_S,
            int(fields[17]),
            int(fields[21]) * PAGE_BYTES,
            int(fields[9]),
        )
    except (IndexError, ValueError, OverflowError):
        return None


def parse_io(text: bytes) -> dict[str, int]:
    """/proc/<pid>/io: numbers by name."""
    return numbers_by_name(text, ":")


def samples_of(pid: int, stat: Stat, io: dict[str, int], now_ns: int) -> list[Sample]:
    """The samples of one process."""
    who: Labels = (("process.pid", str(pid)),)
    found = [
        (Stream("process.cpu.time", (*who, ("cpu.mode", "user")), True, "s"), stat.user_s),
        (Stream("process.cpu.time", (*who, ("cpu.mode", "system")), True, "s"), stat.system_s),
        (Stream("process.memory.usage", who, unit="bytes"), stat.resident_bytes),
        (Stream("process.thread.count", who, unit="1"), stat.threads),
        (Stream("process.paging.faults", (*who, ("process.paging.fault_type", "major")), True, "1"), stat.major_faults),
    ]
    for name, direction in (("read_bytes", "read"), ("write_bytes", "write")):
        if name in io:
            stream = Stream("process.disk.io", (*who, ("disk.io.direction", direction)), True, "bytes")
            found.append((stream, io[name]))
    return [Sample(stream, now_ns, value) for stream, value in found]


def held_by(state: str, status: Path) -> str:
    """Who holds a process in that state: a debugger, a signal sent to the process, or nobody (empty)."""
    if state == TRACED:
        return DEBUGGER
    if state != STOPPED:
        return ""
    return DEBUGGER if tracer(read_if_there(status)) else PROCESS


def tracer(text: bytes) -> int:
    """Who traces the process, from its /proc/<pid>/status; 0: nobody."""
    _, _, rest = text.partition(b"\nTracerPid:")
    number = rest.partition(b"\n")[0].strip()
    return int(number) if number.isdigit() else 0


def _stop_event(rank: RankSeen, by: str, is_held: bool, now_ns: int) -> Event:
    kind, severity, word = {
        (PROCESS, True): ("process-stopped", "error", "stopped"),
        (PROCESS, False): ("process-continued", "info", "running again"),
        (DEBUGGER, True): ("debugger-begin", "info", "held by a debugger"),
        (DEBUGGER, False): ("debugger-end", "info", "let go by the debugger"),
    }[by, is_held]
    text = f"rank {rank.rank} of {rank.job} (pid {rank.pid}) is {word}"
    return Event(now_ns, rank.entity, kind, severity, text, {"pid": str(rank.pid)}, "agent/ranks")
