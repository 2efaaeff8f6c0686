"""What the agent reads of /proc and /sys: the kernel writes it, but names in it are those of users' own processes and
groups."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from leadline.host.sources import cgroup, inventory, proc, ranks, rdma
from leadline.host.sources.graph import parse_gpu_information

_MOUNTS = cgroup.Mounts("/sys/fs/cgroup", "/sys/fs/cgroup/memory", "/sys/fs/cgroup/cpu")
# The first byte chooses. New ones go to the end: kept inputs count.
READERS: tuple[tuple[str, Callable[[bytes], Any]], ...] = (
    ("stat", lambda text: list(proc.parse_stat(text))),
    ("meminfo", lambda text: list(proc.parse_meminfo(text))),
    ("loadavg", lambda text: list(proc.parse_loadavg(text))),
    ("pressure_cpu", lambda text: list(proc.parse_pressure("cpu", text))),
    ("netstat", lambda text: list(proc.parse_netstat(text))),
    ("diskstats", lambda text: list(proc.parse_diskstats(text))),
    ("mounts", cgroup.parse_mounts),
    ("cgroup", lambda text: cgroup.group_of(text, _MOUNTS)),
    ("memory.events", cgroup.parse_flat),
    ("pid_stat", ranks.parse_stat),
    ("pid_io", ranks.parse_io),
    ("counter", rdma.parse_counter),
    ("os_release", inventory.parse_os_release),
    ("cpuinfo", inventory.parse_processors),
    ("command_line", inventory.parse_command_line),
    ("gpu_driver", inventory.parse_gpu_driver),
    ("drvinfo", inventory.parse_driver),
    ("ringparam", inventory.parse_rings),
    ("pauseparam", inventory.parse_pause),
    ("gpu_information", parse_gpu_information),
)


def proc_files(data: bytes) -> None:
    """A file of /proc or /sys: whatever stands in it, what is read of it can be sent."""
    if data:
        str(READERS[data[0] % len(READERS)][1](data[1:])).encode()
