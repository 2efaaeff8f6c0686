"""What is written down about each lab, so that another process, or the next one, can find all of it.

    <root>/<lab>/lab.json     owner, topology, nodes; written before anything else of the lab is made, removed last
    <root>/<lab>/hosts/<h>/   kmsg, sys/, ring/, spool/
    <root>/<lab>/switches/<s>/sys/
    <root>/<lab>/jobs/<job>/, log/

A lab is owned by a process (number and start time, because numbers come again) or, when it is to stay until it is
taken down, by nobody; then it ends with the boot it was made in.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path

from leadline.model.errors import UsageError, WorldError

DEFAULT_ROOT = Path("/run/leadline-lab")
ROOT_VARIABLE = "LEADLINE_LAB_STATE"
RECORD = "lab.json"
# No dash: namespaces are called ll-<lab>-<node>, and ll-a-h1 must not be a node of two labs.
LAB_NAME = re.compile(r"[a-z][a-z0-9_]{0,23}\Z")


@dataclass(frozen=True, slots=True)
class LabRecord:
    """The content of lab.json. `shape` is the topology as YAML text can give it back; `up` once it is complete."""

    name: str
    owner_pid: int  # 0: owned by nobody
    owner_start: int  # ticks since boot
    boot_id: str
    created_ns: int
    topology: str
    shape: dict[str, object]
    nodes: tuple[str, ...]
    up: bool = False

    @property
    def alive(self) -> bool:
        """Whether this lab is somebody's: its owner lives, or it has none and the machine was not restarted."""
        if self.boot_id != boot_id():
            return False
        return self.owner_pid == 0 or start_of(self.owner_pid) == self.owner_start

    @property
    def namespaces(self) -> dict[str, str]:
        """Name of the network namespace of each node."""
        return {node: namespace_name(self.name, node) for node in self.nodes}


def state_root(root: Path | None = None) -> Path:
    """Where labs are written down: the argument, LEADLINE_LAB_STATE, or /run/leadline-lab."""
    return root or Path(os.environ.get(ROOT_VARIABLE) or DEFAULT_ROOT)


def namespace_name(lab: str, node: str) -> str:
    """Name of a node's network namespace."""
    return f"ll-{lab}-{node}"


def checked_name(name: str) -> str:
    """The name of a lab. Errors: UsageError."""
    if not LAB_NAME.match(name):
        raise UsageError(
            f"a lab's name has lower-case letters, digits and _ (a letter first, at most 24), got {name!r}"
        )
    return name


def write(root: Path, record: LabRecord) -> None:
    """Write lab.json, whole or not at all."""
    directory = root / record.name
    directory.mkdir(parents=True, exist_ok=True)
    part = directory / f"{RECORD}.part"
    part.write_text(json.dumps(asdict(record), indent=1))
    part.replace(directory / RECORD)


def read(root: Path, name: str) -> LabRecord | None:
    """The record of a lab; None if there is none. Errors: WorldError if it cannot be read."""
    path = root / name / RECORD
    try:
        found = json.loads(path.read_text())
        return LabRecord(**{**found, "nodes": tuple(found["nodes"])})
    except FileNotFoundError:
        return None
    except (OSError, ValueError, TypeError, KeyError) as error:
        raise WorldError(f"{path}: expected the record of a lab, got {error}; remove it if no lab is up") from error


def labs(root: Path) -> list[str]:
    """Names of all labs that have a directory, alive or not."""
    try:
        return sorted(path.name for path in root.iterdir() if path.is_dir() and LAB_NAME.match(path.name))
    except FileNotFoundError:
        return []


def adopted(record: LabRecord, *, keep: bool) -> LabRecord:
    """The record as owned by this process, or by nobody if it is to be kept."""
    if keep:
        return replace(record, owner_pid=0, owner_start=0, boot_id=boot_id())
    return replace(record, owner_pid=os.getpid(), owner_start=start_of(os.getpid()) or 0, boot_id=boot_id())


def forget(root: Path, name: str) -> None:
    """Remove the directory of a lab, its record last: until then the rest can be found again."""
    directory = root / name
    for path in sorted(directory.glob("*")):
        if path.name == RECORD:
            continue
        if path.is_dir() and not path.is_symlink():
            shutil.rmtree(path, ignore_errors=True)
        else:
            path.unlink(missing_ok=True)
    (directory / RECORD).unlink(missing_ok=True)
    shutil.rmtree(directory, ignore_errors=True)


def forget_empty(root: Path, name: str) -> bool:
    """Remove the directory of a lab that was never recorded; False if it holds something, which is not a lab's then."""
    directory = root / name
    (directory / f"{RECORD}.part").unlink(missing_ok=True)
    try:
        directory.rmdir()
    except OSError:
        return False
    return True


@contextmanager
def claims(root: Path) -> Iterator[None]:
    """Hold the right to begin or remove labs below `root`; others wait. Ends with the process at the latest."""
    try:
        root.mkdir(parents=True, exist_ok=True)
        handle = os.open(root / ".lock", os.O_CREAT | os.O_RDWR | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise WorldError(
            f"{root}: {error.strerror}; the lab keeps its state there, {ROOT_VARIABLE} moves it"
        ) from error
    try:
        fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


def start_of(pid: int) -> int | None:
    """When a process started, in ticks since boot; None if there is no such process, or only its corpse."""
    try:
        stat = Path(f"/proc/{pid}/stat").read_bytes()
    except OSError:
        return None
    fields = stat.rpartition(b")")[2].split()
    return None if fields[0] in (b"Z", b"X") else int(fields[19])


def boot_id() -> str:
    """Which start of this machine it is."""
    return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
