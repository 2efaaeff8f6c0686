"""Compiled code. On the first start of a version on a machine it is compiled beside the server, by other processes.

    start ── stamps there? ──yes──> load the scanners from the cache (0.5 s); then as ever
                 └─no──> the server answers at once while `Kernels` compiles; until it is done, what needs a scanner is
                         asked to come again, and no window is analysed

What was compiled is kept by the content of what it is made of (`leadline.model.sources`): the same sources, written
anew by an upgrade, are not compiled again. A stamp says the same of all kernels together, because to ask numba is to
load everything.

    python -m leadline.server.background.kernels            compile what is missing, and say how far it is
    python -m leadline.server.background.kernels NAME ...   run these warmers alone, in this process
"""

from __future__ import annotations

import hashlib
import logging
import os
import re
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numba
from llvmlite.binding import get_host_cpu_features, get_host_cpu_name

from leadline.host.bound import bound_to_parent
from leadline.model import sources
from leadline.model.programs import OWN_PYTHON
from leadline.runner.warm import WARMERS as ANALYSIS_WARMERS
from leadline.wire.murmur import murmur3_slices
from leadline.wire.warm import WARMERS as SCANNER_WARMERS

log = logging.getLogger("leadline")

PROGRAM = "leadline.server.background.kernels"  # this file, also where it runs as __main__
DECORATED = re.compile(r"^@(kernel$|compiled\()", re.MULTILINE)  # in a file that holds kernels
NICE = 10  # behind the server, and behind the job on its host
SCANNERS, ANALYSES = "scanners", "analyses"
# What one process compiles, so that two cores are done at about the same time: 22 s and 14 s of CPU for scanners, 31 s
# and 31 s for analyses (numba 0.68, x86-64).
PARTS: dict[str, tuple[tuple[str, ...], ...]] = {
    SCANNERS: (
        ("_exposition", "_otlp_metrics", "_sflow"),
        ("_murmur", "_remote_write_v1", "_remote_write_v2", "_series_id", "_series_index"),
    ),
    ANALYSES: (
        ("warm_graph", "warm_presence", "warm_paths", "warm_operations", "warm_symptoms"),
        ("warm_collectives", "warm_messages", "warm_anomalies", "warm_clock"),
    ),
}


class Kernels:
    """What must be compiled before a server can work, and how far that is. Construction is inert; thread-safe."""

    def __init__(self, kinds: Sequence[str] = (SCANNERS, ANALYSES)) -> None:
        self._missing = [kind for kind in kinds if not is_compiled(kind)]
        self._waiting = deque(part for kind in self._missing for part in PARTS[kind])
        self.total, self.done = sum(map(len, self._waiting)), 0
        self._lock = threading.Lock()
        self._children: list[subprocess.Popen[str]] = []
        self.failed = self._stopped = False

    @property
    def missing(self) -> bool:
        """Whether something has to be compiled still."""
        return bool(self._missing)

    @property
    def progress(self) -> list[int] | None:
        """Steps done, and all of them; None: everything is compiled."""
        return [self.done, self.total] if self.missing else None

    def start(self, then: Callable[[], object]) -> None:
        """Compile in the background; `then` is called in its thread once that is done, unless it was stopped."""

        def work() -> None:
            self.run()
            try:
                if not self._stopped:
                    then()
            except Exception:
                log.exception("what waits for compiled code did not begin")

        threading.Thread(target=work, name="kernels", daemon=True).start()

    def run(self, told: Callable[[], object] = lambda: None) -> None:
        """Compile, as many processes at once as there are cores; `told` after each step. A process that fails is
        logged: what it was to compile is compiled by who needs it first."""
        workers = [
            threading.Thread(target=self._work, args=(told,), daemon=True)
            for _ in range(min(len(self._waiting), os.cpu_count() or 1))
        ]
        for each in workers:
            each.start()
        for each in workers:
            each.join()
        if not (self.failed or self._stopped):
            for kind in self._missing:
                _note(kind)
        self._missing = []

    def stop(self) -> None:
        """Give up what is not compiled yet."""
        self._stopped = True
        with self._lock:
            for each in self._children:
                each.kill()

    def _work(self, told: Callable[[], object]) -> None:
        while not self._stopped:
            try:
                names = self._waiting.popleft()
            except IndexError:
                return
            try:
                self._compile(names, told)
            except Exception:
                self.failed = True
                log.exception("compiling %s failed; they are compiled when they are first needed", ", ".join(names))

    def _compile(self, names: Sequence[str], told: Callable[[], object]) -> None:
        command = bound_to_parent([*OWN_PYTHON, "-m", PROGRAM, *names])
        with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
            with self._lock:
                self._children.append(child)
            assert child.stdout is not None
            for _ in child.stdout:
                with self._lock:
                    self.done += 1
                told()
        if child.returncode and not self._stopped:
            self.failed = True
            log.error("compiling %s failed; they are compiled when they are first needed", ", ".join(names))


def is_compiled(kind: str) -> bool:
    """Whether the kernels of this kind were compiled on this machine, in this version. False too where nothing can be
    kept: then every start compiles."""
    stamp = _stamp(kind)
    return stamp is not None and stamp.exists()


def findings(kernels: Kernels) -> Iterator[dict[str, str]]:
    """What of it an operator should know, for `leadline doctor`."""
    if kernels.missing:
        yield {
            "state": "warning",
            "text": f"compiling scanners and analyses, once on this machine: {kernels.done} of {kernels.total}",
            "do": "Wait about a minute. Until then senders of metrics are asked to try again, and nothing is analysed.",
        }


def _stamp(kind: str) -> Path | None:
    """Where it is noted that a kind is compiled; None where numba can keep nothing."""
    kept: Any = murmur3_slices.stats.cache_path
    return Path(kept) / f"leadline-{kind}-{_version()}" if kept else None


def _note(kind: str) -> None:
    stamp = _stamp(kind)
    if stamp is None:
        return
    for old in stamp.parent.glob(f"leadline-{kind}-*"):
        old.unlink(missing_ok=True)
    stamp.parent.mkdir(parents=True, exist_ok=True)
    stamp.touch()


def _version() -> str:
    """Of all kernels what they are made of; numba, and the processor."""
    root = sources.ROOT
    told = hashlib.blake2b(f"{numba.__version__} {get_host_cpu_name()} {get_host_cpu_features()}".encode())
    for path in sorted([*root.glob("wire/**/*.py"), *root.glob("analysis/**/*.py")]):
        if DECORATED.search(path.read_text("utf-8")):
            module = ".".join(("leadline", *path.relative_to(root).with_suffix("").parts))
            told.update(f"{module} {sources.stamp_of(module)}".encode())
    return told.hexdigest()[:16]


def main(names: Sequence[str]) -> int:
    """Compile everything, or in this process what is named."""
    if names:
        os.nice(NICE)
        known = {each.__name__: each for each in (*SCANNER_WARMERS, *ANALYSIS_WARMERS)}
        for name in names:
            known[name]()
            print(name, flush=True)
        return 0
    began, kernels = time.perf_counter(), Kernels()
    tty = sys.stdout.isatty()
    kernels.run(lambda: print(f"\rcompiled {kernels.done} of {kernels.total} ", end="", flush=True) if tty else None)
    print(f"{chr(13) * tty}scanners and analyses are compiled, {time.perf_counter() - began:.0f} s")
    return int(kernels.failed)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
