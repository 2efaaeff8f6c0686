"""A source in a thread of its own, so that one that hangs (a driver's counter, a mount that never answers) is alone.

    agent ── ask(call) ──> thread of the source: call() ──> Asked: done, what it found or why not
          ── waits for ANSWER_S and goes on without it; the answer is taken when it comes, whenever that is

One call at a time of each source: as long as it does not answer, it is not asked again.
"""

from __future__ import annotations

import queue
import threading
import time
from collections.abc import Callable
from typing import Any

from leadline.host.sources.source import Source

# The agent waits so long for one source, and looks at the rings no sooner. All sources of a host of eight cards answer
# within 50 ms; one that a busy processor keeps from answering is late once, and nothing of it is lost.
ANSWER_S = 2.0
LOOK_S = 0.1  # how soon a wait notices that it is enough
OPEN_S = 5.0  # the same for opening it, which lists devices


class Asked:
    """One call of a source. `seen_ns`: what the agent noted with it."""

    def __init__(self, call: Callable[[], Any], seen_ns: int = 0) -> None:
        self._call = call
        self.seen_ns = seen_ns
        self.since = time.monotonic()
        self.found: Any = None
        self.error: Exception | None = None
        self._done = threading.Event()
        self._late = False
        self._lock = threading.Lock()

    @property
    def done(self) -> bool:
        """Whether it has answered, with what was found or with an error."""
        return self._done.is_set()

    def wait(self, seconds: float, enough: Callable[[], bool] = lambda: False) -> bool:
        """Whether it answers in that time, or until it is `enough`. If not, whoever asked is woken when it does."""
        end = time.monotonic() + seconds
        while not self._done.wait(min(LOOK_S, max(0.0, end - time.monotonic()))) and time.monotonic() < end:
            if enough():
                break
        if not self._done.is_set():
            with self._lock:
                self._late = not self._done.is_set()
        return self._done.is_set()

    def run(self, wake: Callable[[], None]) -> None:
        """In the source's thread: call it."""
        try:
            self.found = self._call()
        except Exception as error:
            self.error = error
        with self._lock:
            self._done.set()
            late = self._late
        if late:
            wake()


class Running:
    """One source that runs, its thread, and when it is asked next (monotonic)."""

    def __init__(self, kind: type[Source], wake: Callable[[], None]) -> None:
        self.name = kind.name
        self.due = 0.0
        self.failing = ""  # the error, while it fails
        self.worked = False  # ever, since the agent started
        self.asked: Asked | None = None  # what it was asked and has not answered, or whose answer was not taken
        self._source: Source | None = None
        self._wake = wake
        self._calls: queue.SimpleQueue[Asked | None] = queue.SimpleQueue()
        # A thread that hangs in the kernel cannot be ended: it must not keep the process from ending.
        threading.Thread(target=self._run, name=f"source-{kind.name}", daemon=True).start()

    @property
    def source(self) -> Source:
        """The source, once it is open."""
        assert self._source is not None, "not open yet"
        return self._source

    @source.setter
    def source(self, source: Source) -> None:
        self._source = source

    @property
    def hangs(self) -> bool:
        """Whether it was asked, was waited for, and has not answered."""
        return self.asked is not None and bool(self.failing)

    def ask(self, call: Callable[[], Any], seen_ns: int = 0) -> Asked:
        """Have it called; it must have answered what it was asked before."""
        assert self.asked is None, "asked twice"
        self.asked = Asked(call, seen_ns)
        self._calls.put(self.asked)
        return self.asked

    def end(self) -> None:
        """Have its thread end after what it was asked."""
        self._calls.put(None)

    def _run(self) -> None:
        while (asked := self._calls.get()) is not None:
            asked.run(self._wake)
