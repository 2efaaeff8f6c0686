"""Turns for each tenant: one that takes all it can get leaves some for the others."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager


class Turns:
    """At most `each` at a time of every name. Thread-safe."""

    def __init__(self, each: int) -> None:
        assert each > 0
        self.each = each
        self._taken: Counter[str] = Counter()
        self._given_back = threading.Condition()

    @contextmanager
    def turn(self, name: str, wait_s: float) -> Iterator[bool]:
        """A turn for the time of a `with`; False if none was free for `wait_s`, and then none was taken."""
        with self._given_back:
            got = self._given_back.wait_for(lambda: self._taken[name] < self.each, wait_s)
            if got:
                self._taken[name] += 1
        try:
            yield got
        finally:
            if got:
                with self._given_back:
                    self._taken[name] -= 1
                    if not self._taken[name]:
                        del self._taken[name]
                    self._given_back.notify_all()
