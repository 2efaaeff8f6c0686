"""Taking a back-up: the engine freezes its parts, and hard links of them are put together in a directory.

    freeze(store)       in the process that owns the store: hard links of all parts, under store.path/shadow/
    gather(frozen, to)  by whoever may read those: to/TABLE/PART/*, to/manifest.json last

A part never changes once it is there, so a link to it is a copy that takes neither time nor space on the same disk; on
another one it is copied. Appends, queries and merges go on. What was acknowledged before is in it.
"""

from __future__ import annotations

import errno
import json
import os
import secrets
import shutil
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from leadline import __version__
from leadline.model.errors import DataError, StoreError, UsageError
from leadline.store.client import Store
from leadline.store.migrate import SCHEMA_VERSION

MANIFEST = "manifest.json"
FORMAT = 1
KEPT_S = 86_400.0  # copying a store of terabytes to another disk takes hours
_PART_FILE = "checksums.txt"  # every directory that has one is a part


@dataclass(frozen=True, slots=True)
class Manifest:
    """What a back-up holds. `tables`: of each table its parts, and how many rows each has."""

    format: int
    leadline: str
    schema: int
    taken_ns: int
    tables: Mapping[str, Mapping[str, int]]

    @property
    def rows(self) -> int:
        """All rows, those that were appended twice and are not merged yet counted twice."""
        return sum(sum(parts.values()) for parts in self.tables.values())

    @property
    def parts(self) -> int:
        """All parts."""
        return sum(len(parts) for parts in self.tables.values())


def freeze(store: Store) -> Path:
    """Freeze all parts of an open store; the directory, which `gather` takes away again.

    Errors: UsageError for a store on a server, which has means of its own; StoreError.
    """
    config = store.config
    if config.url:
        raise UsageError("the store is a ClickHouse server (store.url): take its back-up with its own BACKUP statement")
    name = f"leadline_{secrets.token_hex(8)}"
    shadow = Path(config.path) / "shadow"
    _discard_old(shadow)
    frozen = {table: shadow / f"{name}_{table}" for table in store.freeze(name)}
    # A table without rows has nothing frozen.
    parts = {table: [str(part.parent) for part in sorted(at.rglob(_PART_FILE))] for table, at in frozen.items()}
    directory = shadow / name
    directory.mkdir(parents=True)
    (directory / "parts.json").write_text(json.dumps(parts))
    return directory


def gather(frozen: Path, to: Path, taken_ns: int) -> Manifest:
    """Put the frozen parts into a directory, and take them away from under the store.

    Errors: UsageError if the directory is there and not empty; StoreError if it cannot be written.
    """
    try:
        found: dict[str, list[str]] = json.loads((frozen / "parts.json").read_text())
        if to.exists() and (not to.is_dir() or any(to.iterdir())):
            raise UsageError(f"{to} is there and not empty; name a directory that is to be made")
        tables: dict[str, dict[str, int]] = {}
        for table, parts in found.items():
            tables[table] = {}
            for part in map(Path, parts):
                copied(part, to / table / part.name, link=True)
                tables[table][part.name] = int((part / "count.txt").read_text())
        manifest = Manifest(FORMAT, __version__, SCHEMA_VERSION, taken_ns, tables)
        to.mkdir(parents=True, exist_ok=True)
        draft = to / f"{MANIFEST}.draft"
        draft.write_text(json.dumps(asdict(manifest), indent=1) + "\n")
        _synced(draft)
        draft.rename(to / MANIFEST)
        _synced(to)
        return manifest
    except OSError as error:
        raise StoreError(f"cannot write the back-up into {to}: {error.strerror}: {error.filename}") from error
    finally:
        discard(frozen)


def discard(frozen: Path) -> None:
    """Take frozen parts away; the store's own stay."""
    for each in frozen.parent.glob(f"{frozen.name}*"):
        shutil.rmtree(each, ignore_errors=True)


def _discard_old(shadow: Path) -> None:
    """What nobody put together within a day keeps parts on the disk that were merged long ago."""
    for each in shadow.glob("leadline_*"):
        if time.time() - each.stat().st_mtime > KEPT_S:
            shutil.rmtree(each, ignore_errors=True)


def read_manifest(directory: Path) -> Manifest:
    """What a back-up says it holds. Errors: UsageError if there is none, DataError for one that cannot be used."""
    place = directory / MANIFEST
    try:
        told: dict[str, Any] = json.loads(place.read_text())
        manifest = Manifest(**told)
        rows = [rows for parts in manifest.tables.values() for rows in parts.values()]
        if not all(isinstance(each, int) for each in rows):
            raise ValueError("a number of rows that is none")
    except FileNotFoundError:
        raise UsageError(f"{directory} is no back-up, or one that was not finished: it has no {MANIFEST}") from None
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise DataError(str(place), "the manifest of a back-up", str(error)) from error
    if manifest.format != FORMAT:
        raise DataError(str(place), f"format {FORMAT}", f"{manifest.format}; use the version that made it")
    return manifest


def copied(source: Path, target: Path, *, link: bool = False) -> None:
    """A directory and all in it, as copies or, where the disk is the same, as hard links."""
    target.mkdir(parents=True)
    for each in source.iterdir():
        if each.is_dir():
            copied(each, target / each.name, link=link)
        elif not link or not _linked(each, target / each.name):
            shutil.copyfile(each, target / each.name)
            _synced(target / each.name)


def _linked(file: Path, to: Path) -> bool:
    try:
        os.link(file, to)
    except OSError as error:
        if error.errno not in (errno.EXDEV, errno.EPERM, errno.EMLINK, errno.EOPNOTSUPP):
            raise
        return False
    return True


def _synced(place: Path) -> None:
    """A file or directory is on its disk."""
    handle = os.open(place, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)
