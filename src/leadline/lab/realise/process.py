"""A program on a node: started inside, in a control group, bound to the life of who started it."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from leadline.lab.realise.cgroups import Cgroup
from leadline.model.errors import WorldError

# Joins its groups and becomes the program: same process number, and the program never runs outside its limits.
JOIN = 'while [ "$1" != -- ]; do echo $$ > "$1"; shift; done; shift; exec "$@"'

BOUND = ("setpriv", "--pdeathsig", "KILL", "--")  # the kernel kills it when the thread that started it is gone


@dataclass(frozen=True, slots=True)
class Process:
    """A running program; `pid` is the program's own, whatever wraps its start."""

    name: str
    node: str
    popen: subprocess.Popen[bytes]
    cgroup: Cgroup

    @property
    def pid(self) -> int:
        """Its process number."""
        return self.popen.pid


def wrapped(argv: Sequence[str], entrances: Sequence[str], nice: int, bound: bool) -> list[str]:
    """`argv` behind small programs that each set one thing and then become the next."""
    command = list(argv)
    if nice:
        command = ["nice", "-n", str(nice), *command]
    if entrances:
        command = ["/bin/sh", "-c", JOIN, "sh", *entrances, "--", *command]
    if bound:
        command = [*BOUND, *command]
    return command


def start(command: Sequence[str], env: Mapping[str, str], stdout: Path) -> subprocess.Popen[bytes]:
    """Start in the calling thread's namespaces; what it prints is appended to `stdout`. Errors: WorldError."""
    try:
        stdout.parent.mkdir(parents=True, exist_ok=True)
        with stdout.open("ab") as out:
            return subprocess.Popen(
                command,
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,  # Ctrl-C at the terminal is ours; we end what we started
            )
    except OSError as error:
        raise WorldError(f"cannot start {command[0]}: {error.strerror} ({error.filename})") from error


def run(argv: Sequence[str], text: str | None, where: str) -> str:
    """Run a short command in the calling thread's namespaces; returns what it printed. Errors: WorldError."""
    try:
        # In a session of its own: Ctrl-C at the terminal is ours, and what is under way comes to its end.
        done = subprocess.run(argv, input=text, capture_output=True, text=True, check=False, start_new_session=True)
    except FileNotFoundError:
        raise WorldError(f"{argv[0]} is not installed; the lab needs it") from None
    if done.returncode != 0:
        told = " ".join(done.stderr.split()) or done.stdout.strip() or "no output"
        raise WorldError(f"{where}: {' '.join(argv)} failed ({done.returncode}): {told}")
    return done.stdout
