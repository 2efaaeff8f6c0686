"""What an append left on the disk: the parts that it added are looked at before anybody is told that rows are stored.

    names before ── insert ── names after ──> new parts ──> whole? ──no──> dropped, the append refused
                                               │                   └ cannot be dropped: nothing is appended until it can
                                               └ none: the engine says that it is done, and nothing is there

The engine reports an insert as done whose writes failed (chDB 26.9). Parts of others that append to the table at the
same time are looked at too: then both append again, which is harmless.
"""

from __future__ import annotations

import os
import re
import threading
from collections.abc import Callable, Collection, Mapping
from pathlib import Path

from leadline.model.errors import StoreError
from leadline.store.disk.whole import lacking

# Parts in their place that an append made: a block of their own, never merged. What a merge made meanwhile holds rows
# of others, and its sources are there still: `disk.watch` looks after it.
_ADDED = re.compile(r"[^_]+_(\d+)_\1_0")
_PART = re.compile(r"[^_]+_\d+_\d+_\d+")


class AddedParts:
    """The directories of an embedded store's tables. Thread-safe. Of a store on a server there are none."""

    def __init__(self, drop: Callable[[str, str], None], load_without: Callable[[str, Collection[Path]], None]) -> None:
        """`drop`: has the engine drop a part of a table, by their names. `load_without`: has it load a table anew
        without some parts, which are removed. Both raise StoreError."""
        self._drop, self._load_without = drop, load_without
        self._directories: Mapping[str, Path] = {}
        self._refused: dict[str, set[str]] = {}
        self._lock = threading.Lock()

    def begin(self, directories: Mapping[str, Path]) -> None:
        """Know where the parts of each table lie."""
        self._directories = dict(directories)
        self._refused = {}

    def names(self, table: str) -> frozenset[str]:
        """Parts that appends made in the directory of a table, those that were merged into others included."""
        return self._names(table, _ADDED)

    def _names(self, table: str, which: re.Pattern[str]) -> frozenset[str]:
        directory = self._directories.get(table)
        if directory is None:
            return frozenset()
        return frozenset(name for name in os.listdir(directory) if which.fullmatch(name))

    def check(self, table: str, before: frozenset[str]) -> None:
        """Look at what came since `before`. Errors: StoreError if nothing did, or it is not whole; then it is dropped,
        or noted, to be dropped before the next append."""
        directory = self._directories.get(table)
        if directory is None:
            return
        new = self.names(table) - before
        if not new:
            raise StoreError(f"the engine added no part to {table}; append again")
        bad = {name: why for name in sorted(new) if (why := lacking(directory / name))}
        if not bad:
            return
        with self._lock:
            self._refused.setdefault(table, set()).update(bad)
        self.drop(table)
        name, why = next(iter(bad.items()))
        raise StoreError(f"the disk did not take all of part {name} of {table}: {why}; append again")

    @property
    def tables(self) -> list[str]:
        """Tables with a part that has to be dropped still."""
        with self._lock:
            return [table for table, names in self._refused.items() if names]

    def is_refused(self, table: str, part: str) -> bool:
        """Whether a part is one of those."""
        with self._lock:
            return part in self._refused.get(table, ())

    def drop(self, table: str) -> None:
        """Have the engine drop what is not whole. Errors: StoreError if it cannot; the next call does it again.

        It writes an empty part in the place of each. Where that is not whole either, the table is loaded anew without.
        """
        with self._lock:
            names = sorted(self._refused.get(table, ()))
        directory, without = self._directories.get(table, Path()), set[str]()
        for name in names:
            before = self._names(table, _PART)
            try:
                if (directory / name).exists():
                    self._drop(table, name)
            except StoreError:
                without.add(name)
            empty = [each for each in self._names(table, _PART) - before if not _ADDED.fullmatch(each)]
            if bad := [each for each in empty if _blocks(each) == _blocks(name) and lacking(directory / each)]:
                without |= {name, *bad}
        if without:
            self._load_without(table, [directory / name for name in sorted(without)])
        with self._lock:
            self._refused.get(table, set()).difference_update(names)


def _blocks(name: str) -> list[str]:
    return name.split("_")[:3]
