"""The processes of ranks: processor time, memory, bytes read and written, and whether somebody stopped them.

Told under OpenTelemetry's names (`process.cpu.time`), of the entity `process:<host>/<pid>`; which rank that is, is a
relation.
"""

from __future__ import annotations

import os
from typing import NamedTuple

from leadline.host.found import Event, Found, Labels, Sample, Stream
from leadline.host.sources.site import TICKS_PER_S, RankSeen, Site, read_if_there
from leadline.host.sources.source import Source

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
STOPPED = frozenset({"T", "t"})


class Stat(NamedTuple):
    """What /proc/<pid>/stat tells."""

    state: str
    user_s: float
    system_s: float
    threads: int
    resident_bytes: int
    major_faults: int


class Ranks(Source):
    """Every rank's process."""

    name = "ranks"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._stopped: set[int] = set()

    def poll(self, now_ns: int) -> Found:
        found = Found()
        self._stopped &= self.site.ranks.keys()
        for pid, rank in self.site.ranks.items():
            directory = self.site.config.proc_root / str(pid)
            stat = parse_stat(read_if_there(directory / "stat"))
            if stat is None:
                continue  # it has ended; `exits` tells
            found.samples += samples_of(pid, stat, parse_io(read_if_there(directory / "io")), now_ns)
            is_stopped = stat.state in STOPPED
            if is_stopped != (pid in self._stopped):
                self._stopped ^= {pid}
                found.events.append(_stop_event(rank, is_stopped, now_ns))
        return found


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
    except (IndexError, ValueError):
        return None


def parse_io(text: bytes) -> dict[str, int]:
    """/proc/<pid>/io: numbers by name."""
    found = {}
    for line in text.decode("latin-1").splitlines():
        name, _, value = line.partition(":")
        if value.strip().isdigit():
            found[name] = int(value)
    return found


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


def _stop_event(rank: RankSeen, is_stopped: bool, now_ns: int) -> Event:
    kind, severity, word = (
        ("process-stopped", "error", "stopped") if is_stopped else ("process-continued", "info", "running again")
    )
    text = f"rank {rank.rank} of {rank.job} (pid {rank.pid}) is {word}"
    return Event(now_ns, rank.entity, kind, severity, text, {"pid": str(rank.pid)}, "agent/ranks")
