"""What is read of a store in a thread of its own, so that whoever asks waits only as long as they like."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Generic, NamedTuple, TypeVar

T = TypeVar("T")


class Held(NamedTuple, Generic[T]):
    """What was read last; None: nothing yet. `late_s`: how long the newer reading takes already; 0: this is its
    answer."""

    value: T | None
    late_s: float


class Behind(Generic[T]):
    """One thing that is read again and again, at most once at a time. Thread-safe."""

    def __init__(self, name: str, clock_s: Callable[[], float] = time.monotonic) -> None:
        self._name, self._clock_s = name, clock_s
        self._lock = threading.Lock()  # of what follows, never held while anything is read
        self._value: T | None = None
        self._error: Exception | None = None
        self._reading: threading.Thread | None = None
        self._began_s = 0.0

    @property
    def value(self) -> T | None:
        """What was read last; None: nothing yet."""
        return self._value

    def begin(self, read: Callable[[], T]) -> threading.Thread:
        """Read, if that is not going on already."""
        with self._lock:
            reading = self._reading
            if reading is None or not reading.is_alive():
                reading = threading.Thread(target=self._read, args=(read,), name=self._name, daemon=True)
                self._reading, self._began_s = reading, self._clock_s()
                reading.start()
            return reading

    def told(self, read: Callable[[], T], wait_s: float | None = None) -> Held[T]:
        """What a reading says that ends by `wait_s` from now (None: whenever it ends), else what the last one said.

        One that runs already is waited for. Errors: what it raises.
        """
        reading = self.begin(read)
        reading.join(wait_s)
        with self._lock:
            if reading.is_alive():
                return Held(self._value, self._clock_s() - self._began_s)
            if self._error is not None:
                raise self._error
            return Held(self._value, 0.0)

    def _read(self, read: Callable[[], T]) -> None:
        value, error = None, None
        try:
            value = read()
        except Exception as raised:  # raised by whoever waits for it
            error = raised
        with self._lock:
            self._error = error
            if error is None:
                self._value = value
