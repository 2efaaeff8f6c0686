"""Calls on a Ray cluster that somebody else runs: the server's side of the process that talks to it (`ray_driver`).

    Task ── tables as Arrow in an unnamed file in memory ──> driver ── object store ──> an actor judges ──> Outcome

Ray itself is not imported here. If the driver ends, by itself or because its cluster has gone, it is started again, and
the calls that were open are tried again.
"""

from __future__ import annotations

import importlib.util
import logging
import multiprocessing
import os
import threading
import time
from concurrent.futures import Future
from contextlib import suppress
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess

from leadline.model.errors import UsageError, WorldError
from leadline.runner.calls.ray_driver import RETRY_S, RETRY_S_MAX, Asked, drive
from leadline.runner.execute import STOPPED, Task, written
from leadline.runner.worker import CRASHED, REGISTRY, Outcome, of_answer

log = logging.getLogger("leadline.runner")

CONNECT_S_MAX = 90.0  # importing Ray takes seconds, on a busy machine half a minute
STOP_S_MAX = 10.0
DRIVERS = 3  # that a call is given to: each but the last may have lost its cluster


class RayExecutor:
    """Runs calls on a Ray cluster, as many at a time as there are `workers`. Construction is inert."""

    def __init__(self, address: str, registry: str = REGISTRY, workers: int = 1) -> None:
        """`address`: as Ray writes it: `auto`, `host:port`, `ray://host:port`.

        Errors: UsageError if Ray is not installed, or for an address that would have Ray start a cluster.
        """
        if address.strip() in ("", "local"):
            raise UsageError(
                f"runner.ray_address: expected a cluster that runs (auto, host:port or ray://host:port), got "
                f"{address!r}; Leadline starts none"
            )
        if importlib.util.find_spec("ray") is None:
            raise UsageError(
                "runner.executor is ray, and Ray is not installed here; run `pip install 'leadline[ray]'`, or set "
                "runner.executor to local"
            )
        self._address, self._registry, self._workers = address.strip(), registry, workers
        self._lock = threading.Lock()
        self._open: dict[int, tuple[Asked, Future[Outcome], int]] = {}  # by number, and how often it may be given still
        self._next = 0
        self._pipe: Connection | None = None
        self._driver: BaseProcess | None = None
        self._thread: threading.Thread | None = None
        self._ending = threading.Event()

    def start(self) -> None:
        """Connect to the cluster. Errors: WorldError if none answers."""
        if self._thread is not None:
            return
        self._connect()
        self._thread = threading.Thread(target=self._run, name="runner-ray", daemon=True)
        self._thread.start()

    def submit(self, task: Task) -> Future[Outcome]:
        """See `Executor`."""
        done: Future[Outcome] = Future()
        memory = written(task.tables)
        done.add_done_callback(lambda _: os.close(memory))
        place = f"/proc/{os.getpid()}/fd/{memory}"
        with self._lock:
            self._next += 1
            asked = Asked(
                self._next, task.analysis.name, task.window, place, len(task.tables), task.analysis.seconds_max
            )
            closed = self._ending.is_set() or self._thread is None
            if not closed:
                self._open[asked.number] = asked, done, DRIVERS
                self._send(asked)
        if closed:
            done.set_result(Outcome(CRASHED, {}, error=STOPPED))
        return done

    def close(self) -> None:
        """See `Executor`. Ends the driver, and with it the actors; the cluster goes on."""
        self._ending.set()
        with self._lock:
            self._send(None)
            driver = self._driver
        if driver is not None:
            driver.join(STOP_S_MAX)
        if self._thread is not None:
            self._thread.join(STOP_S_MAX)
        self._lost()
        self._give_up(STOPPED, left=0)

    def _connect(self) -> None:
        """Start a driver, and wait until it has reached the cluster. Errors: WorldError."""
        context = multiprocessing.get_context("spawn")
        ours, its = context.Pipe()
        process = context.Process(
            target=drive, args=(its, os.getpid(), self._address, self._registry, self._workers), name="leadline-ray"
        )
        process.start()
        its.close()
        began_s, told = time.monotonic(), None
        while told is None and time.monotonic() - began_s < CONNECT_S_MAX and not self._ending.is_set():
            with suppress(EOFError, OSError):
                told = ours.recv() if ours.poll(0.2) else None
            if told is None and not process.is_alive():
                told = f"the process that talks to the Ray cluster at {self._address} ended ({process.exitcode})"
        if told != "":
            process.kill()
            process.join(STOP_S_MAX)
            ours.close()
            raise WorldError(told or f"the Ray cluster at {self._address} did not answer for {CONNECT_S_MAX:.0f} s")
        with self._lock:
            self._driver, self._pipe = process, ours
            for asked, *_ in self._open.values():
                self._send(asked)

    def _send(self, asked: Asked | None) -> None:
        """Give a call to the driver, if there is one; if it has just ended, the next one is given it."""
        with suppress(OSError):
            if self._pipe is not None:
                self._pipe.send(asked)

    def _run(self) -> None:
        """Take in answers; start the driver again when it has ended. Nothing that goes wrong ends this."""
        failed = 0
        while not self._ending.is_set():
            try:
                if self._pipe is None:
                    self._connect()
                self._take_in()
                failed = 0
            except Exception as error:
                if self._ending.is_set():
                    return
                failed += 1
                log.error("calls on the Ray cluster are tried again: %s", error)
                self._lost()
                self._give_up(f"the Ray cluster was lost: {error}"[:500])
                self._ending.wait(min(RETRY_S * 2 ** min(failed - 1, 10), RETRY_S_MAX))

    def _take_in(self) -> None:
        """Errors: WorldError when the driver has ended."""
        pipe, driver = self._pipe, self._driver
        assert pipe is not None
        assert driver is not None
        try:
            if not pipe.poll(0.5):
                return
            number, answer = pipe.recv()
        except (EOFError, OSError) as error:
            driver.join(STOP_S_MAX)
            raise WorldError(f"the process that talks to {self._address} ended ({driver.exitcode})") from error
        with self._lock:
            found = self._open.pop(number, None)
        if found is not None:
            found[1].set_result(of_answer(answer))

    def _lost(self) -> None:
        """Let go of a driver that has ended."""
        with self._lock:
            pipe, self._pipe, driver = self._pipe, None, self._driver
        if pipe is not None:
            pipe.close()
        if driver is not None and driver.is_alive():
            driver.kill()
            driver.join(STOP_S_MAX)

    def _give_up(self, text: str, left: int | None = None) -> None:
        """Answer the calls that were given to drivers often enough; `left` 0: all of them."""
        over = []
        with self._lock:
            for number, (asked, done, tries) in list(self._open.items()):
                tries_left = tries - 1 if left is None else left
                self._open[number] = asked, done, tries_left
                if not tries_left:
                    over.append(done)
                    del self._open[number]
        for done in over:
            done.set_result(Outcome(CRASHED, {}, error=text))
