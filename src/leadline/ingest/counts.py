"""Counting what was taken, refused and dropped, under the names of `model.counters`."""

from __future__ import annotations

import threading
from collections import Counter as Tally

from leadline.model.counters import COUNTERS, Counter


class Counts:
    """Totals since the process began, by declared counter. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._totals: Tally[Counter] = Tally()

    def add(self, counter: Counter, amount: int = 1) -> None:
        """Count `amount` more; 0 is allowed and changes nothing."""
        if amount:
            with self._lock:
                self._totals[counter] += amount

    def totals(self) -> dict[Counter, int]:
        """Every declared counter with its total, zeros included, in the order of the declaration."""
        with self._lock:
            return {counter: self._totals[counter] for counter in COUNTERS}
