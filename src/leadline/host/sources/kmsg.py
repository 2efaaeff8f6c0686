"""The kernel's log, as it is written: the lines that say something about a GPU, a link, memory or the machine.

/dev/kmsg gives a record per read; a regular file (the lab's, one per emulated host) holds the same records, one per
line. Records are numbered by the kernel, so nothing is told twice after a restart of the agent; what was logged before
the agent's first start is told, too, with its own time. Time: the kernel counts from its boot.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from collections.abc import Sequence

from leadline.host.found import Event, Found
from leadline.host.sources.access import Access, Grant
from leadline.host.sources.site import Site
from leadline.host.sources.source import Source
from leadline.wire.kernel_log.events import event_rows, gpu_named
from leadline.wire.kernel_log.kmsg import LogLine, read_kmsg

RECORD_BYTES_MAX = 8192  # of one record; the kernel gives no longer ones
READ_BYTES_MAX = 256 * 1024  # in one go; the rest comes with the next
GPUS_MAX = 64
MARK = "kmsg/"  # and the boot: numbers begin anew with it


def _log(site: Site) -> str:
    """Open the kernel log and read a record. Errors: OSError, WorldError for the /dev/null of a container."""
    path = site.config.kmsg
    handle = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if stat.S_ISCHR(os.fstat(handle).st_mode) and not os.read(handle, RECORD_BYTES_MAX):
            raise PermissionError(f"{path} is empty: this container was not given the host's")
    except OSError as error:
        # A log without a record is one, and so is one of which a record was overwritten meanwhile.
        if error.errno not in (errno.EAGAIN, errno.EPIPE):
            raise
    finally:
        os.close(handle)
    return str(path)


class Kmsg(Source):
    """Events of the kernel log."""

    name = "kmsg"
    reports = "the kernel log"
    told_as = "events, [as they are recognised](../formats/kmsg.md)"
    accesses = (
        Access(
            "kernel log",
            _log,
            "GPU errors (Xid), OOM kills, machine checks, PCIe errors, hung tasks and disk errors are not seen",
            Grant("CAP_SYSLOG", "`sysctl kernel.dmesg_restrict=0`", "agent.privileged=true, which mounts /dev/kmsg"),
            ("gpu-lost", "gpu-memory", "nvlink-errors", "gpu-pcie", "machine-check", "oom-kill", "io-hang"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._handle = os.open(site.config.kmsg, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        self._is_device = stat.S_ISCHR(os.fstat(self._handle).st_mode)
        self._mark = f"{MARK}{site.boot_id}"
        kept = site.mark(self._mark)
        self._last = int(kept) if kept.isdigit() else -1
        self._rest = b""  # an unfinished last line
        self._gpus: dict[str, str] = {}  # UUIDs by PCI address, as the log itself tells them

    @property
    def every_s(self) -> float:
        """A file does not tell that it has grown: it is looked at as often as the rings are."""
        config = self.site.config
        return config.interval_s if self._is_device else config.ring_interval_s

    def watched(self) -> Sequence[int]:
        return (self._handle,) if self._is_device else ()

    def ready(self, handle: int, now_ns: int) -> Found:
        return self.poll(now_ns)

    def poll(self, now_ns: int) -> Found:
        more = self._records() if self._is_device else self._text()
        data = self._rest + more
        boot_ns = now_ns - time.clock_gettime_ns(time.CLOCK_MONOTONIC)
        read = read_kmsg(data, boot_ns)
        self._rest = data[read.consumed :][-RECORD_BYTES_MAX:]
        self._learn(read.lines)  # the lines before our mark, too: after a restart they are all that names the GPUs
        lines = [line for line in read.lines if line.sequence > self._last]
        if not lines:
            return Found()
        self._last = max(line.sequence for line in lines)
        events = parse_events(lines, self.site.host, self.site.clock, self._gpus)
        return Found(events=events, mark=(self._mark, str(self._last)))

    def close(self) -> None:
        os.close(self._handle)

    def _learn(self, lines: Sequence[LogLine]) -> None:
        """Which GPU has which PCI address."""
        for line in lines:
            if "NVRM: GPU at" in line.text and len(self._gpus) < GPUS_MAX:
                self._gpus.update(gpu_named(line.text))

    def _records(self) -> bytes:
        """What the device has: a record with each read."""
        parts: list[bytes] = []
        while sum(map(len, parts)) < READ_BYTES_MAX:
            try:
                part = os.read(self._handle, RECORD_BYTES_MAX)
                if not part:  # no kernel log: a container has /dev/null in its place
                    self._is_device = False
                    break
                parts.append(part)
            except BlockingIOError:
                break
            except OSError as error:
                if error.errno != errno.EPIPE:  # overwritten before we read it; the next read goes on behind it
                    raise
                self.site.counts.add("agent_lost", "kmsg_overrun")
        return b"".join(parts)

    def _text(self) -> bytes:
        """What the file has grown by; from its beginning where it was cut short."""
        if os.fstat(self._handle).st_size < os.lseek(self._handle, 0, os.SEEK_CUR):
            os.lseek(self._handle, 0, os.SEEK_SET)
            self._rest, self._last = b"", -1
        return os.read(self._handle, READ_BYTES_MAX)


def parse_events(lines: Sequence[LogLine], host: str, clock: str, gpus: dict[str, str]) -> list[Event]:
    """The events of these lines. `gpus`: UUIDs by PCI address."""
    return [
        Event(
            row["time_ns"],
            row["entity"],
            row["kind"],
            row["severity"],
            row["message"],
            row["attributes"],
            row["source"],
            row["code"],
        )
        for row in event_rows(lines, host, clock, gpus)
    ]
