"""The event ring of a rank that runs without torch: one file, one thread; and the edges that such a rank announces.

`leadline.torch` does the same for training programs; importing it would import torch, which takes seconds.
"""

from __future__ import annotations

import fcntl
import mmap
import os
import socket
import threading
import time
import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from leadline.wire.ring.writer import RingWriter, format_ring, ring_bytes

SOURCE = "ring-benchmark"

Edge = tuple[str, str, str]  # child, kind, parent


@dataclass(frozen=True, slots=True)
class Member:
    """Who this process is, as its launcher tells in the environment."""

    job: str
    rank: int
    ranks: int
    host: str
    gpu: str  # GPU-<uuid>, or empty

    @property
    def entity(self) -> str:
        """`rank:rings-1/3`"""
        return f"rank:{self.job}/{self.rank}"

    def edges(self) -> list[Edge]:
        """What a rank stands on: its job, its process, its host, its GPU."""
        process = f"process:{self.host}/{os.getpid()}"
        edges = [
            (self.entity, "in", f"job:{self.job}"),
            (self.entity, "runs-on", process),
            (process, "in", f"host:{self.host}"),
            (self.entity, "runs-on", f"host:{self.host}"),
        ]
        return [*edges, (self.entity, "runs-on", f"gpu:{self.gpu}")] if self.gpu else edges


def member_from(environ: Mapping[str, str]) -> Member:
    """Rank 0 of 1 in a job called `local`, unless the environment says otherwise. Errors: ValueError."""
    return Member(
        job=environ.get("LEADLINE_JOB", "local"),
        rank=int(environ.get("RANK", "0")),
        ranks=int(environ.get("WORLD_SIZE", "1")),
        host=environ.get("LEADLINE_HOST") or socket.gethostname(),
        gpu=environ.get("CUDA_VISIBLE_DEVICES", ""),
    )


def open_ring(directory: str | None, member: Member, records: int, strings_bytes: int) -> RingWriter | None:
    """A new ring in LEADLINE_RING_DIR; None without one. Errors: OSError."""
    if not directory:
        return None
    size = ring_bytes(records, strings_bytes)
    name = f"{member.job}-{member.rank}-{os.getpid()}-{time.time_ns():x}"
    part = Path(directory) / f".{name}.part"
    descriptor = os.open(part, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o640)
    try:
        os.posix_fallocate(descriptor, 0, size)  # a sparse file on a full tmpfs would end us with SIGBUS
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)  # says that we live, see docs/formats/ring.md
        memory = mmap.mmap(descriptor, size)
    finally:
        os.close(descriptor)
    format_ring(
        memory,
        host=member.host,
        job=member.job,
        rank=member.rank,
        world_size=member.ranks,
        source=SOURCE,
        gpu=f"gpu:{member.gpu}" if member.gpu else "",
        pid=os.getpid(),
        tid=threading.get_native_id(),
        boot_id=uuid.UUID(Path("/proc/sys/kernel/random/boot_id").read_text().strip()).bytes,
        start_ns=time.time_ns(),
        start_monotonic_ns=time.monotonic_ns(),
        pid_start_ticks=int(Path("/proc/self/stat").read_text().rpartition(")")[2].split()[19]),
        strings_bytes=strings_bytes,
    )
    part.rename(part.with_name(f"{name}.ring"))
    return RingWriter(memory)


class Announced:
    """Edges that hold as long as this process works; told at the start, and with their end at the end."""

    def __init__(self, ring: RingWriter | None) -> None:
        self._ring = ring
        self._since: dict[Edge, int] = {}

    def tell(self, edges: Iterable[Edge]) -> None:
        """Announce those that are new."""
        now_ns = time.time_ns()
        for edge in edges:
            if edge not in self._since:
                self._since[edge] = now_ns
                if self._ring is not None:
                    self._ring.relation(*edge, now_ns)

    def end(self) -> None:
        """They hold no longer."""
        if self._ring is not None:
            now_ns = time.time_ns()
            for edge, since_ns in self._since.items():
                self._ring.relation(*edge, since_ns, now_ns)
        self._since = {}
