"""The exception that ends a rank: the event `rank-failed`, at the moment nobody in the program caught it.

An exit code says that a rank ended with an error; its exception says which one, and in what order ranks raised theirs,
however long each then took to end. It is in the ring before the process is gone, so an agent that comes later has it.

`sys.excepthook` is called for the main thread alone, and not for `sys.exit`. KeyboardInterrupt is left out: somebody
asked for the end.
"""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Callable
from pathlib import Path
from types import TracebackType
from typing import Any

KIND = "rank-failed"
TEXT_MAX = 500  # characters of a message, which may hold a whole state dict. Source: bound
CAUSES_MAX = 16  # exceptions that are followed from one to what it was raised from: they may be a circle. Source: bound
# Files that are not the user's: packages that were installed, Python itself, this package, and code without a file.
PACKAGES = ("/site-packages/", "/dist-packages/")
LIBRARIES = (sysconfig.get_path("stdlib") + os.sep, str(Path(__file__).parents[1]) + os.sep, "<")


class Uncaught:
    """Tells of the exception while it is attached. Attaching and detaching any number of times is safe."""

    def __init__(self, event: Callable[..., None]) -> None:
        """`event(kind, message, severity=, code=, attributes=)` writes an event of this rank; it may not raise."""
        self._event = event
        self._before: Callable[..., Any] = sys.excepthook
        self._is_in_place = self._tells = False

    def attach(self) -> None:
        """From now on it is told. Whatever was called before is called after."""
        if not self._is_in_place:
            self._before, sys.excepthook = sys.excepthook, self._uncaught
        self._is_in_place = self._tells = True

    def detach(self) -> None:
        """Put back what was there, unless somebody else has put something there since; ours then passes through."""
        self._tells = False
        if sys.excepthook == self._uncaught:
            sys.excepthook, self._is_in_place = self._before, False

    def _uncaught(self, kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
        if self._tells and isinstance(error, Exception):
            self._tell(error, trace)
        self._before(kind, error, trace)

    def _tell(self, error: Exception, trace: TracebackType | None) -> None:
        try:
            where = place_of(trace)
            attributes = {"where": where} if where else {}
            self._event(KIND, text_of(error), severity="error", code=type(error).__name__, attributes=attributes)
        except Exception as wrong:  # an exception of the user's may raise when it is shown
            self._event(KIND, type(error).__name__, severity="error", code=type(error).__name__,
                        attributes={"unreadable": type(wrong).__name__})  # fmt: skip


def text_of(error: BaseException) -> str:
    """Class and first line of an exception, and of the one that it was raised from: that may name a lost peer."""
    first, text = error, _line(error)
    for _ in range(CAUSES_MAX):
        if first.__cause__ is None:
            break
        first = first.__cause__
    return text if first is error else f"{text}, from {_line(first)}"


def _line(error: BaseException) -> str:
    line = next((each.strip() for each in str(error).splitlines() if each.strip()), "")
    return f"{type(error).__name__}: {line[:TEXT_MAX]}" if line else type(error).__name__


def place_of(trace: TracebackType | None) -> str:
    """Where it was raised: the innermost line of the user's own code (`train.py:65 in forward`); empty: none is."""
    found = ""
    while trace is not None:
        code = trace.tb_frame.f_code
        if not code.co_filename.startswith(LIBRARIES) and not any(each in code.co_filename for each in PACKAGES):
            found = f"{Path(code.co_filename).name}:{trace.tb_lineno} in {code.co_name}"
        trace = trace.tb_next
    return found
