"""What is not delivered yet, on disk: bounded, first in first out, whole after `kill -9`.

A directory of append-only files. An item is taken off by moving a position, and a file goes when all its items are
delivered. Over the bound the oldest file goes, and its items are counted as lost. Nothing is synced to the disk: what
was appended survives the end of the process, not a power failure, and the job's disk is left alone.

Marks say up to where a source was read when an item was made (`kmsg` is at record 812). They are stored in the same
write as the item, so that after a kill nothing is read twice and nothing is skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from leadline.host.frames import FRAME_HEAD_BYTES, ITEM_BYTES_MAX, MAGIC, Item, frames, payload_bytes, to_frame
from leadline.model.errors import WorldError

FILES = 16  # the bound divided by this is a file's size, and what is lost at once when the bound is met
MARKS_MAX = 4096  # names of marks; rings come and go, their marks are forgotten with `forget`


@dataclass(slots=True)
class _File:
    """One file: what of it is not delivered. `counts` are the rows of its items, in order."""

    path: Path
    size: int
    counts: deque[int] = field(default_factory=deque)


class Spool:
    """One lane's items. Thread-safe: one thread appends, another takes off."""

    def __init__(self, directory: Path, bytes_max: int, lost: Callable[[str, int], None]) -> None:
        """Read what an earlier process left. `lost(reason, rows)` is told what is dropped.

        Errors: WorldError if the directory cannot be used, or another agent uses it.
        """
        self._directory = directory
        self._bytes_max = bytes_max
        self._file_bytes = max(64 * 1024, bytes_max // FILES)
        self._lost = lost
        self._lock = threading.Condition()
        self._files: deque[_File] = deque()
        self._marks: dict[str, str] = {}
        self._position = len(MAGIC)  # in the first file
        self._head: tuple[Item, int] | None = None  # the first item and its end, once it was read
        self._out: int | None = None  # the last file, open for appending
        self._next_number = 0
        try:
            directory.mkdir(parents=True, exist_ok=True)
            self._guard = os.open(directory / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise WorldError(f"spool {directory}: {error.strerror}; name another with --spool") from error
        try:
            fcntl.flock(self._guard, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            os.close(self._guard)
            raise WorldError(f"spool {directory}: another agent uses it; give each its own with --spool") from None
        self._restore()

    # --- in ---

    def append(self, item: Item) -> bool:
        """Keep an item. Returns whether it is kept; if the disk does not take it, it is counted as lost."""
        frame = to_frame(item)
        if len(item.body) > ITEM_BYTES_MAX:
            self._lost("too_large", item.rows)
            return False
        with self._lock:
            try:
                self._write(frame, item.rows)
            except OSError:
                self._close_out()  # a half-written frame ends this file; the next item begins another
                self._drop_empty_last()
                self._lost("spool_failed", item.rows)
                return False
            if item.mark:
                self._marks[item.mark] = item.at
            self._make_room()
            self._lock.notify_all()
        return True

    def _write(self, frame: bytes, count: int) -> None:
        if self._out is None or self._files[-1].size + len(frame) > self._file_bytes:
            self._begin_file()
        assert self._out is not None
        if os.write(self._out, frame) != len(frame):
            raise OSError("disk full")
        self._files[-1].size += len(frame)
        self._files[-1].counts.append(count)

    def _begin_file(self) -> None:
        self._close_out()
        path = self._directory / _file_name(self._next_number)
        self._out = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._next_number += 1
        self._files.append(_File(path, len(MAGIC)))
        os.write(self._out, MAGIC)

    def _close_out(self) -> None:
        if self._out is not None:
            os.close(self._out)
            self._out = None

    def _drop_empty_last(self) -> None:
        """A full disk takes names, not bytes: one new file an item, for as long as it lasts."""
        if len(self._files) > 1 and not self._files[-1].counts:
            self._files.pop().path.unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Let the oldest files go until the rest is within the bound; the one being written stays."""
        while len(self._files) > 1 and sum(each.size for each in self._files) > self._bytes_max:
            self._lost("spool_full", sum(self._files[0].counts))
            self._drop_first()

    # --- out ---

    def first(self, wait_s: float = 0.0) -> Item | None:
        """The oldest item, after waiting for one for at most `wait_s`; it stays until `done`."""
        with self._lock:
            if not self._pending():
                self._lock.wait(wait_s)
            while self._head is None and self._pending():
                self._read_head()
            return self._head[0] if self._head else None

    def done(self, item: Item) -> None:
        """Take the oldest item off, if it is still this one (the bound may have dropped it meanwhile)."""
        with self._lock:
            if self._head is None or self._head[0] is not item:
                return
            self._position = self._head[1]
            self._head = None
            file = self._files[0]
            file.counts.popleft()
            if not file.counts and (len(self._files) > 1 or file.size >= self._file_bytes):
                self._drop_first()
            else:
                self._keep_position()

    def _pending(self) -> bool:
        return any(each.counts for each in self._files)

    def _read_head(self) -> None:
        file = self._files[0]
        try:
            with file.path.open("rb") as stream:
                stream.seek(self._position)
                head = stream.read(FRAME_HEAD_BYTES)
                found = next(frames(head + stream.read(payload_bytes(head)), 0), None)
        except OSError:
            found = None
        if found is None:  # removed or spoilt behind our back
            if file.counts:
                self._lost("spool_failed", sum(file.counts))
            self._drop_first()
            return
        self._head = (found.item, self._position + found.end)

    def _drop_first(self) -> None:
        if len(self._files) == 1:
            self._close_out()
        file = self._files.popleft()
        self._position, self._head = len(MAGIC), None
        self._keep_position()  # before the file goes: its marks are in it
        file.path.unlink(missing_ok=True)

    # --- marks and what is left ---

    def mark(self, name: str) -> str:
        """Up to where a source was read, or an empty text."""
        with self._lock:
            return self._marks.get(name, "")

    def marks(self) -> list[str]:
        """The names of all marks."""
        with self._lock:
            return list(self._marks)

    def forget(self, name: str) -> None:
        """A source that is gone for good needs no mark."""
        with self._lock:
            self._marks.pop(name, None)

    def waiting(self) -> tuple[int, int]:
        """(bytes, rows) that are not delivered."""
        with self._lock:
            size = sum(each.size for each in self._files) - self._position
            return max(0, size), sum(sum(each.counts) for each in self._files)

    def wake(self) -> None:
        """End a wait in `first`."""
        with self._lock:
            self._lock.notify_all()

    def close(self) -> None:
        """Let go of the directory."""
        with self._lock:
            self._keep_position()
            self._close_out()
            os.close(self._guard)

    # --- across processes ---

    def _keep_position(self) -> None:
        """Write where we are and all marks, whole or not at all. After a kill, the items since are sent again."""
        # With none left, the next one's name: a kill before the last one is removed must not send it again.
        first = self._files[0].path.name if self._files else _file_name(self._next_number)
        text = json.dumps({"file": first, "position": self._position, "marks": self._marks})
        beside = self._directory / "position.new"
        try:
            beside.write_text(text)
            beside.replace(self._directory / "position")
        except OSError:
            self._lost("spool_failed", 0)  # the items since are sent again after a restart; the server knows them

    def _restore(self) -> None:
        first, position, self._marks = self._read_position()
        self._next_number = int(first.removesuffix(".spool") or 0)
        for path in sorted(self._directory.glob("*.spool")):
            if not path.stem.isdigit():
                continue
            self._next_number = max(self._next_number, int(path.stem) + 1)
            if path.name < first:
                path.unlink(missing_ok=True)  # delivered; killed before it was removed
            else:
                self._restore_file(path, position if path.name == first else 0)
        self._keep_position()

    def _restore_file(self, path: Path, position: int) -> None:
        data = path.read_bytes()
        start = max(position, len(MAGIC))
        file = _File(path, len(MAGIC))
        for found in frames(data) if data.startswith(MAGIC) else ():
            file.size = found.end
            if found.end > start:  # the marks of what was delivered were kept with the position
                file.counts.append(found.item.rows)
                if found.item.mark:
                    self._marks[found.item.mark] = found.item.at
        if not file.counts:
            path.unlink(missing_ok=True)
            return
        if not self._files:
            self._position = min(start, file.size)
        self._files.append(file)

    def _read_position(self) -> tuple[str, int, dict[str, str]]:
        """(file, position in it, marks) as they were kept last; from the beginning if they cannot be read."""
        try:
            found = json.loads((self._directory / "position").read_text())
            first, position = str(found["file"]), int(found["position"])
            marks = {str(name): str(at) for name, at in list(found["marks"].items())[-MARKS_MAX:]}
        except (OSError, ValueError, TypeError, KeyError, AttributeError):
            return "", 0, {}
        return (first, position, marks) if re.fullmatch(r"[0-9]{16}\.spool", first) else ("", 0, marks)


def _file_name(number: int) -> str:
    return f"{number:016d}.spool"
