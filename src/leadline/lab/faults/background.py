"""A deed that goes on while a fault lasts, in a thread of its own: a link that flaps, a clock that drifts."""

from __future__ import annotations

import threading
from collections.abc import Callable

from leadline.model.errors import LeadlineError


class Background:
    """Runs `deed(ended)` at once; it returns soon after `ended` is set. What it raises is told by `end`."""

    def __init__(self, name: str, deed: Callable[[threading.Event], None]) -> None:
        self._deed = deed
        self._ended = threading.Event()
        self._failed: LeadlineError | OSError | None = None
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Wait until it is over. Errors: what the deed raised."""
        self._ended.set()
        self._thread.join()
        if self._failed is not None:
            raise self._failed

    def _run(self) -> None:
        try:
            self._deed(self._ended)
        except (LeadlineError, OSError) as error:
            self._failed = error


def later(name: str, seconds: float, deed: Callable[[], None]) -> Background:
    """Do a deed after so many seconds; not at all if `end` comes before."""

    def wait_and_do(ended: threading.Event) -> None:
        if not ended.wait(seconds):
            deed()

    return Background(name, wait_and_do)
