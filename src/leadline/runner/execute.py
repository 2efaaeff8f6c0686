"""Where a call of an analysis runs: in this process (tests, offline), or in a worker process beside the server.

    Task ── tables as Arrow in an unnamed file in memory (memfd) ──> worker: maps them, judges ── verdicts ──> Outcome

A worker that runs too long is killed and its call fails; one that dies is replaced, and another tries the call again.
The time of a call begins when a worker takes it; one that does not take what it was given (it was stopped, or hangs in
the kernel) is replaced too. Each has a pool of its own: workers of one pool share locks, which one that is killed or
stopped may hold. Workers are spawned, never forked: the embedded engine of the store has threads in this process.
"""

from __future__ import annotations

import logging
import multiprocessing
import os
import threading
import time
from collections import deque
from collections.abc import Sequence
from concurrent.futures import BrokenExecutor, Future
from dataclasses import dataclass
from functools import partial
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
    of_answer,
    start_worker,
    warm_up,
    work,
)

log = logging.getLogger("leadline")

TRIES = 2  # of a task whose worker died: the first may have died of what another did to the machine
STOP_S_MAX = 5.0
STOPPED = "the workers were stopped"
WARM_S_MAX = 300.0  # kernels that are not in the cache yet are compiled
# So long a worker may not take what it was given, or not end beyond the time of a call: one that is replaced loads for
# some seconds, on a busy machine for half a minute.
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


@dataclass(slots=True, eq=False)
class _Asked:
    """A call that is not answered. `place`: where its tables are; `tries`: how often it may be handed out still."""

    task: Task
    place: str
    done: Future[Outcome]
    tries: int = TRIES


@dataclass(slots=True, eq=False)
class _Worker:
    """One worker process, in a pool of its own: what befalls it befalls no other."""

    pool: Any = None
    asked: _Asked | None = None  # what it was given
    taken: Any = None  # its future: running since the process took it
    moved_s: float = 0.0  # monotonic: when it was given something last, or loaded what it needs
    warming: bool = False  # it loads


