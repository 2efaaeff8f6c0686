"""Where a call of an analysis runs: in this process (tests, offline), or in a worker process beside the server.

    Task ── tables as Arrow in an unnamed file in memory (memfd) ──> worker: maps them, judges ── verdicts ──> Outcome

A worker that runs too long is killed, one that dies fails the task it had, and is replaced. The time of a call begins
when a worker takes it; if none takes any (a worker that was stopped, or hangs in the kernel), all are replaced. Workers
are spawned, never forked: the embedded engine of the store has threads in this process.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Protocol

import pyarrow as pa

from leadline.analysis.spec import Analysis, Window
from leadline.model.errors import WorldError
from leadline.runner.worker import (
    CRASHED,
    ERROR_CHARACTERS_MAX,
    FAILED,
    REGISTRY,
    TIMEOUT,
    Outcome,
    judged,
    of_stream,
    start_worker,
    warm_up,
    work,
)

log = logging.getLogger("leadline")

TRIES = 2  # of a task whose worker died: the first may have died of what another did to the machine
STOP_S_MAX = 5.0
_STOPPED = "the workers were stopped"
WARM_S_MAX = 300.0  # kernels that are not in the cache yet are compiled
# So long beyond the time of a call nothing may be answered while calls wait: a worker that is replaced loads for some
# seconds, on a busy machine for half a minute.
STUCK_S = 60.0
LOOK_EVERY_S = 1.0
SHARED = "/dev/shm"


@dataclass(frozen=True, slots=True)
class Task:
    """One call of an analysis."""

    analysis: Analysis
    window: Window
    tables: Sequence[pa.Table]


class Executor(Protocol):
    """Runs calls."""

    def start(self) -> None:
        """Make ready, without waiting for it."""

    def submit(self, task: Task) -> Future[Outcome]:
        """Run a call; the future always has an outcome and never raises."""

    def close(self) -> None:
        """End what runs; waits for a bounded time."""


class InProcess:
    """Runs calls at once and in this process: no time-out, no protection."""

    def start(self) -> None:
        """Nothing to make ready."""

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        done: Future[Outcome] = Future()
        done.set_result(judged(task.analysis, task.window, task.tables))
        return done

    def close(self) -> None:
        """Nothing to end."""


class WorkerProcesses:
    """Runs calls in worker processes.

    The workers end when the thread that first used this ends, so that must be one that lives as long as they should.
    """

    def __init__(self, registry: str = REGISTRY, workers: int = 1, nice: int = 0) -> None:
        """`registry`: where a worker finds the analyses, `module:NAME`; `nice`: how far workers step back, 0 to 19."""
        self._registry, self._workers, self._nice = registry, workers, nice
        self._lock = threading.Lock()
        self._pool: Any = None
        self._open: dict[Future[Outcome], float] = {}  # asked for and not answered, with the seconds that it may take
        self._moved_s = 0.0  # monotonic: when a call was answered last, or asked for when none was open
        self._warming = 0  # workers that load what they need
        self._watched: threading.Thread | None = None
        self._ending = threading.Event()
        self._closed = False

    def start(self) -> None:
        """Start the workers; they load what they need meanwhile."""
        with suppress(RuntimeError):  # closed meanwhile
            for _ in range(self._workers):
                warming = self._running().schedule(warm_up, timeout=WARM_S_MAX)
                with self._lock:
                    self._warming += 1
                warming.add_done_callback(self._warmed)

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        done: Future[Outcome] = Future()
        memory = _written(task.tables)
        done.add_done_callback(lambda _: os.close(memory))
        with self._lock:
            self._moved_s = self._moved_s if self._open else time.monotonic()
            self._open[done] = task.analysis.seconds_max
            if self._watched is None:
                self._watched = threading.Thread(target=self._watch, name="runner-workers", daemon=True)
                self._watched.start()
        self._try(task, f"/proc/{os.getpid()}/fd/{memory}", done, TRIES)
        return done

    def close(self) -> None:
        """See `Executor`; what runs is killed, its outcome is `crashed`."""
        self._ending.set()
        with self._lock:
            self._closed, pool, self._pool = True, self._pool, None
        if pool is not None:
            pool.stop()
            pool.join(STOP_S_MAX)
        with self._lock:
            left = list(self._open)
        for done in left:  # the pool forgets what it had not handed to a worker yet
            self._answer(done, Outcome(CRASHED, {}, error=_STOPPED))

    def _warmed(self, _: Future[Any]) -> None:
        with self._lock:
            self._warming = max(0, self._warming - 1)
            self._moved_s = time.monotonic()

    def _watch(self) -> None:
        """Replace workers that take no calls, until `close`."""
        while not self._ending.wait(LOOK_EVERY_S):
            try:
                self._replace_stuck()
            except Exception:
                log.exception("workers could not be looked after; it is tried again")

    def _replace_stuck(self) -> None:
        with self._lock:
            waited_s = time.monotonic() - self._moved_s
            allowed_s = max(self._open.values(), default=0.0) + STUCK_S + (WARM_S_MAX if self._warming else 0.0)
            if not self._open or waited_s < allowed_s or self._pool is None or self._closed:
                return
            pool, self._pool, left = self._pool, None, list(self._open)
            self._warming, self._moved_s = 0, time.monotonic()
        text = f"no worker process took a call for {waited_s:.0f} s; all were replaced"
        log.error("%s", text)
        for done in left:  # before the pool ends, which would try again what was running
            self._answer(done, Outcome(CRASHED, {}, error=text))
        pool.stop()
        pool.join(STOP_S_MAX)

    def _running(self) -> Any:
        """The pool; a new one if the old one broke. Errors: RuntimeError after `close`, WorldError."""
        from pebble import ProcessPool  # only who runs analyses needs it

        with self._lock:
            if self._closed:
                raise RuntimeError(_STOPPED)
            if self._pool is None or not self._pool.active:
                context = multiprocessing.get_context("spawn")
                initial = (os.getpid(), self._nice)
                try:
                    self._pool = ProcessPool(self._workers, initializer=start_worker, initargs=initial, context=context)
                except OSError as error:
                    raise WorldError(_why_no_process(error)) from error
            return self._pool

    def _try(self, task: Task, place: str, done: Future[Outcome], tries: int) -> None:
        def ended(future: Future[Any]) -> None:
            error = None if future.cancelled() else future.exception()
            if error is None or not _died(error) or tries == 1 or self._closed or done not in self._open:
                self._answer(done, _outcome(task, future, error))
            else:
                self._try(task, place, done, tries - 1)

        try:
            name, seconds = task.analysis.name, task.analysis.seconds_max
            arguments = (self._registry, name, task.window, place, len(task.tables))
            self._running().schedule(work, args=arguments, timeout=seconds).add_done_callback(ended)
        except (RuntimeError, WorldError) as error:  # stopped, the pool broke between two lines, or none can be made
            self._answer(done, Outcome(CRASHED, {}, error=str(error)))

    def _answer(self, done: Future[Outcome], outcome: Outcome) -> None:
        """Answer a call once, whoever comes first: its worker, or who stops it."""
        with self._lock:
            if done not in self._open:
                return
            del self._open[done]
            self._moved_s = time.monotonic()
        done.set_result(outcome)


def _why_no_process(error: OSError) -> str:
    """Why no process can be started. The first thing a pool makes are semaphores, which are files in /dev/shm."""
    if os.access(SHARED, os.W_OK | os.X_OK):
        return f"no process can be started for analyses: {error}; see how many files and processes this user may have"
    need = f"analyses run in processes that need a writable {SHARED}, and it is not"
    return f"{need}; mount a tmpfs there (64 MB will do)"


def _written(tables: Sequence[pa.Table]) -> int:
    """The tables as Arrow streams one after another in a file in memory; gives its descriptor."""
    memory = os.memfd_create("leadline-analysis", os.MFD_CLOEXEC)
    with os.fdopen(memory, "wb", closefd=False) as file:
        for table in tables:
            with pa.ipc.new_stream(file, table.schema) as writer:
                writer.write_table(table)
    return memory


def _outcome(task: Task, future: Future[Any], error: BaseException | None) -> Outcome:
    """What became of a call in a worker."""
    if future.cancelled():
        return Outcome(CRASHED, {}, error=_STOPPED)
    if isinstance(error, TimeoutError):
        return Outcome(TIMEOUT, {}, error=f"took longer than {task.analysis.seconds_max:g} s and was stopped")
    if error is not None and _died(error):
        code = getattr(error, "exitcode", None)
        return Outcome(CRASHED, {}, error=f"the worker process died, {TRIES} times (exit code {code})")
    if error is not None:
        return Outcome(FAILED, {}, error=f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX])
    state, streams, digest, text = future.result()
    return Outcome(state, {name: of_stream(stream) for name, stream in streams.items()}, digest, text)


def _died(error: BaseException) -> bool:
    from pebble import ProcessExpired

    return isinstance(error, ProcessExpired | BrokenExecutor)
