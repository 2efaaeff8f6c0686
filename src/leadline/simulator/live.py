"""What a simulated fleet says of itself to a running Leadline while its rows are made: watermarks, again and again.

Agents say each few seconds how far they are. Here a chunk of rows may take longer than that to be made and taken, so a
thread repeats what was said last: who says nothing is taken for lost.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterable

import pyarrow as pa

from leadline.model.errors import WorldError
from leadline.model.tables import BY_NAME
from leadline.simulator.watermarks import OPEN, Said
from leadline.simulator.write import ServerSink

AGAIN_S = 5.0  # as often as an agent without news; a sender is lost after 15 s
STOP_S_MAX = 5.0


class Live:
    """Sends watermarks and repeats those that are open. Built inert; `start` begins to repeat."""

    def __init__(self, sink: ServerSink, rows: Callable[[list[Said], int], pa.Table]) -> None:
        """`rows(said, reported_ns)`: rows of `watermark` said at a true time."""
        self._sink = sink
        self._rows = rows
        self._open: dict[tuple[str, int], Said] = {}
        self._lock = threading.Lock()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._repeat, name="watermarks", daemon=True)

    def start(self) -> None:
        """Begin to repeat what is open."""
        self._thread.start()

    def say(self, said: Iterable[Said]) -> None:
        """Send these now. Errors: WorldError."""
        with self._lock:
            new = {(each.job, each.host): each for each in said}
            self._open |= new
            self._send(list(new.values()))
            self._open = {pair: each for pair, each in self._open.items() if each.state == OPEN}

    def close(self) -> None:
        """Stop repeating. Harmless if it never began."""
        self._stopping.set()
        if self._thread.ident is not None:
            self._thread.join(STOP_S_MAX)
        self._sink.close()

    def _repeat(self) -> None:
        while not self._stopping.wait(AGAIN_S):
            # Whoever sends the rows meets the same trouble, and tells of it.
            with self._lock, contextlib.suppress(WorldError):
                self._send(list(self._open.values()))

    def _send(self, said: list[Said]) -> None:
        if said:
            self._sink.write(BY_NAME["watermark"], self._rows(said, time.time_ns()))
