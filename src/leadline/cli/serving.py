"""What every verb that keeps a server running shares: where it is, and how it is told to stop."""

from __future__ import annotations

import signal
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from types import FrameType

from leadline.cli.output import console
from leadline.model.errors import UsageError
from leadline.server.config import Config
from leadline.server.supervisor import CANNOT_START, CannotStartError, Supervisor

TELL_EVERY_S = 10.0  # lines of progress, where no bar moves


def url_of(settings: Config) -> str:
    """Address of the API. Errors: UsageError for port 0, which nobody could be told."""
    if settings.server.port == 0:
        raise UsageError("server.port 0 (any free port) is for tests; give `leadline up` a port")
    return settings.server.url


class CompilingTeller:
    """Says now and then how far compiling is, which the first start on a machine does beside its work."""

    def __init__(self) -> None:
        self._told_at = -TELL_EVERY_S
        self._began = False

    def tell(self, progress: Sequence[int] | None) -> None:
        """Print a line if it is time for one: steps done and all steps; None: nothing is left to compile."""
        now = time.monotonic()
        if progress is None:
            if self._began:
                self._began = False
                self._print("compiled; analyses begin")
        elif now - self._told_at >= TELL_EVERY_S:
            self._told_at, self._began = now, True
            self._print(f"compiling scanners and analyses, once on this machine: {progress[0]} of {progress[1]}")

    @staticmethod
    def _print(words: str) -> None:
        console().print(f"  {words}", style="dim")
        sys.stdout.flush()


@contextmanager
def stop_on_signals() -> Iterator[list[int]]:
    """A list that a first SIGINT or SIGTERM makes true; the handlers before are put back at the end.

    SIGHUP too, which a terminal sends that is closed, unless it is ignored (nohup).
    """
    caught: list[int] = []

    def note(number: int, _: FrameType | None) -> None:
        caught.append(number)

    numbers = [signal.SIGINT, signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        numbers.append(signal.SIGHUP)
    before = {number: signal.signal(number, note) for number in numbers}
    try:
        yield caught
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def served(supervisor: Supervisor, follow: Callable[[], int]) -> int:
    """Run a server while `follow` does its work; returns the exit code of the verb."""
    supervisor.start()
    try:
        code = follow()
    except CannotStartError as error:
        if error.code != CANNOT_START:
            raise
        code = CANNOT_START  # it has said what is wrong
    finally:
        stopped = supervisor.stop()
    # Our own SIGTERM ends it before it is ready to stop in order: nothing was accepted then.
    if code == 0 and stopped not in (0, -signal.SIGTERM):
        print(f"leadline: the server did not stop in order (exit code {stopped}); see its message", file=sys.stderr)
        return 1
    return code
