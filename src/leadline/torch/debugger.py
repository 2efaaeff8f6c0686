"""A person at a prompt of Python's debugger: `breakpoint()`, `pdb.set_trace()`, `torch.distributed.breakpoint()`.

A rank that waits at a prompt looks like one that hangs; the events `debugger-begin` and `debugger-end` around each
prompt say that it is meant. All of pdb's ways, and those of debuggers built on it, come through `Pdb.interaction`.
`sys.breakpointhook` is wrapped for the others only: a debugger that stops in the frame of its caller, as pdb does,
would stop in ours. What a debugger outside of the process does (gdb, py-spy) is the agent's to see.
"""

from __future__ import annotations

import os
import pdb
import sys
from collections.abc import Callable
from typing import Any

OWN_DEBUGGERS = ("", "0", "pdb.set_trace")  # values of PYTHONBREAKPOINT that mean pdb, or no debugger


class Debugger:
    """Tells of prompts while it is attached. Attaching and detaching any number of times is safe."""

    def __init__(self, event: Callable[[str, str], None]) -> None:
        """`event(kind, message)` writes an event of this rank; it may not raise."""
        self._event = event
        self._hook: Callable[..., Any] | None = None
        self._interaction: Callable[..., Any] | None = None
        self._ours: tuple[Any, Any] = (None, None)

    def attach(self) -> None:
        """From now on prompts are told."""
        if self._interaction is not None:
            return
        self._hook, self._interaction = sys.breakpointhook, pdb.Pdb.interaction
        self._ours = (self._around(self._hook), self._around(self._interaction))
        if not self._is_own(self._hook):
            sys.breakpointhook = self._ours[0]
        pdb.Pdb.interaction = self._ours[1]  # type: ignore[method-assign]

    def detach(self) -> None:
        """Put back what was there, unless somebody else has put something there since; ours then passes through."""
        hook, interaction = self._hook, self._interaction
        self._hook = self._interaction = None
        if hook is not None and sys.breakpointhook is self._ours[0]:
            sys.breakpointhook = hook
        if interaction is not None and pdb.Pdb.interaction is self._ours[1]:
            pdb.Pdb.interaction = interaction  # type: ignore[method-assign]

    def _around(self, what: Callable[..., Any]) -> Callable[..., Any]:
        def told(*arguments: Any, **named: Any) -> Any:
            if self._interaction is None:
                return what(*arguments, **named)
            self._event("debugger-begin", "at a breakpoint")
            try:
                return what(*arguments, **named)
            finally:
                self._event("debugger-end", "goes on")

        return told

    def _is_own(self, hook: Callable[..., Any]) -> bool:
        """Whether `breakpoint()` ends in pdb, or in nothing."""
        return hook is sys.__breakpointhook__ and os.environ.get("PYTHONBREAKPOINT", "") in OWN_DEBUGGERS
