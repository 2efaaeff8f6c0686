"""The process that talks to a Ray cluster: Ray's driver, beside the server and not in it.

    pipe ── call ──> waits ──> an actor that is ready ── judged ──> pipe
                       ^ tried again ── the actor, its process or its node is gone

Ray ends the process of a driver that loses its cluster, and opens ports in it. Here that costs the calls which were
open, and they are tried again; in the server it would cost the telemetry. What is started on the cluster are `workers`
actors, which end with this process, however it ends.
"""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

import numpy as np
import pyarrow as pa

from leadline import __version__
from leadline.analysis.spec import Window
from leadline.model.errors import WorldError
from leadline.runner.warm import warm
from leadline.runner.worker import CRASHED, ERROR_CHARACTERS_MAX, FAILED, TIMEOUT, Answer, answer

TRIES = 2  # of a call whose actor died: the first may have died of what another did to its node
ANSWERS_S_MAX = 5.0  # that the port of a cluster may take to be reached
LOOK_EVERY_S = 0.02  # while calls run: an answer is passed on, and a call handed out, so much later at most
IDLE_LOOK_S = 0.25
RETRY_S = 2.0  # until an actor that could not be started is started again; twice as long each time in a row
RETRY_S_MAX = 60.0
# So long a call may wait without any actor to give it to: they load for some seconds, and a cluster that scales starts
# a node in a minute or two. Source: judgement.
NONE_READY_S_MAX = 180.0
_PR_SET_PDEATHSIG = 1


@dataclass(frozen=True, slots=True)
class Asked:
    """A call as it comes through the pipe. `place`: a file with its tables as Arrow streams, one after another."""

    number: int
    name: str
    window: Window
    place: str
    tables: int
    seconds_max: float


class Judge:
    """What an actor is made of. Its node has the same Leadline, else the same rows would give other verdicts."""

    def __init__(self, registry: str, version: str) -> None:
        if version != __version__:
            where = socket.gethostname()
            raise RuntimeError(
                f"{where} has Leadline {__version__}, the server {version}; install the same on all nodes"
            )
        self._registry = registry
        warm()

    def ready(self) -> None:
        """It has loaded what it needs."""

    def judge(self, name: str, window: Window, streams: Any, tables: int) -> Answer:
        """One call. `streams`: uint8 (bytes,), in the object store and not copied."""
        return answer(self._registry, name, window, pa.BufferReader(pa.py_buffer(streams)), tables)


@dataclass(slots=True, eq=False)
class _Call:
    asked: Asked
    tries: int = TRIES
    since_s: float = field(default_factory=time.monotonic)  # it waits


@dataclass(slots=True, eq=False)
class _Actor:
    handle: Any
    waited: Any  # the reference that it is to answer: ready, or its call
    call: _Call | None = None
    ready: bool = False
    began_s: float = 0.0


