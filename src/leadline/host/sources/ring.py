"""The event rings of jobs on this host: tailed, sent as segments as they are, and removed when they are done with.

A ring is done with when its writer is gone and all of it was read. What was overwritten before it was read is counted
here and told in the segment. Where the reading stands is kept in the spool with the segments themselves.

Rings are read by copy (pread), never mapped: whoever owns one may cut it short while it is read, and a reader of the
mapped memory would die of that (SIGBUS). The copy comes from the same pages that the writer has mapped, so that
it shows torn records too.

Whoever may write to the directory may claim to be any rank of any job. So a ring counts only if its file belongs to the
owner of the process it names, where that is seen here; else to the owner of the process that holds its lock. Of a
writer that is gone nothing can be told any more. A ring of root's is taken.
"""

from __future__ import annotations

import fcntl
import math
import os
import re
import stat
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from leadline.host.found import Found, Segment
from leadline.host.sources.access import Access, Grant, UntriedError
from leadline.host.sources.site import RankSeen, Site, process_is, read_if_there
from leadline.host.sources.source import Source
from leadline.model.errors import DataError
from leadline.wire.ring.format import RingHeader, header_at, live_at, segment_at

SEGMENT_BYTES = 512 * 1024  # 8,000 records a request
SEGMENTS_MAX = 8  # of one ring in one look, 64,000 records; the rest comes with the next look
LOOK_BYTES_MAX = 32 * 1024 * 1024  # of all rings in one look: what an agent that comes late holds in memory
RINGS_MAX = 1024
RING_BYTES_MAX = 64 * 1024 * 1024  # anybody may put files there
STRINGS_BYTES_MAX = 1024 * 1024  # go with each segment; the torch hook's table has 64 KiB
MARK = "ring/"
FULL_SHARE = 0.25  # of a ring by the next look, as things go: a burst of four times as much is not lost


@dataclass(slots=True)
class Tail:
    """One ring that is read. `last` is the number of the last record read."""

    path: Path
    handle: int
    size: int  # of the file, when it was opened
    header: RingHeader
    last: int
    inode: tuple[int, int]
    owner: int  # user id
    dropped: int = 0  # by the writer, as it was last seen
    lost_to: int = 0  # number of the last record that was counted as overwritten before it was read
    is_open: bool = True  # its writer lives and may write, or wrote what was not read

    @property
    def mark(self) -> str:
        """One ring of one writer: a file of the same name may be another job's tomorrow."""
        return f"{MARK}{self.path.name}/{self.header.pid}/{self.header.tid}/{self.header.start_ns}"

    def look(self, at: int, size: int) -> bytes:
        """A copy of so many bytes from there. Errors: DataError if they are not there any more."""
        return _look(self.path, self.handle, at, size)

    def close(self) -> None:
        """Let go of the file."""
        os.close(self.handle)


def _directory(site: Site) -> str:
    """Whether rings can be found there and be removed when they are done with. Errors: OSError."""
    directory = site.config.ring_dir
    if not directory.is_dir():
        above = next(each for each in directory.parents if each.is_dir())
        if not os.access(above, os.W_OK | os.X_OK, effective_ids=True):
            raise PermissionError(f"{directory} is not there, and cannot be made in {above}")
        return f"{directory} is made when the agent starts"
    count = sum(name.endswith(".ring") for name in os.listdir(directory))
    if not os.access(directory, os.W_OK | os.X_OK, effective_ids=True):
        raise PermissionError(f"{directory} cannot be written to, so that rings of ended jobs stay")
    return f"{directory}: {count} rings"


def _foreign(site: Site) -> str:
    """Open the rings of other users' jobs. Errors: PermissionError, UntriedError where there are none now."""
    opened = 0
    for path in sorted(site.config.ring_dir.glob("*.ring"))[:RINGS_MAX]:
        try:
            if path.lstat().st_uid != os.geteuid():
                os.close(os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK))
                opened += 1
        except FileNotFoundError:
            continue  # its job has just ended
    if not opened:
        raise UntriedError("no job of another user has a ring here now")
    return f"{opened} rings of other users"


