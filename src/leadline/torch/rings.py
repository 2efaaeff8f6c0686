"""The rings of this process: one file per thread that writes, made on its first record.

A ring that cannot be made (directory missing, disk full, too many threads) switches itself off with one log line; its
thread then writes into nothing, counted. Nothing here is waited for: the files are memory-mapped, and a full ring
overwrites its oldest records.
"""

from __future__ import annotations

import contextlib
import fcntl
import logging
import mmap
import os
import threading
import time
import uuid
from pathlib import Path
from typing import Any

from leadline.torch.identity import Identity
from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

log = logging.getLogger("leadline.torch")

DIRECTORIES = ("/dev/shm/leadline", "/run/leadline/ring")  # the first that can be written; memory both
SOURCE = "torch-hook"
RINGS_MAX = 32  # 2 gloo threads per process group and a few of the user's; 1.1 MiB each
RECORDS = 8192  # half a MiB: 40 steps of 100 collectives, begin and end, until the agent has read them

Writer = Any  # a RingWriter, or Off: the same methods, doing nothing


class Off:
    """Takes every call of a RingWriter and counts it; stands where a ring could not be made."""

    def __init__(self) -> None:
        self.dropped = 0

    def __getattr__(self, name: str) -> Any:
        return self._count

    def _count(self, *args: object, **kwargs: object) -> None:
        self.dropped += 1


class Rings:
    """Rings by thread. `of_thread()` is the hot path: one dictionary look-up.

    Threads are told apart by `threading.get_ident()`, not by `threading.local`: a gloo thread gets a new Python
    thread state for every callback, and with it an empty local. When a thread ends, the next one with its number
    goes on in its ring, which still has one writer at a time.
    """

    def __init__(self, directory: Path | None, identity: Identity) -> None:
        """`directory` None: switched off from the start."""
        self._directory = directory
        self._identity = identity
        self._by_thread: dict[int, Writer] = {}
        self._off = Off()
        self._opening = threading.RLock()  # a signal handler of the same thread may write, too
        self._said = False
        self._closed = False

    def of_thread(self) -> Writer:
        """This thread's writer."""
        return self._by_thread.get(threading.get_ident()) or self._open()

    @property
    def is_on(self) -> bool:
        """Whether records go anywhere."""
        return self._directory is not None and not self._closed

    @property
    def dropped(self) -> int:
        """Records that could not be written."""
        rings = [ring for ring in list(self._by_thread.values()) if ring is not self._off]
        return self._off.dropped + sum(int(ring.dropped) for ring in rings)

    def close(self) -> None:
        """Say in every ring that nothing more will come. The files stay: the agent reads and removes them."""
        self._closed = True
        for ring in list(self._by_thread.values()):
            if ring is not self._off:
                ring.close()
        self._by_thread = {}

    def abandon(self) -> None:
        """In a forked child: the rings are the parent's. Forget them, and never write again."""
        self._closed = True
        self._by_thread = {}

    def _open(self) -> Writer:
        if self._closed:
            return self._off
        with self._opening:  # once per thread, so never where training would feel it
            ring = self._by_thread[threading.get_ident()] = self._made()
        return ring

    def _made(self) -> Writer:
        if self._directory is not None:
            try:
                if len(self._by_thread) >= RINGS_MAX:
                    raise OSError(f"more than {RINGS_MAX} threads write")
                return make_ring(self._directory, self._identity)
            except Exception as error:
                self._say(error)
        return self._off

    def _say(self, error: Exception) -> None:
        if not self._said:
            self._said = True
            log.warning(
                "leadline: no event ring in %s (%s); what this thread does is not recorded", self._directory, error
            )


def make_ring(directory: Path, identity: Identity, records: int = RECORDS) -> RingWriter:
    """A new ring file of this thread. Errors: OSError, UsageError (a text too long)."""
    size = ring_bytes(records)
    # A pid comes again after a restart of the container: the time makes the name new.
    stem = f"{identity.job[:100]}-{identity.rank}-{os.getpid()}-{threading.get_native_id()}-{time.time_ns():x}"
    name = "".join(one if one.isascii() and (one.isalnum() or one in "-_.") else "_" for one in stem)
    part = directory / f".{name}.part"
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        # Reserves the memory now: writing to a sparse file on a full tmpfs would kill the job with SIGBUS.
        os.posix_fallocate(descriptor, 0, size)
        # Held by the map's own descriptor until this process and its forked children let go of it: it says that the
        # writer lives to an agent that sees no process of our number, as outside of a container.
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        memory = mmap.mmap(descriptor, size)
        format_ring(
            memory,
            host=identity.host,
            job=identity.job,
            rank=identity.rank,
            world_size=identity.world_size,
            source=SOURCE,
            gpu=f"gpu:{identity.gpu}" if identity.gpu else "",
            pid=os.getpid(),
            tid=threading.get_native_id(),
            boot_id=boot_id(),
            start_ns=time.time_ns(),
            start_monotonic_ns=time.monotonic_ns(),
            pid_start_ticks=start_ticks(),
        )
        writer = RingWriter(memory)
        part.rename(directory / f"{name}.ring")
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise
    finally:
        os.close(descriptor)
    return writer


def ring_directory(given: str | None) -> Path | None:
    """The directory for rings: the given one (LEADLINE_RING_DIR), or the first usual one that can be written.

    None, with one log line, if there is none. A given directory is not made: it is the agent's to make, and a
    ring that nobody reads is memory wasted.
    """
    candidates = (given,) if given else DIRECTORIES
    for candidate in candidates:
        path = Path(candidate)
        if os.path.isdir(path) and os.access(path, os.W_OK | os.X_OK):
            return path
    log.warning(
        "leadline: no directory for event rings (%s): training is not watched; start `leadline agent`, or set "
        "LEADLINE_RING_DIR to a directory that this process may write",
        ", ".join(candidates),
    )
    return None


def boot_id() -> bytes:
    """The kernel's boot id, zero if it cannot be read."""
    try:
        return uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes
    except (OSError, ValueError):
        return bytes(16)


def start_ticks() -> int:
    """When this process started, in clock ticks after boot (field 22 of /proc/self/stat); 0 if it cannot be read."""
    try:
        return int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19])
    except (OSError, ValueError, IndexError):
        return 0
