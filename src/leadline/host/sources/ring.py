"""The event rings of jobs on this host: tailed, sent as segments as they are, and removed when they are done with.

A ring is done with when its writer is gone and all of it was read. What was overwritten before it was read is counted
here and told in the segment. Where the reading stands is kept in the spool with the segments themselves.

Rings are mapped, because only a reader that looks at the same memory as the writer can tell a torn record from a whole
one. Their pages are given back after each look: a job has a ring for each of its threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from dataclasses import dataclass
from pathlib import Path

from leadline.host.found import Found, Segment
from leadline.host.sources.site import RankSeen, Site, process_is
from leadline.host.sources.source import Source
from leadline.model.errors import DataError
from leadline.wire.ring_format import RingHeader, read_header, read_segment

SEGMENT_BYTES = 512 * 1024  # 8,000 records a request
SEGMENTS_MAX = 8  # of one ring in one look, 64,000 records; the rest comes with the next look
RINGS_MAX = 1024
RING_BYTES_MAX = 64 * 1024 * 1024  # anybody may put files there
MARK = "ring/"


@dataclass(slots=True)
class Tail:
    """One ring that is read. `last` is the number of the last record read."""

    path: Path
    handle: int
    memory: mmap.mmap
    header: RingHeader
    last: int
    inode: tuple[int, int]
    dropped: int = 0  # by the writer, as it was last seen

    @property
    def mark(self) -> str:
        """One ring of one writer: a file of the same name may be another job's tomorrow."""
        return f"{MARK}{self.path.name}/{self.header.pid}/{self.header.tid}/{self.header.start_ns}"

    def close(self) -> None:
        """Let go of the file. Views of it that an error still holds are let go with the error."""
        os.close(self.handle)
        with contextlib.suppress(BufferError):
            self.memory.close()


class Ring(Source):
    """Every `*.ring` in the directory."""

    name = "ring"

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._make_directory()
        self._tails: dict[Path, Tail] = {}

    @property
    def every_s(self) -> float:
        return self.site.config.ring_interval_s

    def poll(self, now_ns: int) -> Found:
        found = Found()
        self._open_new()
        for tail in list(self._tails.values()):
            is_here = process_is(self.site, tail.header.pid, tail.header.pid_start_ticks)
            alive = is_here or _is_held(tail.handle)  # in a container its process has another number for us
            try:
                has_news = self._read(tail, found)
            except DataError:  # spoilt, or made anew under our feet
                self.site.counts.add("agent_lost", "ring_spoilt")
                self._end(tail, remove=not alive and not self.site.looks_only)
                continue
            if is_here:
                self._announce(tail.header)
            if (
                not alive and not has_news and not self.site.looks_only
            ):  # what the look before found is in the spool by now
                self._end(tail, remove=True)
        return found

    def close(self) -> None:
        for tail in self._tails.values():
            tail.close()
        self._tails.clear()

    def _make_directory(self) -> None:
        """Jobs of any user may put rings there, and only they and we remove them: as with /tmp."""
        directory = self.site.config.ring_dir
        if not self.site.looks_only and not directory.is_dir():
            directory.mkdir(parents=True)
            directory.chmod(0o1777)

    def _open_new(self) -> None:
        try:
            names = [each for each in os.listdir(self.site.config.ring_dir) if each.endswith(".ring")]
        except OSError:
            return  # no job has begun yet
        for name in sorted(names)[:RINGS_MAX]:
            path = self.site.config.ring_dir / name
            if path not in self._tails:
                tail = _open(path)
                if tail is not None:
                    kept = self.site.mark(tail.mark)
                    tail.last = int(kept) if kept.isdigit() else 0
                    self._tails[path] = tail

    def _read(self, tail: Tail, found: Found) -> bool:
        """Read what is new, and no more than is good for one look; returns whether there was anything."""
        before = tail.last
        if os.fstat(tail.handle).st_size < len(tail.memory):
            raise DataError(str(tail.path), f"{len(tail.memory)} bytes", "a ring that was cut short")
        for _ in range(SEGMENTS_MAX):
            reading = read_segment(tail.memory, tail.last, SEGMENT_BYTES)
            if reading.lost:
                self.site.counts.add("agent_lost", "ring_overrun", reading.lost)
            if not reading.segment:
                break
            records = reading.last - tail.last - reading.lost
            found.segments.append(Segment(reading.segment, records, tail.mark, reading.last))
            tail.last = reading.last
            if not reading.more:
                break
        dropped = read_header(tail.memory).dropped
        if dropped > tail.dropped:
            self.site.counts.add("agent_lost", "ring_writer", dropped - tail.dropped)
            tail.dropped = dropped
        if tail.last > before:
            tail.memory.madvise(mmap.MADV_DONTNEED)
        return tail.last > before

    def _announce(self, header: RingHeader) -> None:
        if header.rank >= 0 and header.job and header.pid not in self.site.ranks:
            self.site.ranks[header.pid] = RankSeen(
                header.job, header.rank, header.pid, header.pid_start_ticks, header.start_ns, header.gpu
            )

    def _end(self, tail: Tail, *, remove: bool) -> None:
        """No longer read a ring. `remove`: its writer is gone, so nobody else will."""
        self._tails.pop(tail.path, None)
        tail.close()
        if not remove:
            return
        self.site.forget(tail.mark)
        if _inode(tail.path) == tail.inode:  # not a new one of the same name
            tail.path.unlink(missing_ok=True)


def _open(path: Path) -> Tail | None:
    """A ring mapped for reading; None for a file that is not one (yet)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        told = os.fstat(handle)
        if told.st_size > RING_BYTES_MAX:
            raise DataError(str(path), f"at most {RING_BYTES_MAX} bytes", str(told.st_size))
        memory = mmap.mmap(handle, 0, access=mmap.ACCESS_READ)
        return Tail(path, handle, memory, read_header(memory), 0, (told.st_dev, told.st_ino))
    except (OSError, ValueError, DataError):
        os.close(handle)
        return None


def _is_held(handle: int) -> bool:
    """Whether a writer holds the lock of its ring. One that takes no lock is known by its process only."""
    try:
        fcntl.flock(handle, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    except OSError:
        return False
    fcntl.flock(handle, fcntl.LOCK_UN)
    return False


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        told = path.stat()
    except OSError:
        return None
    return told.st_dev, told.st_ino
