"""A clock that stands still until a test moves it."""

from __future__ import annotations

import threading

START_NS = 1_750_000_000 * 10**9  # 2025-06-15, far from any bound


class FakeClock:
    """Stands for `time.time_ns`: call it for the time. Thread-safe."""

    def __init__(self, now_ns: int = START_NS) -> None:
        self._lock = threading.Lock()
        self._now_ns = now_ns

    def __call__(self) -> int:
        """The time, ns since the Unix epoch."""
        with self._lock:
            return self._now_ns

    def advance(self, seconds: float) -> int:
        """Move on by `seconds` (back, if negative: a clock step). Returns the new time, ns."""
        with self._lock:
            self._now_ns += round(seconds * 1e9)
            return self._now_ns
