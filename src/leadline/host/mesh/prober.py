"""The prober as the agent has it: a child process, its peers, its lines.

    wanted peers ──> add, remove ──> stdin ─┐
                                        leadline-prober (C), or fallback.py where there is none
    take(line) <── parse <── thread <── stdout ┘

A prober that ends is started anew, after waits that double; it is told its options and peers again. One that does not
read what it is told is killed, and that is an end like any other. Its lines may come late or not at all; what is taken
from them is bounded by what a pipe holds.
"""

from __future__ import annotations

import contextlib
import logging
import os
import random
import shutil
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path

from leadline.host.mesh.commands import PEERS_MAX, Options, Peer, add_line, option_lines, remove_line, trace_line
from leadline.host.mesh.lines import LINE_BYTES_MAX, Failed, Line, Ready, Refused, parse_line
from leadline.model.errors import DataError, UsageError

LOG = logging.getLogger("leadline.agent")
PROGRAM = "leadline-prober"
WAIT_S_MIN, WAIT_S_MAX = (
    1.0,
    60.0,
)  # before it is started anew; halved to doubled by chance, so that a fleet does not beat
STEADY_S = 60.0  # one that ran so long begins again with the shortest wait
END_S, TERMINATE_S = 1.0, 0.5  # after its input has ended, and after SIGTERM; then it is killed


