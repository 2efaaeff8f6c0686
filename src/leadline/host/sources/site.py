"""Where a source is: the host, its settings, and the ranks that were seen on it."""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from leadline.host.config import AgentConfig
from leadline.host.counts import AgentCounts
from leadline.model.ids import entity_id

TICKS_PER_S = os.sysconf("SC_CLK_TCK")


class RankSeen(NamedTuple):
    """A process that announced itself as a rank. `start_ticks` makes it one process, whoever has its pid later."""

    job: str
    rank: int
    pid: int
    start_ticks: int
    start_ns: int
    gpu: str  # entity id, or empty

    @property
    def entity(self) -> str:
        """`rank:bert-7/13`."""
        return entity_id("rank", self.job, str(self.rank))


@dataclass(slots=True)
class Site:
    """What all sources share. `mark(name)` is up to where one was read before, as it said; `forget(name)` ends it."""

    config: AgentConfig
    host: str
    clock: str
    boot_id: str
    counts: AgentCounts
    mark: Callable[[str], str] = lambda _: ""
    forget: Callable[[str], None] = lambda _: None
    now_ns: Callable[[], int] = time.time_ns
    looks_only: bool = False  # one reading for a person: nothing is taken away
    look_s: float = 0.0  # the server needs no more than a look into the rings in this time
    ranks: dict[int, RankSeen] = field(default_factory=dict)  # by pid; the ring source keeps it

    def port(self, interface: str) -> str:
        """The entity of a network interface."""
        return entity_id("port", self.host, interface)

    def counts_interface(self, name: str) -> bool:
        """Whether an interface is told of."""
        return bool(name) and not re.fullmatch(self.config.interfaces_not, name)


def read(path: str | Path, bytes_max: int = 256 * 1024) -> bytes:
    """A small file of /proc or /sys, bounded. Errors: OSError."""
    handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    try:
        parts = []
        while bytes_max > 0:
            part = os.read(handle, min(bytes_max, 65_536))
            if not part:
                break
            parts.append(part)
            bytes_max -= len(part)
        return b"".join(parts)
    finally:
        os.close(handle)


def read_if_there(path: str | Path) -> bytes:
    """The same; a file that is not there, or says it cannot, is empty."""
    try:
        return read(path)
    except OSError:
        return b""


def whole_number(word: str) -> int | None:
    """The number that a word is, in at most the 20 digits of 64 bits; None for anything else."""
    word = word.strip()
    return int(word) if word.isascii() and word.isdigit() and len(word) <= 20 else None


def numbers_by_name(text: bytes, between: str) -> dict[str, int]:
    """A file of lines with a name and a whole number, which stand apart by `between`; other lines are passed over."""
    found = {}
    for line in text.decode("latin-1").splitlines():
        name, _, value = line.partition(between)
        number = whole_number(value)
        if number is not None:
            found[name] = number
    return found


def process_is(site: Site, pid: int, start_ticks: int) -> bool:
    """Whether the process of that pid is the one that began then (0: whichever)."""
    stat = read_if_there(site.config.proc_root / str(pid) / "stat")
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 20 or fields[0] in (b"Z", b"X"):
        return False
    return not start_ticks or int(fields[19]) == start_ticks