class WorkerProcesses:
    """Runs calls in worker processes, each as soon as one is free, in the order in which they are asked for.

    The workers end when the thread that first used this ends, so that must be one that lives as long as they should.
    """

    def __init__(self, registry: str = REGISTRY, workers: int = 1, nice: int = 0) -> None:
        """`registry`: where a worker finds the analyses, `module:NAME`; `nice`: how far workers step back, 0 to 19."""
        self._registry, self._nice = registry, nice
        self._lock = threading.RLock()
        self._workers = [_Worker() for _ in range(workers)]
        self._waiting: deque[_Asked] = deque()  # for a worker that is free
        self._open: set[Future[Outcome]] = set()  # asked for and not answered
        self._watched: threading.Thread | None = None
        self._look = threading.Event()  # there is something to look after, or it is to end
        self._closed = False

    def start(self) -> None:
        """Start the workers; they load what they need meanwhile. Errors: WorldError."""
        with self._lock:
            for worker in [] if self._closed else self._workers:
                warming = self._pool_of(worker).schedule(warm_up, timeout=WARM_S_MAX)
                worker.warming, worker.moved_s = True, time.monotonic()
                warming.add_done_callback(partial(self._warmed, worker))

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        done: Future[Outcome] = Future()
        memory = written(task.tables)
        done.add_done_callback(lambda _: os.close(memory))
        with self._lock:
            self._open.add(done)
            self._waiting.append(_Asked(task, f"/proc/{os.getpid()}/fd/{memory}", done))
            if self._watched is None and not self._closed:
                self._watched = threading.Thread(target=self._watch, name="runner-workers", daemon=True)
                self._watched.start()
        self._hand_out()
        return done

    def close(self) -> None:
        """See `Executor`; what runs is killed, its outcome is `crashed`."""
        with self._lock:
            self._closed = True
            pools = [each.pool for each in self._workers if each.pool is not None]
            for worker in self._workers:
                worker.pool = worker.asked = worker.taken = None  # a pool that breaks meanwhile answers nobody
        self._look.set()
        for pool in pools:
            pool.stop()
        for pool in pools:
            pool.join(STOP_S_MAX)
        with self._lock:
            left = list(self._open)
        for done in left:
            self._answer(done, Outcome(CRASHED, {}, error=STOPPED))

    def _warmed(self, worker: _Worker, _: Future[Any]) -> None:
        with self._lock:
            worker.warming, worker.moved_s = False, time.monotonic()

    def _watch(self) -> None:
        """Replace workers that take no calls, and those whose pool broke, until `close`."""
        while not self._closed:
            self._look.wait(LOOK_EVERY_S)
            self._look.clear()
            try:
                self._replace_stuck()
                self._hand_out()
            except Exception:
                log.exception("workers could not be looked after; it is tried again")

    def _replace_stuck(self) -> None:
        """Stop the workers that have not taken what they were given, or do not end with it; others get it."""
        stuck = []
        with self._lock:
            for worker in [] if self._closed else self._workers:
                asked, waited_s = worker.asked, time.monotonic() - worker.moved_s
                allowed_s = STUCK_S + (WARM_S_MAX if worker.warming else 0.0)
                if asked is not None and worker.taken.running():
                    allowed_s += asked.task.analysis.seconds_max
                if asked is None or waited_s < allowed_s:
                    continue
                stuck.append(worker.pool)
                worker.pool, worker.warming = None, False
                text = f"no worker process took the call for {waited_s:.0f} s"
                log.error("a worker process took no call for %.0f s and was replaced", waited_s)
                self._taken_back(worker, Outcome(CRASHED, {}, error=f"{text}, the last of {TRIES} times"))
        for pool in stuck:
            pool.stop()
            pool.join(STOP_S_MAX)

    def _taken_back(self, worker: _Worker, failed: Outcome) -> None:
        """What a worker was given is waiting again; if it has been tried often enough, its outcome is `failed`."""
        asked, worker.asked, worker.taken = worker.asked, None, None
        assert asked is not None
        asked.tries -= 1
        if asked.tries and not self._closed:
            self._waiting.appendleft(asked)
            self._look.set()
        else:
            self._answer(asked.done, failed)

    def _pool_of(self, worker: _Worker) -> Any:
        """The pool of a worker; a new one if it has none or the old one broke. Errors: WorldError."""
        from pebble import ProcessPool  # only who runs analyses needs it

        if worker.pool is None or not worker.pool.active:
            context = multiprocessing.get_context("spawn")
            initial = (os.getpid(), self._nice)
            try:
                worker.pool = ProcessPool(1, initializer=start_worker, initargs=initial, context=context)
            except OSError as error:
                raise WorldError(_why_no_process(error)) from error
        return worker.pool

    def _hand_out(self, *, make: bool = True) -> None:
        """Give what waits to workers that are free. `make`: also to those that have to be started first, who then end
        with this thread."""
        with self._lock:
            free = [each for each in self._workers if each.asked is None]
            for worker in free if make else [each for each in free if each.pool is not None and each.pool.active]:
                if self._waiting and worker.asked is None:  # an answer that comes at once hands out the next
                    self._give(worker, self._waiting.popleft())
            while self._closed and self._waiting:
                self._answer(self._waiting.popleft().done, Outcome(CRASHED, {}, error=STOPPED))

    def _give(self, worker: _Worker, asked: _Asked) -> None:
        if self._closed:
            self._answer(asked.done, Outcome(CRASHED, {}, error=STOPPED))
            return
        task = asked.task
        arguments = (self._registry, task.analysis.name, task.window, asked.place, len(task.tables))
        try:
            taken = self._pool_of(worker).schedule(work, args=arguments, timeout=task.analysis.seconds_max)
        except RuntimeError as error:  # the pool broke between two lines
            worker.asked = asked
            self._taken_back(worker, Outcome(CRASHED, {}, error=str(error)))
            return
        except WorldError as error:  # none can be made
            self._answer(asked.done, Outcome(CRASHED, {}, error=str(error)))
            return
        worker.asked, worker.taken, worker.moved_s = asked, taken, time.monotonic()
        taken.add_done_callback(partial(self._ended, worker, asked))

    def _ended(self, worker: _Worker, asked: _Asked, future: Future[Any]) -> None:
        """A worker has answered, or died."""
        error = None if future.cancelled() else future.exception()
        with self._lock:
            if worker.taken is not future:  # it was replaced, or all is closed
                return
            outcome = _outcome(asked.task, future, error)
            if error is not None and _died(error):
                self._taken_back(worker, outcome)
            else:
                worker.asked = worker.taken = None
                self._answer(asked.done, outcome)
        self._hand_out(make=False)

    def _answer(self, done: Future[Outcome], outcome: Outcome) -> None:
        """Answer a call once, whoever comes first: its worker, or who stops it."""
        with self._lock:
            if done not in self._open:
                return
            self._open.remove(done)
        done.set_result(outcome)


def _why_no_process(error: OSError) -> str:
    """Why no process can be started. The first thing a pool makes are semaphores, which are files in /dev/shm."""
    if os.access(SHARED, os.W_OK | os.X_OK):
        return f"no process can be started for analyses: {error}; see how many files and processes this user may have"
    need = f"analyses run in processes that need a writable {SHARED}, and it is not"
    return f"{need}; mount a tmpfs there (64 MB will do)"


def written(tables: Sequence[pa.Table]) -> int:
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
        return Outcome(CRASHED, {}, error=STOPPED)
    if isinstance(error, TimeoutError):
        return Outcome(TIMEOUT, {}, error=f"took longer than {task.analysis.seconds_max:g} s and was stopped")
    if error is not None and _died(error):
        code = getattr(error, "exitcode", None)
        return Outcome(CRASHED, {}, error=f"the worker process died, {TRIES} times (exit code {code})")
    if error is not None:
        return Outcome(FAILED, {}, error=f"{type(error).__name__}: {error}"[:ERROR_CHARACTERS_MAX])
    return of_answer(future.result())


def _died(error: BaseException) -> bool:
    from pebble import ProcessExpired

    return isinstance(error, ProcessExpired | BrokenExecutor)
