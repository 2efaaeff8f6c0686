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
from leadline.host.mesh.packet import VERSION
from leadline.model.errors import DataError, UsageError, WorldError

LOG = logging.getLogger("leadline.agent")
PROGRAM = "leadline-prober"
# Before it is started anew; halved to doubled by chance, so that a fleet does not beat.
WAIT_S_MIN, WAIT_S_MAX = 1.0, 60.0
STEADY_S = 60.0  # one that ran so long begins again with the shortest wait
END_S, TERMINATE_S = 1.0, 0.5  # after its input has ended, and after SIGTERM; then it is killed
TOLD_MAX = 100  # different words in the log
VERSION_S = 1.0  # for a word of the program's version
STAMPED = {
    "hardware": "probes are stamped by the card",
    "kernel": "probes are stamped by the kernel",
    "user": "probes are stamped by the program itself, so delays are right to microseconds, not to 0.1 us",
    "none": "probes are not stamped",
}
IN_PYTHON = (
    "probes are sent and stamped in Python: right to microseconds instead of 0.1 us, a millisecond of CPU a pair"
)


def find_program(environment: Mapping[str, str] = os.environ) -> Path | None:
    """The prober in C: where LEADLINE_PROBER says, beside this file as the package has it, or on the PATH."""
    if named := environment.get("LEADLINE_PROBER"):
        return Path(named)
    packaged = Path(__file__).with_name("built") / PROGRAM
    if os.access(packaged, os.X_OK):
        return packaged
    found = shutil.which(PROGRAM, path=environment.get("PATH"))
    return Path(found) if found else None


def usable_program(environment: Mapping[str, str] = os.environ) -> Path:
    """The prober in C, asked for its version. Errors: WorldError where there is none that runs and speaks as we do."""
    program = find_program(environment)
    if program is None:
        raise WorldError(f"there is no {PROGRAM}")
    try:
        asked = subprocess.run([program, "--version"], capture_output=True, timeout=VERSION_S, check=False)
    except (OSError, subprocess.SubprocessError) as error:
        raise WorldError(f"{program} does not run here: {getattr(error, 'strerror', None) or error}") from None
    said = asked.stdout[:80].decode("utf-8", "replace").strip()
    if said != f"{PROGRAM} wire {VERSION}":
        raise WorldError(f"{program}: expected wire {VERSION}, got {said!r}")
    return program


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


def prober_runs(processes: Path = Path("/proc")) -> bool:
    """Whether a prober runs on this machine, of whichever agent."""
    for path in processes.glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):
            words = path.read_bytes().split(b"\0")
            if words[0].endswith(PROGRAM.encode()) or b"leadline.host.mesh.fallback" in words[:3]:
                return True
    return False


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
        self._told: set[str] = set()  # what was logged: a prober that ends each minute says so once

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
                self._say(self._child, told)

    def trace(self, peer: Peer, label: int, hops: int = 16) -> None:
        """Ask for the routers on the way; the answer is a line of its own. The prober in Python has none."""
        with self._lock:
            if self._child is not None:
                self._say(self._child, [trace_line(peer, label, hops)])

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
            self._tell(logging.WARNING, f"{self.last_error or 'ended'}; it is started again until it stays")
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
            self._say(child, [*self._lines, *map(add_line, self._peers.values())])
            return child

    def _tell(self, level: int, words: str) -> None:
        """In the log, once."""
        if words not in self._told and len(self._told) < TOLD_MAX:
            self._told.add(words)
            LOG.log(level, "prober: %s", words)

    def _say(self, child: subprocess.Popen[bytes], lines: Iterable[str]) -> None:
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
                self._tell(logging.WARNING, f"{error}; more such lines are only counted")
            return
        if isinstance(line, Ready):
            self._tell(logging.INFO, f"UDP ports {line.port} to {line.port + line.ports - 1}, {STAMPED[line.stamp]}")
        elif isinstance(line, Failed):
            self.last_error = line.text
        elif isinstance(line, Refused):
            self._tell(logging.WARNING, f"it {line.text}")
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
