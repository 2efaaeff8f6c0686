"""What the agent counts about itself: the declared counters, sent as its own metrics."""

from __future__ import annotations

import threading

from leadline.model.counters import counter


class AgentCounts:
    """Counts by family and reason. Thread-safe: the lanes count, too."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._amounts: dict[tuple[str, str], int] = {}

    def add(self, family: str, reason: str, amount: int = 1) -> None:
        """Count `amount` more. Errors: UnknownCounterError for one that nobody declared."""
        counter(family, reason)
        with self._lock:
            self._amounts[family, reason] = self._amounts.get((family, reason), 0) + amount

    def all(self) -> dict[tuple[str, str], int]:
        """Everything counted so far."""
        with self._lock:
            return dict(self._amounts)
