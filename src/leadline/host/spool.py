"""What is not delivered yet, on disk: bounded, first in first out, whole after `kill -9`.

A directory of append-only files. Several items may be on their way at once; one is taken off when it and all before it
are delivered, by moving a position, and a file goes when all its items are. Over the bound the oldest file goes, and
its items are counted as lost. Nothing is synced to the disk: what was appended survives the end of the process, not a
power failure, and the job's disk is left alone.

Marks say up to where a source was read when an item was made (`kmsg` is at record 812). They are stored in the same
write as the item, so that after a kill nothing is read twice and nothing is skipped.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from leadline.host.frames import FRAME_HEAD_BYTES, ITEM_BYTES_MAX, MAGIC, Item, frames, payload_bytes, to_frame
from leadline.model.errors import WorldError

FILES = 16  # the bound divided by this is a file's size, and what is lost at once when the bound is met
OUT_MAX = 16  # items held in memory while the oldest of them is not delivered: 32 MiB where they are largest
RATE_S_MIN = 300.0  # a rate is known after so long: the sources that are asked most seldom were asked ten times
MARKS_MAX = 4096  # names of marks; rings come and go, their marks are forgotten with `forget`


class _Kept(NamedTuple):
    """What is remembered of an item that lies on disk."""

    rows: int
    after_ns: int


@dataclass(slots=True)
class _File:
    """One file. `kept` are its items that are not taken off, in order; the last `unread` of them begin at `read`."""

    path: Path
    size: int
    magic: bytes = MAGIC
    kept: deque[_Kept] = field(default_factory=deque)
    unread: int = 0
    read: int = len(MAGIC)

    @property
    def rows(self) -> int:
        return sum(each.rows for each in self.kept)


@dataclass(slots=True)
class _Out:
    """An item that was read from disk and is not taken off."""

    item: Item
    file: _File
    end: int  # where the next one begins
    is_taken: bool = False
    is_done: bool = False


class Spool:
    """One lane's items. Thread-safe: one thread appends, others take off."""

    def __init__(self, directory: Path, bytes_max: int, lost: Callable[[str, int], None]) -> None:
        """Read what an earlier process left. `lost(reason, rows)` is told what is dropped, before anybody can see it.

        Errors: WorldError if the directory cannot be used, or another agent uses it.
        """
        self._directory = directory
        self._bytes_max = bytes_max
        self._kept_bytes = 0  # in all, since it was opened
        self._opened_at = time.monotonic()
        self._file_bytes = max(64 * 1024, bytes_max // FILES)
        self._lost = lost
        self._lock = threading.Condition()
        self._files: deque[_File] = deque()
        self._marks: dict[str, str] = {}
        self._position = len(MAGIC)  # in the first file
        self._window: deque[_Out] = deque()  # the oldest items, as far as they were read
        self._out: int | None = None  # the last file, open for appending
        self._next_number = 0
        self._is_ending = False
        try:
            directory.mkdir(parents=True, exist_ok=True)
            if directory.stat().st_uid == os.geteuid():
                directory.chmod(0o700)  # what the jobs of all tenants here have told
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

    def append(self, item: Item, *, is_last_chance: bool = True) -> bool:
        """Keep an item; returns whether it is kept.

        If the disk does not take it, it is counted as lost, unless the caller has it still (`is_last_chance` False).
        """
        frame = to_frame(item)
        if len(item.body) > ITEM_BYTES_MAX:
            self._lost("too_large", item.rows)
            return False
        with self._lock:
            try:
                self._write(frame, _Kept(item.rows, item.after_ns))
            except OSError:
                self._close_out()  # a half-written frame ends this file; the next item begins another
                self._drop_empty_last()
                self._lost("spool_failed", item.rows if is_last_chance else 0)
                return False
            self._kept_bytes += len(frame)
            self._marks.update(item.marks)
            self._make_room()
            self._lock.notify()
        return True

    def _write(self, frame: bytes, kept: _Kept) -> None:
        if self._out is None or self._files[-1].size + len(frame) > self._file_bytes:
            self._begin_file()
        assert self._out is not None
        if os.write(self._out, frame) != len(frame):
            raise OSError("disk full")
        last = self._files[-1]
        last.size += len(frame)
        last.kept.append(kept)
        last.unread += 1

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
        if len(self._files) > 1 and not self._files[-1].kept:
            self._files.pop().path.unlink(missing_ok=True)

    def _make_room(self) -> None:
        """Let the oldest files go until the rest is within the bound; the one being written stays."""
        while len(self._files) > 1 and sum(each.size for each in self._files) > self._bytes_max:
            self._lost("spool_full", self._files[0].rows)
            self._drop_first()

    # --- out ---

    def first(self) -> Item | None:
        """The oldest item; it stays until `done`."""
        with self._lock:
            self._read_until(lambda: bool(self._window))
            return self._window[0].item if self._window else None

    def take(self, wait_s: float = 0.0) -> Item | None:
        """The oldest item that nobody has taken, after waiting for one for at most `wait_s`.

        It is its taker's until `done`; in the next process it is there again.
        """
        with self._lock:
            found = self._untaken()
            if found is None and wait_s > 0 and not self._is_ending:
                self._lock.wait(wait_s)
                found = self._untaken()
            if found is None:
                return None
            found.is_taken = True
            return found.item

    def done(self, item: Item) -> None:
        """This item is delivered: take off all that are, up to the first that is not.

        One that the bound has dropped meanwhile is passed over.
        """
        with self._lock:
            for out in self._window:
                if out.item is item:
                    out.is_done = True
            moved = False
            while self._window and self._window[0].is_done:
                self._take_off(self._window.popleft())
                moved = True
            if moved:
                self._keep_position()
                self._lock.notify()  # who waits because too many are out

    def holds(self, item: Item) -> bool:
        """Whether a taken item is still kept: the bound may have dropped it."""
        with self._lock:
            return any(out.item is item for out in self._window)

    def _take_off(self, out: _Out) -> None:
        while (file := self._files[0]) is not out.file:
            assert not file.kept, "items are taken off in order"
            self._drop_first()  # one that an earlier process left: nobody appends to it
        self._position = out.end
        file.kept.popleft()
        if not file.kept and (len(self._files) > 1 or file.size >= self._file_bytes):
            self._drop_first()

    def _untaken(self) -> _Out | None:
        self._read_until(lambda: len(self._window) >= OUT_MAX or any(not out.is_taken for out in self._window))
        return next((out for out in self._window if not out.is_taken), None)

    def _read_until(self, is_enough: Callable[[], bool]) -> None:
        while not is_enough():
            file = next((each for each in self._files if each.unread), None)
            if file is None:
                return
            self._read_next(file)

    def _read_next(self, file: _File) -> None:
        try:
            with file.path.open("rb") as stream:
                stream.seek(file.read)
                head = stream.read(FRAME_HEAD_BYTES)
                found = next(frames(head + stream.read(payload_bytes(head)), 0, file.magic), None)
        except OSError:
            found = None
        if found is None:
            self._give_up(file)
            return
        out = _Out(found.item, file, file.read + found.end)
        file.read, file.unread = out.end, file.unread - 1
        self._window.append(out)

    def _give_up(self, file: _File) -> None:
        """The rest of a file was removed or spoilt behind our back."""
        spoilt = [file.kept.pop() for _ in range(file.unread)]
        file.unread = 0
        self._lost("spool_failed", sum(each.rows for each in spoilt))
        if file is self._files[-1]:
            self._close_out()
        if file.kept:
            return  # the rest goes with the items that were read before
        if file is self._files[0]:
            self._drop_first()
        else:
            self._files.remove(file)
            file.path.unlink(missing_ok=True)

    def _drop_first(self) -> None:
        if len(self._files) == 1:
            self._close_out()
        file = self._files.popleft()
        self._window = deque(out for out in self._window if out.file is not file)
        self._position = len(MAGIC)
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
            return max(0, size), sum(each.rows for each in self._files)

    def lasts_s(self) -> float | None:
        """How long an outage may last before the oldest is dropped, at the rate since it was opened, in seconds; None:
        not known yet. One file less than the bound, as a whole one is dropped at a time."""
        with self._lock:
            open_s = time.monotonic() - self._opened_at
            if open_s < RATE_S_MIN or not self._kept_bytes:
                return None
            waiting = sum(each.size for each in self._files) - self._position
            return max(0, self._bytes_max - self._file_bytes - waiting) * open_s / self._kept_bytes

    def after_ns(self) -> int | None:
        """Of the oldest item that is not delivered: everything seen up to then is. None: nothing waits."""
        with self._lock:
            return next((file.kept[0].after_ns for file in self._files if file.kept), None)

    def wake(self) -> None:
        """End all waits in `take`, now and from now on: who takes is about to stop."""
        with self._lock:
            self._is_ending = True
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
            if not path.stem.isdecimal():
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
        file = _File(path, len(MAGIC), data[: len(MAGIC)], read=start)
        for found in frames(data, magic=file.magic):
            file.size = found.end
            if found.end > start:  # the marks of what was delivered were kept with the position
                file.kept.append(_Kept(found.item.rows, found.item.after_ns))
                self._marks.update(found.item.marks)
        if not file.kept:
            path.unlink(missing_ok=True)
            return
        file.unread = len(file.kept)
        if not self._files:
            self._position = start
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
