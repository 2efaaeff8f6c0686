"""Control groups of a lab's processes, version 1 or 2: `leadline-lab/<lab>/<node>/<group>` in each hierarchy.

Version 1 has a tree per controller, version 2 one tree for all. Where neither can be written the lab works all the
same, only limits and the OOM kill are refused, saying why.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from functools import cache
from math import ceil
from pathlib import Path

from leadline.model.errors import WorldError

PARENT = "leadline-lab"
CONTROLLERS = ("cpu", "memory", "pids", "freezer")
PERIOD_US = 20_000  # short, so that a slowed rank is slowed evenly and not in tenths of a second
QUOTA_US_MIN, PERIOD_US_MAX = 1000, 1_000_000  # the kernel's bounds


@dataclass(frozen=True, slots=True)
class Hierarchy:
    """Where groups are made. Version 2 has one directory under the name ""; `why` says why there is none."""

    version: int
    roots: dict[str, Path]
    why: str = ""


@cache
def hierarchy() -> Hierarchy:
    """What this machine has, looked up once."""
    return find_hierarchy(Path("/proc/self/mounts").read_text())


def find_hierarchy(mounts: str) -> Hierarchy:
    """From the text of /proc/self/mounts. Version 1 controllers win: with them mounted, version 2 has none left."""
    v1: dict[str, Path] = {}
    v2: Path | None = None
    for line in mounts.splitlines():
        _, target, kind, options = line.split()[:4]
        if kind == "cgroup":
            for name in set(options.split(",")) & set(CONTROLLERS):
                v1.setdefault(name, Path(target))
        elif kind == "cgroup2":
            v2 = v2 or Path(target)
    if "cpu" in v1 or "memory" in v1:
        return Hierarchy(1, {name: v1[name] for name in CONTROLLERS if name in v1})
    if v2 is not None:
        return Hierarchy(2, {"": v2})
    return Hierarchy(0, {}, "no cgroup file system is mounted")


class Cgroup:
    """The group of one or more processes. `path` is relative: `leadline-lab/<lab>/<node>/<group>`."""

    def __init__(self, path: str, found: Hierarchy | None = None) -> None:
        self.path = path
        self._found = found or hierarchy()

    def make(self) -> str:
        """Create it where it is missing; returns why it could not be, or nothing."""
        if not self._found.roots:
            return self._found.why
        try:
            for root in self._found.roots.values():
                try:
                    _make_below(root, self.path, delegate=self._found.version == 2)
                except FileNotFoundError:  # another lab went down and took the empty parent with it
                    _make_below(root, self.path, delegate=self._found.version == 2)
        except OSError as error:
            return f"{error.filename}: {error.strerror}"
        return ""

    def entrances(self) -> list[str]:
        """The files that a process writes its number into to join."""
        return [str(root / self.path / "cgroup.procs") for root in self._found.roots.values()]

    def processes(self) -> set[int]:
        """Numbers of the processes in it and below."""
        found: set[int] = set()
        for root in self._found.roots.values():
            for file in (root / self.path).rglob("cgroup.procs"):
                with contextlib.suppress(OSError):
                    found |= {int(line) for line in file.read_text().split()}
        return found

    def set_cpu_quota(self, cores: float | None) -> None:
        """At most so many cores (> 0) for all its processes together; None lifts it. Errors: WorldError."""
        # The kernel takes no quota below a millisecond: what is less than that of a period gets a longer one.
        period_us = PERIOD_US if cores is None else min(PERIOD_US_MAX, max(PERIOD_US, ceil(QUOTA_US_MIN / cores)))
        quota_us = -1 if cores is None else max(QUOTA_US_MIN, round(cores * period_us))
        if self._found.version == 2:
            self._write("", "cpu.max", f"{'max' if cores is None else quota_us} {period_us}")
        else:
            self._write("cpu", "cpu.cfs_period_us", str(period_us))
            self._write("cpu", "cpu.cfs_quota_us", str(quota_us))

    def set_memory_limit(self, limit_bytes: int | None) -> None:
        """At most so much memory, or the kernel kills in it (OOM); None lifts it. Errors: WorldError.

        A limit below what is in use is refused by version 1 (device or resource busy) and kills in version 2.
        """
        if self._found.version == 2:
            self._write("", "memory.max", "max" if limit_bytes is None else str(limit_bytes))
            with contextlib.suppress(WorldError):  # no swap, no such file
                self._write("", "memory.swap.max", "max" if limit_bytes is None else "0")
        else:
            self._write("memory", "memory.limit_in_bytes", "-1" if limit_bytes is None else str(limit_bytes))

    def memory_bytes(self) -> int:
        """What it uses now, page cache included. Errors: WorldError."""
        name = "memory.current" if self._found.version == 2 else "memory.usage_in_bytes"
        return int(self._read("memory", name))

    def memory_kept_bytes(self) -> int:
        """What of it the kernel cannot take back: not page cache. Errors: WorldError."""
        counts = self._memory_stat()
        if self._found.version == 2:
            return sum(counts.get(name, 0) for name in ("anon", "shmem", "kernel"))
        return counts["rss"] + counts.get("shmem", 0)  # kernel memory is counted apart

    def memory_limit_hits(self) -> int:
        """How often it was at its limit and pages had to be taken back first. Errors: WorldError."""
        if self._found.version == 2:
            counts = dict(line.split() for line in self._read("", "memory.events").splitlines())
            return int(counts.get("max", 0))
        return int(self._read("memory", "memory.failcnt"))

    def oom_kills(self) -> int:
        """Processes that the kernel killed in it for memory. Errors: WorldError."""
        name = "memory.events" if self._found.version == 2 else "memory.oom_control"
        counts = dict(line.split() for line in self._read("memory", name).splitlines())
        return int(counts.get("oom_kill", 0))

    def throttled(self) -> int:
        """Periods in which its quota stopped it. Errors: WorldError."""
        counts = dict(line.split() for line in self._read("cpu", "cpu.stat").splitlines())
        return int(counts.get("nr_throttled", 0))

    def file(self, controller: str, name: str) -> Path:
        """A file of the group, for who must read more. Errors: WorldError if there is no such controller."""
        roots = self._found.roots
        root = roots.get("" if self._found.version == 2 else controller)
        if root is None:
            raise WorldError(f"no cgroup controller {controller!r} here ({self._found.why or ', '.join(roots)})")
        return root / self.path / name

    def remove(self) -> int:
        """Remove it and all below; returns how many directories went. Whoever is still inside keeps his."""
        gone = 0
        for root in self._found.roots.values():
            top = root / self.path
            for directory, _, _ in os.walk(top, topdown=False):
                with contextlib.suppress(OSError):
                    os.rmdir(directory)
                    gone += 1
            with contextlib.suppress(OSError):  # somebody is in it still
                (root / PARENT).rmdir()
        return gone

    def _memory_stat(self) -> dict[str, int]:
        return {name: int(value) for name, value in map(str.split, self._read("memory", "memory.stat").splitlines())}

    def _write(self, controller: str, name: str, value: str) -> None:
        path = self.file(controller, name)
        try:
            path.write_text(value)
        except OSError as error:
            raise WorldError(f"{path}: {error.strerror} (writing {value})") from error

    def _read(self, controller: str, name: str) -> str:
        path = self.file(controller, name)
        try:
            return path.read_text()
        except OSError as error:
            raise WorldError(f"{path}: {error.strerror}") from error


def of_lab(lab: str) -> Cgroup:
    """The group of all processes of a lab."""
    return Cgroup(f"{PARENT}/{lab}")


def _make_below(root: Path, path: str, delegate: bool) -> None:
    here = root
    for part in path.split("/"):
        if delegate:
            _enable(here)
        here = here / part
        here.mkdir(exist_ok=True)


def _enable(group: Path) -> None:
    """Version 2 only: let the children of a group have controllers. Those that are missing are left out."""
    there = (group / "cgroup.controllers").read_text().split()
    wanted = " ".join(f"+{name}" for name in ("cpu", "memory", "pids") if name in there)
    if wanted:
        (group / "cgroup.subtree_control").write_text(wanted)