class Driver:
    """Hands calls to actors. Not thread-safe."""

    def __init__(self, ray: Any, pipe: Connection, registry: str, workers: int) -> None:
        self._ray, self._pipe, self._registry, self._workers = ray, pipe, registry, workers
        self._class = ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(Judge)
        self._actors: list[_Actor] = []
        self._waiting: deque[_Call] = deque()
        self._failed_in_row = 0
        self._start_at_s = 0.0
        self._why_none = "its actors are not ready yet; see whether it has free CPUs"

    def run(self) -> None:
        """Judge until the server says that it is enough, or has ended."""
        while True:
            self._start_actors()
            self._hand_out()
            try:
                self._take_in()
            except EOFError:
                return
            self._look()

    def _start_actors(self) -> None:
        while len(self._actors) < self._workers and time.monotonic() >= self._start_at_s:
            handle = self._class.remote(self._registry, __version__)
            self._actors.append(_Actor(handle, handle.ready.remote()))

    def _hand_out(self) -> None:
        now_s = time.monotonic()
        for actor in [each for each in self._actors if each.ready and each.call is None]:
            if not self._waiting:
                break
            actor.call, actor.began_s = self._waiting.popleft(), now_s
            asked = actor.call.asked
            try:
                with open(asked.place, "rb") as file:
                    streams = self._ray.put(np.frombuffer(file.read(), np.uint8))
            except OSError:  # the server has answered it itself meanwhile
                actor.call = None
                continue
            actor.waited = actor.handle.judge.remote(asked.name, asked.window, streams, asked.tables)
        if not any(each.ready for each in self._actors):
            for call in [each for each in self._waiting if now_s - each.since_s > NONE_READY_S_MAX]:
                self._waiting.remove(call)
                self._say(call, CRASHED, f"the Ray cluster took no call for {NONE_READY_S_MAX:.0f} s: {self._why_none}")

    def _take_in(self) -> None:
        """Calls that have come; waits a little for the next one, or for an answer. Errors: EOFError."""
        waited = [each.waited for each in self._actors if each.waited is not None]
        if waited:
            self._ray.wait(waited, num_returns=1, timeout=LOOK_EVERY_S)
        while self._pipe.poll(0 if waited else IDLE_LOOK_S):
            asked = self._pipe.recv()
            if asked is None:
                raise EOFError
            self._waiting.append(_Call(asked))
            waited = [None]  # it need not wait for another one

    def _look(self) -> None:
        """What actors have answered, and which of them take too long."""
        waiting = [each for each in self._actors if each.waited is not None]
        if not waiting:
            return
        over, _ = self._ray.wait([each.waited for each in waiting], num_returns=len(waiting), timeout=0)
        for actor in waiting:
            if actor.waited in over:
                self._answered(actor)
            elif actor.call is not None and time.monotonic() - actor.began_s > actor.call.asked.seconds_max:
                call = actor.call
                self._end(actor)
                self._say(call, TIMEOUT, f"took longer than {call.asked.seconds_max:g} s and was stopped")

    def _answered(self, actor: _Actor) -> None:
        call = actor.call
        try:
            found = self._ray.get(actor.waited)
        except self._ray.exceptions.RayTaskError as error:
            if call is not None:
                self._say(call, FAILED, f"{type(error.cause).__name__}: {error.cause}"[:ERROR_CHARACTERS_MAX])
            actor.call, actor.waited = None, None
        except self._ray.exceptions.RayError as error:
            self._died(actor, error)
        else:
            if call is not None:
                self._pipe.send((call.asked.number, found))
            else:
                actor.ready, self._failed_in_row = True, 0
            actor.call, actor.waited = None, None

    def _died(self, actor: _Actor, error: Exception) -> None:
        """An actor is gone: with its process, or its node; or it could not be started. Its call is tried again."""
        call = actor.call
        self._end(actor)
        why = _in_short(error)
        if call is None:
            self._why_none = f"its actors cannot be started: {why}"
            self._start_at_s = time.monotonic() + min(RETRY_S * 2 ** min(self._failed_in_row, 10), RETRY_S_MAX)
            self._failed_in_row += 1
            return
        call.tries -= 1
        call.since_s = time.monotonic()
        if call.tries:
            self._waiting.appendleft(call)
        else:
            self._say(call, CRASHED, f"the worker on the Ray cluster died, {TRIES} times ({why})")

    def _end(self, actor: _Actor) -> None:
        self._actors.remove(actor)
        self._ray.kill(actor.handle, no_restart=True)

    def _say(self, call: _Call, state: str, text: str) -> None:
        self._pipe.send((call.asked.number, (state, {}, bytes(16), text)))


def _in_short(error: Exception) -> str:
    """What Ray says of a death: the line that tells why, of a text of many."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    told = [line for line in lines if "Error" in line or "error" in line] or lines or [type(error).__name__]
    return told[-1][:ERROR_CHARACTERS_MAX]


def drive(pipe: Connection, parent: int, address: str, registry: str, workers: int) -> None:
    """The process: connect, say so (an empty text) or why not, and judge until the server wants no more (None)."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL))
    if os.getppid() != parent:  # it died before the line above
        os._exit(1)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    os.environ["RAY_USAGE_STATS_ENABLED"] = "0"  # Ray tells nobody that it is used from here
    try:
        with connected(address) as ray:
            pipe.send("")
            Driver(ray, pipe, registry, workers).run()
    except WorldError as error:
        pipe.send(str(error))
    except (BrokenPipeError, ConnectionResetError):  # the server has ended
        pass


@contextmanager
def connected(address: str) -> Iterator[Any]:
    """Ray, connected to a cluster. Errors: WorldError."""
    _require_answer(address)
    import ray  # only who is to use a cluster needs it

    try:
        ray.init(address=address, log_to_driver=False, logging_level=logging.ERROR)
    except Exception as error:  # of many kinds: no cluster, another version of Ray or Python, a client that is refused
        raise WorldError(_no_cluster(address, _first_line(error))) from error
    try:
        yield ray
    finally:
        ray.shutdown()


def _require_answer(address: str) -> None:
    """Ray tries for a minute to reach what does not answer. Errors: WorldError."""
    host, _, port = address.rpartition("://")[2].partition("/")[0].rpartition(":")
    if not (host and port.isdigit()):
        return
    try:
        socket.create_connection((host.strip("[]"), int(port)), ANSWERS_S_MAX).close()
    except OSError as error:
        raise WorldError(_no_cluster(address, str(error))) from error


def _no_cluster(address: str, why: str) -> str:
    return (
        f"runner.ray_address: expected a Ray cluster that answers at {address}, got: {why}; "
        "start one (`ray start --head`), mend the address, or set runner.executor to local"
    )


def _first_line(error: Exception) -> str:
    return f"{type(error).__name__}: {str(error).strip().partition(chr(10))[0]}"[:ERROR_CHARACTERS_MAX]