def find_program(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The prober in C: where LEADLINE_PROBER says, beside this file as the package has it, or on the PATH."""
    if named := environment.get("LEADLINE_PROBER"):
        return Path(named)
    packaged = Path(__file__).with_name("built") / PROGRAM
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which(PROGRAM, path=environment.get("PATH"))
    return Path(found) if found else None


def injected_clock(environment: Mapping[str, str] = os.environ) -> tuple[float, ...]:
    """The numbers of the clock that a lab gives to this host: LEADLINE_PROBER_CLOCK; elsewhere there is none.

    Errors: UsageError.
    """
    words = environment.get("LEADLINE_PROBER_CLOCK", "").split()
    try:
        return tuple(float(word) if "." in word else int(word) for word in words)
    except ValueError:
        raise UsageError(f"LEADLINE_PROBER_CLOCK: expected numbers, got {' '.join(words)!r}; unset it") from None


def command_of(program: Path | None) -> list[str]:
    """How to start it: the program in C, or the one in Python."""
    return [str(program)] if program else [sys.executable, "-m", "leadline.host.mesh.fallback"]


class Prober:
    """One prober. Construction is inert; `start` begins, `stop` ends it within two seconds.

    `take` is called with each line in a thread of its own, and must not block for long.
    """

    def __init__(self, options: Options, take: Callable[[Line], None], command: Sequence[str]) -> None:
        """Errors: UsageError for options that no prober would take."""
        self._lines = option_lines(options)
        self._take = take
        self._command = list(command)
        self._peers: dict[int, Peer] = {}
        self._lock = threading.Lock()  # guards the child and its peers
        self._child: subprocess.Popen[bytes] | None = None
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="prober", daemon=True)
        self.starts = 0
        self.bad_lines = 0
        self.last_error = ""  # why it ended or could not begin, for the agent's health

    def start(self) -> None:
        """Begin. A program that cannot be started is tried again, like one that ends."""
        self._thread.start()

    def set_peers(self, peers: Iterable[Peer]) -> None:
        """Exactly these, from now on. Errors: UsageError, and nothing changes."""
        wanted = {peer.id: peer for peer in peers}
        if len(wanted) > PEERS_MAX:
            raise UsageError(f"expected at most {PEERS_MAX} peers, got {len(wanted)}; a mesh of degree 10 needs ten")
        lines = {peer.id: add_line(peer) for peer in wanted.values()}
        with self._lock:
            told = [remove_line(peer) for peer in self._peers.values() if peer.id not in wanted]
            told += [lines[peer.id] for peer in wanted.values() if self._peers.get(peer.id) != peer]
            self._peers = wanted
            if self._child is not None and told:
                self._tell(self._child, told)

    def trace(self, peer: Peer, label: int, hops: int = 16) -> None:
        """Ask for the routers on the way; the answer is a line of its own. The prober in Python has none."""
        with self._lock:
            if self._child is not None:
                self._tell(self._child, [trace_line(peer, label, hops)])

    def stop(self) -> None:
        """End it: its input ends, then SIGTERM, then SIGKILL."""
        with self._lock:  # no child is started after this
            self._stopping.set()
            child = self._child
        if child is not None:
            end(child)
        if self._thread.ident is not None:
            self._thread.join(END_S)

    # --- the thread ---

    def _run(self) -> None:
        wait_s = WAIT_S_MIN
        while not self._stopping.is_set():
            began = time.monotonic()
            self._run_once()
            if self._stopping.is_set():
                return
            wait_s = WAIT_S_MIN if time.monotonic() - began > STEADY_S else wait_s
            LOG.warning("prober: %s; started again in about %g s", self.last_error or "ended", wait_s)
            self._stopping.wait(wait_s * random.uniform(0.5, 2.0))
            wait_s = min(wait_s * 2, WAIT_S_MAX)

    def _run_once(self) -> None:
        try:
            child = self._begin()
        except OSError as error:
            self.last_error = f"{self._command[0]} cannot be started: {error.strerror}"
            return
        if child is None:
            return
        assert child.stdout is not None
        self.last_error = ""
        try:
            while line := child.stdout.readline(LINE_BYTES_MAX + 1):
                self._heard(line)
        finally:
            with self._lock:
                self._child = None
            end(child)
            child.stdout.close()
        self.last_error = self.last_error or f"it ended with exit code {child.returncode}"

    def _begin(self) -> subprocess.Popen[bytes] | None:
        with self._lock:
            if self._stopping.is_set():
                return None
            # The kernel stamps packets by its own clock, and by that the prober has to read: what is preloaded to show
            # another time of day (libfaketime, in labs) must not reach it.
            own = {name: value for name, value in os.environ.items() if name != "LD_PRELOAD"}
            child = subprocess.Popen(self._command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, bufsize=-1, env=own)
            assert child.stdin is not None
            os.set_blocking(child.stdin.fileno(), False)
            self.starts += 1
            self._child = child
            self._tell(child, [*self._lines, *map(add_line, self._peers.values())])
            return child

    def _tell(self, child: subprocess.Popen[bytes], lines: Iterable[str]) -> None:
        """A pipe holds 64 KB, all that we ever say at once: one that is full belongs to a prober that hangs."""
        assert child.stdin is not None
        data = "".join(f"{line}\n" for line in lines).encode()
        try:
            written = os.write(child.stdin.fileno(), data)
        except BlockingIOError:
            written = 0
        except OSError:
            return  # it has ended; its thread sees that
        if written < len(data):
            self.last_error = "it does not read what it is told, and was killed"
            child.kill()

    def _heard(self, data: bytes) -> None:
        try:
            line = parse_line(data)
        except DataError as error:
            self.bad_lines += 1
            if self.bad_lines == 1:
                LOG.warning("%s; more such lines are only counted", error)
            return
        if isinstance(line, Ready):
            LOG.info("prober: %d source ports from %d on, stamps: %s", line.ports, line.port, line.stamp)
        elif isinstance(line, Failed):
            self.last_error = line.text
        elif isinstance(line, Refused):
            LOG.warning("prober: it %s", line.text)
        self._take(line)


def end(child: subprocess.Popen[bytes]) -> None:
    """End a child within END_S + TERMINATE_S, and wait for it."""
    assert child.stdin is not None
    with contextlib.suppress(OSError):
        child.stdin.close()
    for seconds, act in ((END_S, child.terminate), (TERMINATE_S, child.kill), (END_S, lambda: None)):
        with contextlib.suppress(subprocess.TimeoutExpired):
            child.wait(seconds)
            return
        act()
