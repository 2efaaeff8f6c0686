"""Threads that keep the server process within its memory, before the kernel's out-of-memory killer does.

    each 0.25 s  held ──> pressure ── full ──> Room.shut: bodies are answered 429 or 503; queries 429; /ready 503
                             │                 until it is not
                             └─ tight, full ──> release: caches let go, allocators give back (a thread of its own)
    each minute  allocators give back what is free

What was acknowledged is stored, and what is refused its sender keeps: nothing is lost, it comes later. Datagrams of
sFlow have no sender that keeps them; they go on being taken, within `ingest.sflow.queue_bytes_max`.
Source of the idea: the memory limiter of the OpenTelemetry Collector (soft limit: refuse; hard limit: collect garbage),
here the other way round, since what is cheap to give up goes first.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

from leadline.ingest.limits import Room
from leadline.model.counters import Counter, counter
from leadline.model.errors import BusyError, ConfigError, WorldError
from leadline.server.memory.limit import held_bytes
from leadline.server.memory.pressure import Pressure, pressure

log = logging.getLogger("leadline.memory")

LOOK_EVERY_S = 0.25  # at 1,000,000 samples/s, 32 bytes each, 8 MB come in between
RELEASE_EVERY_S = 30.0  # caches that are dropped more often than this are no caches
RELEASE_FULL_EVERY_S = 2.0
TRIM_EVERY_S = 60.0
SAY_EVERY_S = 60.0
RETRY_AFTER_S = 5
RECENT_S = 600.0  # for so long it is told that it was full, as errors of senders are
MIB = 1 << 20

Count = Callable[[Counter, int], None]
Release = tuple[str, Callable[[], object]]


class MemoryWatch:
    """The threads. Construction is inert."""

    def __init__(
        self,
        bytes_max: int,
        room: Room,
        releases: Sequence[Release],
        count: Count,
        held: Callable[[], int] = held_bytes,
        trim: Callable[[], object] = lambda: None,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        """`releases`: names of what is let go, and how; one that fails is logged and the next is done.
        `trim` is done each minute, however much is held."""
        self.bytes_max = bytes_max
        self._room, self._releases, self._count = room, releases, count
        self._held, self._trim, self._clock_s = held, trim, clock_s
        self.pressure = Pressure.EASY
        self.held_bytes = 0
        self.full_at_s: float | None = None  # when it was full last
        self._released_s: float | None = None
        self._said_s: float | None = None
        self._stop = threading.Event()
        self._wanted = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, name="memory", daemon=True),
            threading.Thread(target=self._run_releases, name="memory-release", daemon=True),
        ]

    def start(self) -> None:
        """Begin to look. Errors: ConfigError if the budget is less than what the process holds already."""
        if (held := self._held()) >= self.bytes_max:
            raise ConfigError(
                f"server.memory_bytes_max must be more than the {held // MIB} MiB that the server holds at its "
                f"start, got {self.bytes_max // MIB}; give it 1 GiB, or remove the setting for half of the machine's"
            )
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Look no more; nothing is refused any longer for want of memory."""
        self._stop.set()
        self._wanted.set()
        for thread in self._threads:
            if thread.is_alive():
                thread.join()
        self._room.shut("")

    @property
    def full_words(self) -> str:
        """Why nothing new is taken; empty while it is."""
        if self.pressure is not Pressure.FULL:
            return ""
        return (
            f"the server holds all the memory that it may, {self._share()} (server.memory_bytes_max); try again in "
            f"{RETRY_AFTER_S} s"
        )

    def require_room(self) -> None:
        """Errors: BusyError while memory is full; the query is counted as refused."""
        if words := self.full_words:
            self._count(counter("query_refused", "memory_full"), 1)
            raise BusyError(words, RETRY_AFTER_S, "memory_full")

    def require_ready(self) -> None:
        """Errors: WorldError while memory is full, and so no telemetry is taken."""
        if words := self.full_words:
            raise WorldError(words)

    def look(self) -> None:
        """Look once: shut or open the way in, and have things let go."""
        self.held_bytes = self._held()
        before, now = self.pressure, pressure(self.held_bytes, self.bytes_max, self.pressure)
        if now is not before:
            self.pressure = now
            self._say("memory is %s, was %s: %s", now.word, before.word, self._share())
        if now > before:
            self._count(counter("memory", now.word), 1)
        if now is Pressure.FULL:
            self.full_at_s = self._clock_s()
        self._room.shut(self.full_words)
        if now > before or self._due():
            self._released_s = self._clock_s()
            self._wanted.set()

    def release(self) -> None:
        """Let go of all that can be had again."""
        before = self._held()
        for name, let_go in self._releases:
            try:
                let_go()
            except Exception as error:
                self._count(counter("background_failed", "memory"), 1)
                log.error("letting go of %s failed, the rest is let go: %s", name, error, exc_info=error)
        log.info("memory: %d MiB were let go of %d", max(0, before - self._held()) // MIB, before // MIB)

    def _say(self, text: str, *words: str) -> None:
        """Log, once a minute at most: a budget that is too small is full every few seconds, which counters tell."""
        if self._said_s is None or self._clock_s() - self._said_s >= SAY_EVERY_S:
            self._said_s = self._clock_s()
            log.warning(text, *words)

    def _share(self) -> str:
        return f"{self.held_bytes // MIB} of {self.bytes_max // MIB} MiB"

    def _due(self) -> bool:
        if self.pressure is Pressure.EASY:
            return False
        every_s = RELEASE_FULL_EVERY_S if self.pressure is Pressure.FULL else RELEASE_EVERY_S
        return self._released_s is None or self._clock_s() - self._released_s >= every_s

    def _run(self) -> None:
        while not self._stop.wait(LOOK_EVERY_S):
            try:
                self.look()
            except Exception as error:
                self._count(counter("background_failed", "memory"), 1)
                log.error("looking after memory failed and goes on: %s", error, exc_info=error)

    def _run_releases(self) -> None:
        while True:
            wanted = self._wanted.wait(TRIM_EVERY_S)
            self._wanted.clear()
            if self._stop.is_set():
                return
            try:
                if wanted:
                    self.release()
                else:
                    self._trim()
            except Exception as error:
                self._count(counter("background_failed", "memory"), 1)
                log.error("letting memory go failed and is tried again: %s", error, exc_info=error)


def findings(watch: MemoryWatch) -> Iterator[dict[str, str]]:
    """What is wrong with memory, for `leadline doctor`."""
    told = f"{watch.held_bytes // MIB} of {watch.bytes_max // MIB} MiB"
    do = "Raise server.memory_bytes_max if the machine has more, or send fewer streams (`leadline show series`)."
    if watch.pressure is Pressure.FULL:
        yield {"state": "critical", "text": f"memory is full, telemetry and queries are refused: {told}", "do": do}
    elif watch.full_at_s is not None and watch._clock_s() - watch.full_at_s < RECENT_S:
        ago_s = watch._clock_s() - watch.full_at_s
        yield {"state": "warning", "text": f"memory was full {ago_s:.0f} s ago; it is {told}", "do": do}
    elif watch.pressure is Pressure.TIGHT:
        yield {"state": "warning", "text": f"memory is tight, caches are let go: {told}", "do": do}