class Ring(Source):
    """Every `*.ring` in the directory."""

    name = "ring"
    reports = "event rings of jobs: steps, collectives, messages"
    told_as = "segments for `/api/v1/ring`, [as they are](../formats/ring.md)"
    accesses = (
        Access(
            "directory of event rings",
            _directory,
            "steps, collectives and messages of jobs on this host are unknown: no step times, lost time, stalls or "
            "slow ranks",
            Grant(
                "CAP_DAC_OVERRIDE",
                "make it by `install -d -m 1777 /dev/shm/leadline`",
                "mount the node's /dev/shm/leadline",
            ),
            ("straggler", "slow-input", "checkpoint-storm", "imbalanced-work"),
        ),
        Access(
            "rings of other users' jobs",
            _foreign,
            "jobs of other users are not seen: a ring is readable by its owner and group only",
            Grant("CAP_DAC_READ_SEARCH"),
            ("straggler", "slow-input", "checkpoint-storm", "imbalanced-work"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._make_directory()
        self._tails: dict[Path, Tail] = {}
        self._refused: set[tuple[int, int]] = set()  # files of somebody else than the process they name
        self._looked_s = time.monotonic()
        self._room_s = 0.0  # no ring is fuller than FULL_SHARE in this time
        self._fullest = 0.0  # share of a ring that this look found new

    @property
    def every_s(self) -> float:
        return max(self.site.config.ring_interval_s, min(self.site.look_s, self._room_s))

    def poll(self, now_ns: int) -> Found:
        found = Found()
        since_s, self._looked_s, self._fullest = time.monotonic() - self._looked_s, time.monotonic(), 0.0
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
        self._room_s = since_s * FULL_SHARE / self._fullest if self._fullest else math.inf
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
        seen: set[tuple[int, int]] = set()
        for name in sorted(names)[:RINGS_MAX]:
            path = self.site.config.ring_dir / name
            if path in self._tails:
                continue
            tail = _open(path)
            if tail is None:
                continue
            if not _owned(self.site, tail):
                tail.close()
                seen.add(tail.inode)
                if tail.inode not in self._refused:  # each once, however often it is looked at
                    self.site.counts.add("agent_lost", "ring_owner")
                continue
            tail.last = self._kept(tail)
            self._tails[path] = tail
        self._refused = seen

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
        live = live_at(tail.look)  # before the records: what it closed with is then read, too
        more = live.written != tail.last
        self._fullest = max(self._fullest, (live.written - tail.last) / tail.header.capacity)
        for _ in range(SEGMENTS_MAX):
            if not more or read_bytes >= room:
                break
            reading = segment_at(tail.look, tail.size, tail.last, SEGMENT_BYTES)
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
    """A ring opened for reading; None for a file that is not one (yet)."""
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except OSError:
        return None
    try:
        told = os.fstat(handle)
        if not stat.S_ISREG(told.st_mode) or told.st_size > RING_BYTES_MAX:
            raise DataError(str(path), f"a file of at most {RING_BYTES_MAX} bytes", str(told.st_size))
        header = header_at(lambda at, size: _look(path, handle, at, size), told.st_size)
        if header.strings_bytes > STRINGS_BYTES_MAX:
            raise DataError(str(path), f"at most {STRINGS_BYTES_MAX} bytes of strings", str(header.strings_bytes))
        return Tail(path, handle, told.st_size, header, 0, (told.st_dev, told.st_ino), told.st_uid)
    except (OSError, DataError):
        os.close(handle)
        return None


def _look(path: Path, handle: int, at: int, size: int) -> bytes:
    """A copy of so many bytes of a ring. Errors: DataError if they are not there (any more)."""
    try:
        found = os.pread(handle, size, at)
    except OSError as error:
        raise DataError(str(path), f"{size} bytes at byte {at}", error.strerror or "an error") from error
    if len(found) != size:
        raise DataError(str(path), f"{size} bytes at byte {at}", f"{len(found)}: a ring that was cut short")
    return found


def _owned(site: Site, tail: Tail) -> bool:
    """Whether the file belongs to who the process is that it names, or that holds its lock; also where neither is seen
    here any more."""
    if tail.owner == 0:
        return True
    pid = tail.header.pid
    if not process_is(site, pid, tail.header.pid_start_ticks):
        held_by = _holder(site, tail.inode)
        if held_by is None:
            return True
        pid = held_by
    owners = _owners(read_if_there(site.config.proc_root / str(pid) / "status"))
    return not owners or tail.owner in owners  # none: it has ended since


def _owners(status: bytes) -> set[int]:
    """The users of a process, from /proc/PID/status: real, effective, saved, of its files."""
    found = re.search(rb"^Uid:\s+(.+)$", status, re.MULTILINE)
    return {int(word) for word in found[1].split()} if found else set()


def _holder(site: Site, inode: tuple[int, int]) -> int | None:
    """The process that holds the lock of a file, by /proc/locks; None if none is seen from here."""
    device, number = inode
    name = f"{os.major(device):02x}:{os.minor(device):02x}:{number}".encode()
    for line in read_if_there(site.config.proc_root / "locks").splitlines():
        words = line.split()  # 1: FLOCK  ADVISORY  WRITE 2231 00:1b:4 0 EOF
        if len(words) > 5 and words[1] == b"FLOCK" and words[5] == name and words[4].isdigit():
            return int(words[4]) or None  # 0: one that has no number here
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
