"""The event rings of jobs on this host: tailed, sent as segments as they are, and removed when they are done with.

A ring is done with when its writer is gone and all of it was read. What was overwritten before it was read is counted
here and told in the segment. Where the reading stands is kept in the spool with the segments themselves.

Rings are mapped, because only a reader that looks at the same memory as the writer can tell a torn record from a whole
one. Their pages are given back now and then: a job has a ring for each of its threads.
"""

from __future__ import annotations

import contextlib
import fcntl
import mmap
import os
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from leadline.host.found import Found, Segment
from leadline.host.sources.site import RankSeen, Site, process_is
from leadline.host.sources.source import Source
from leadline.model.errors import DataError
from leadline.wire.ring_format import RingHeader, read_header, read_live, read_segment

SEGMENT_BYTES = 512 * 1024  # 8,000 records a request
SEGMENTS_MAX = 8  # of one ring in one look, 64,000 records; the rest comes with the next look
LOOK_BYTES_MAX = 32 * 1024 * 1024  # of all rings in one look: what an agent that comes late holds in memory
RINGS_MAX = 1024
RING_BYTES_MAX = 64 * 1024 * 1024  # anybody may put files there
# Pages are given back after so much was read of a ring: 2.5 MiB stay mapped of 40 rings. At each look it took a quarter
# of the time of a look, for the call and for the pages that are mapped again.
HELD_BYTES_MAX = 64 * 1024
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
    lost_to: int = 0  # number of the last record that was counted as overwritten before it was read
    held_bytes: int = 0  # read since its pages were given back
    is_open: bool = True  # its writer lives and may write, or wrote what was not read

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
        processes: dict[tuple[int, int], bool] = {}  # whether they are here; one has a ring for each of its threads
        room = LOOK_BYTES_MAX
        for tail in list(self._tails.values()):
            who = tail.header.pid, tail.header.pid_start_ticks
            if who not in processes:
                processes[who] = process_is(self.site, *who)
            is_here = processes[who]
            alive = is_here or _is_held(tail.handle)  # in a container its process has another number for us
            try:
                read_bytes = self._read(tail, found, room)
            except DataError:  # spoilt, or made anew under our feet
                self.site.counts.add("agent_lost", "ring_spoilt")
                self._end(tail, remove=not alive and not self.site.looks_only)
                continue
            room -= read_bytes
            if is_here:
                self._announce(tail.header)
            if not alive and not read_bytes and found.is_whole and not self.site.looks_only:
                self._end(tail, remove=True)  # what the look before found is in the spool by now
        found.jobs = self._jobs()
        return found

    def not_kept(self) -> None:
        for tail in self._tails.values():
            tail.last = self._kept(tail)

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
                    tail.last = self._kept(tail)
                    self._tails[path] = tail

    def _kept(self, tail: Tail) -> int:
        """The number of the last record that is in the spool."""
        kept = self.site.mark(tail.mark)
        return int(kept) if kept.isdigit() else 0

    def _jobs(self) -> dict[str, int]:
        """How many ranks of each job have a ring into which they still write."""
        headers = (tail.header for tail in self._tails.values() if tail.is_open)
        ranks = {(header.job, header.rank) for header in headers if header.job and header.rank >= 0}
        return dict(Counter(job for job, _ in ranks))

    def _read(self, tail: Tail, found: Found, room: int) -> int:
        """Read what is new, and no more than is good for one look; returns how many bytes.

        `room`: so many bytes are left for this look. Errors: DataError for what is no ring any more.
        """
        read_bytes = 0
        if os.fstat(tail.handle).st_size < len(tail.memory):
            raise DataError(str(tail.path), f"{len(tail.memory)} bytes", "a ring that was cut short")
        live = read_live(tail.memory)  # before the records: what it closed with is then read, too
        more = live.written != tail.last
        for _ in range(SEGMENTS_MAX):
            if not more or read_bytes >= room:
                break
            reading = read_segment(tail.memory, tail.last, SEGMENT_BYTES)
            self._count_lost(tail, tail.last + reading.lost)
            if not reading.segment:
                more = False
                break
            records = reading.last - tail.last - reading.lost
            found.segments.append(Segment(reading.segment, records, tail.mark, reading.last))
            read_bytes += len(reading.segment)
            tail.last, more = reading.last, reading.more
        found.is_whole &= not more
        tail.is_open = not live.closed or more
        if live.dropped > tail.dropped:
            self.site.counts.add("agent_lost", "ring_writer", live.dropped - tail.dropped)
            tail.dropped = live.dropped
        tail.held_bytes += read_bytes
        if tail.held_bytes > HELD_BYTES_MAX:
            tail.memory.madvise(mmap.MADV_DONTNEED)
            tail.held_bytes = 0
        return read_bytes

    def _count_lost(self, tail: Tail, to: int) -> None:
        """Count the records up to that number that were overwritten before they were read; each once."""
        amount = to - max(tail.last, tail.lost_to)
        if amount > 0:
            self.site.counts.add("agent_lost", "ring_overrun", amount)
            tail.lost_to = to

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
