"""How much memory the server process may hold, and how much it holds.

server.memory_bytes_max ── 0 ──> half of the least of: the machine's memory, the limits of its control groups
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from leadline.model.ids import EntityId

SHARE = 0.5  # the rest is for worker processes, page cache of the store, and whoever else is on the machine
BYTES_MIN = 1 << 30  # the process holds 400 MB with nothing to do; less than this would refuse ordinary work
_GROUPS = "sys/fs/cgroup"


def bytes_max(configured: int, root: Path = Path("/")) -> int:
    """What the process may hold, bytes. `configured`: the setting; 0: half of what there is, BYTES_MIN at least."""
    return configured or max(BYTES_MIN, int(SHARE * machine_bytes(root)))


def machine_bytes(root: Path = Path("/")) -> int:
    """Memory of the machine, or of the control groups around this process where that is less; 0 if nobody says."""
    return min([*_meminfo(root), *_group_limits(root)], default=0)


def held_bytes(root: Path = Path("/")) -> int:
    """Private anonymous memory of this process; 0 where the kernel does not tell.

    From the kernel's own counters (50 us), not by looking at every page as `smaps_rollup` does (10 ms a GB): it is
    asked for several times a second. The two differ by what is being counted on other cores, at most 1 MB or so.
    """
    try:
        for line in (root / "proc/self/status").read_text().splitlines():
            if line.startswith("RssAnon:"):
                return int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        pass
    return 0


def _meminfo(root: Path) -> Iterator[int]:
    try:
        for line in (root / "proc/meminfo").read_text().splitlines():
            if line.startswith("MemTotal:"):
                yield int(line.split()[1]) * 1024
    except (OSError, ValueError, IndexError):
        return


def _group_limits(root: Path) -> Iterator[int]:
    """Limits of the control groups that this process is in, of both versions, up to the topmost that is seen.

    In a container the path is often that of the host, of which only the container's own group is mounted: then that is
    the topmost.
    """
    try:
        lines = (root / "proc/self/cgroup").read_text().splitlines()
    except OSError:
        return
    for line in lines:
        _, rest = EntityId.of(line)
        controllers, path = EntityId.of(rest)
        if controllers == "":
            top, name = root / _GROUPS, "memory.max"
        elif "memory" in controllers.split(","):
            top, name = root / _GROUPS / "memory", "memory.limit_in_bytes"
        else:
            continue
        group = top / path.lstrip("/")
        for each in (group, *group.parents):
            yield from _number(each / name)
            if each == top:
                break


def _number(path: Path) -> Iterator[int]:
    """The number in a file; none for `max`, and where there is no such file."""
    try:
        yield int(path.read_text())
    except (OSError, ValueError):
        return
