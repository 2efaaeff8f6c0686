"""The kernel log of each emulated host: a file of `/dev/kmsg` records that only grows.

All hosts of a lab share one kernel, so its log is shared out: lines about a process in a host's control group go to
that host's file (what the kernel really wrote), and faults add lines that a driver would have written (what the lab
makes up, in the driver's own form).

    priority,sequence,microseconds since boot,flags;text          Documentation/ABI/testing/dev-kmsg
"""

from __future__ import annotations

import fcntl
import os
import re
import time
from collections.abc import Callable
from pathlib import Path

from leadline.lab.telemetry.gpu_model import pci_address
from leadline.wire.kernel_log.events import xid_line
from leadline.wire.kernel_log.kmsg import kmsg_record

ERROR, WARNING, INFO = 3, 4, 6
FILE = "kmsg"
_TAIL_BYTES = 4096  # one record is at most 1 KB

# What the driver says after code, pid and name (docs.nvidia.com/deploy/xid-errors, and logs of real machines).
XID_WORDS = {
    13: "Graphics SM Warp Exception on (GPC 0, TPC 0, SM 0): Out Of Range Address",
    31: "Ch 00000008, intr 00000000. MMU Fault: ENGINE GRAPHICS GPCCLIENT_T1_0 faulted",
    43: "Ch 00000008, GPU stopped processing",
    45: "Ch 00000008, Preemptive Removal",
    48: "DBE (double bit error) ECC Error",
    63: "Row Remapper: New row marked for remapping, reset gpu to activate.",
    64: "Row Remapper: Error while attempting to record the remapping",
    74: "NVLink: fatal error detected on link 0",
    79: "GPU has fallen off the bus.",
    94: "Contained: memory ECC error",
    95: "Uncontained: memory ECC error",
    119: "Timeout after 6s of waiting for RPC response from GPU0 GSP! Expected function 76 (GSP_RM_CONTROL).",
}


def append(host: Path, text: str, priority: int = ERROR, now_us: int | None = None) -> None:
    """Add a line to the kernel log in a host's state directory; several processes may.

    `now_us` is CLOCK_MONOTONIC, as in the kernel's own records. Errors: OSError.
    """
    host.mkdir(parents=True, exist_ok=True)
    handle = os.open(host / FILE, os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        size = os.fstat(handle).st_size
        tail = os.pread(handle, _TAIL_BYTES, max(0, size - _TAIL_BYTES))
        when_us = time.monotonic_ns() // 1000 if now_us is None else now_us
        os.write(handle, kmsg_record(priority, next_sequence(tail), when_us, text))
    finally:
        os.close(handle)


def append_xid(state: Path, host: str, uuid: str, code: int, pid: int | None, words: str = "") -> None:
    """Write the line of a GPU error into a host's kernel log, as if GPU `uuid` had reported it for `pid`.

    `words`: what it says, where the usual words of the code are not meant.
    """
    name = "unknown"
    if pid is not None:
        try:
            name = Path(f"/proc/{pid}/comm").read_text().strip()
        except OSError:
            name = "python"  # it is gone already
    directory, pci = state / "hosts" / host, pci_address(uuid)
    append_gpu_name(directory, uuid)
    append(directory, xid_line(pci, code, words or XID_WORDS.get(code, "unknown error"), pid, name))


def append_gpu_name(directory: Path, uuid: str) -> None:
    """Write which GPU has which PCI address, unless the log says so: the driver does, before a GPU's first error."""
    named = f"NVRM: GPU at PCI:{pci_address(uuid)}: {uuid}"
    log = directory / FILE
    if not log.exists() or named.encode() not in log.read_bytes():
        append(directory, named)


def next_sequence(tail: bytes) -> int:
    """The number after that of the last record in the last bytes of a log; 0 for an empty one."""
    for line in reversed(tail.splitlines()):
        match = re.match(rb"\d+,(\d+),", line)
        if match:
            return int(match[1]) + 1
    return 0


class Sharer:
    """Says which host a line of the machine's kernel log is about, if it is about one of ours.

    An OOM kill is told in two lines: the first names the control group and the process, the second the process only.
    """

    def __init__(self, host_of_group: Callable[[str], str | None]) -> None:
        """`host_of_group`: the host that a control group's path belongs to, or None."""
        self._host_of_group = host_of_group
        self._killed: dict[str, str] = {}  # pid -> host, between the two lines

    def host_of(self, text: str) -> str | None:
        """The host whose log the line belongs to, or None."""
        told = re.search(r"oom-kill:.*?task_memcg=([^,]+),.*?pid=(\d+)", text)
        if told:
            host = self._host_of_group(told[1])
            if host is not None:
                if len(self._killed) > 64:
                    self._killed.clear()
                self._killed[told[2]] = host
            return host
        killed = re.search(r"(?:Memory cgroup out of memory|Out of memory): Killed process (\d+)", text)
        return self._killed.pop(killed[1], None) if killed else None


def record_parts(record: bytes) -> tuple[int, int, str] | None:
    """Priority, microseconds and text of a kmsg record; None if it is none."""
    head, semicolon, text = record.partition(b";")
    fields = head.split(b",")
    if not semicolon or len(fields) < 3 or not (fields[0].isdigit() and fields[2].isdigit()):
        return None
    return int(fields[0]) & 7, int(fields[2]), text.split(b"\n", 1)[0].decode(errors="replace")
