"""Taking labs down by what is written about them: for their owner, and for who comes after a killed one.

Only what a record names is touched: the processes in its namespaces and control groups, those groups, those
namespaces, that directory. A namespace that merely looks like ours has no record and stays.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from pathlib import Path

from leadline.lab import state
from leadline.lab.realise import cgroups, namespaces, privileges
from leadline.lab.state import LabRecord
from leadline.model.errors import WorldError

KILL_PATIENCE_S = 5.0  # SIGKILL works at once, except on a process that waits for a disk


def remove_leftovers(root: Path | None = None) -> list[str]:
    """Remove every lab whose owner is gone; returns what was removed, one phrase each."""
    where = state.state_root(root)
    if not where.is_dir():
        return []
    with state.claims(where):
        return clear_dead(where)


def clear_dead(root: Path) -> list[str]:
    """`remove_leftovers` for who holds the claim already."""
    removed: list[str] = []
    for name in state.labs(root):
        record = state.read(root, name)
        if record is None:
            # Killed before the record was written, or just after it was removed: there is nothing else of it.
            if state.forget_empty(root, name):
                removed.append(f"{name}: directory without record")
        elif not record.alive:
            removed += [f"{name}: {what}" for what in take_down(root, record)]
    return removed


def take_down(root: Path, record: LabRecord) -> list[str]:
    """Remove all of one lab: processes, control groups, namespaces, directory, in this order."""
    privileges.require()
    removed = []
    if killed := kill_all(record):
        removed.append(f"{killed} processes")
    if groups := cgroups.of_lab(record.name).remove():
        removed.append(f"{groups} control groups")
    if gone := sum(namespaces.delete(name) for name in record.namespaces.values()):
        removed.append(f"{gone} network namespaces")
    state.forget(root, record.name)
    return [*removed, "directory"]


def kill_all(record: LabRecord) -> int:
    """Kill what runs in the lab, until nothing does; returns how many processes. Errors: WorldError if one stays."""
    group = cgroups.of_lab(record.name)
    killed: set[int] = set()
    deadline = time.monotonic() + KILL_PATIENCE_S
    while found := _alive_of(record, group):
        for pid in found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        killed |= found
        if time.monotonic() > deadline:
            raise WorldError(
                f"lab {record.name}: processes {sorted(found)} do not die; look at them, then take it down"
            )
        time.sleep(0.002)
    return len(killed)


def processes_of(record: LabRecord) -> dict[int, str]:
    """Living processes by number, and the node whose network namespace each is in."""
    node_of = {inode: node for node, name in record.namespaces.items() if (inode := namespaces.inode(name)) is not None}
    found = {}
    for entry in os.listdir("/proc"):
        if entry.isdigit():
            with contextlib.suppress(OSError):  # it ended meanwhile
                node = node_of.get(os.stat(f"/proc/{entry}/ns/net").st_ino)
                if node is not None:
                    found[int(entry)] = node
    return found


def _alive_of(record: LabRecord, group: cgroups.Cgroup) -> set[int]:
    everyone = set(processes_of(record)) | group.processes()
    everyone.discard(os.getpid())
    return {pid for pid in everyone if state.start_of(pid) is not None}
