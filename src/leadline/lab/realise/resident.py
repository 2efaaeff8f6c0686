"""A thread that lives on a node: in its network namespace, under its host name, with its /sys.

Programs started by it are born there, so nothing has to wrap them, and their death signal is bound to a thread that
lives as long as the lab does (the kernel counts the thread that forked as the parent, not the process).
"""

from __future__ import annotations

import contextlib
import os
import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any, TypeVar

from leadline.lab.realise import namespaces
from leadline.lab.realise.namespaces import CLONE_NEWNS, CLONE_NEWUTS, MS_BIND, MS_REC, MS_SLAVE
from leadline.model.errors import WorldError

T = TypeVar("T")
Job = tuple[Callable[[], Any], "Future[Any]"]

CGROUPS = "/sys/fs/cgroup"


class Resident:
    """One thread on one node. Built inert; the thread starts with the first `run`."""

    def __init__(self, node: str, namespace: str) -> None:
        self._node = node
        self._namespace = namespace
        self._jobs: queue.SimpleQueue[Job | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None

    def run(self, function: Callable[[], T]) -> T:
        """Run on the node; returns what it returns, raises what it raises."""
        if self._thread is None:
            # Daemon: a program that ends without taking its lab down must not hang here.
            self._thread = threading.Thread(target=self._live, name=f"leadline-{self._namespace}", daemon=True)
            self._thread.start()
        future: Future[T] = Future()
        self._jobs.put((function, future))
        return future.result()

    def leave(self) -> None:
        """End the thread; what it started with a death signal is killed by that."""
        if self._thread is not None:
            self._jobs.put(None)
            self._thread.join()
            self._thread = None

    def _live(self) -> None:
        trouble: BaseException | None = None
        try:
            self._move_in()
        except BaseException as error:
            trouble = error
        while (job := self._jobs.get()) is not None:
            function, future = job
            try:
                if trouble is not None:
                    raise trouble
                future.set_result(function())
            except BaseException as error:
                future.set_exception(error)

    def _move_in(self) -> None:
        namespaces.enter(self._namespace)
        namespaces.unshare(CLONE_NEWUTS)
        namespaces.set_hostname(self._node)
        namespaces.unshare(CLONE_NEWNS)
        # Slave: nothing mounted here is seen outside, but what is unmounted outside goes here too.
        namespaces.mount("", "/", "", MS_REC | MS_SLAVE)
        # The copies of the other namespaces' mounts would keep them alive.
        with contextlib.suppress(WorldError):
            namespaces.unmount(str(namespaces.NETNS))
        _mount_own_sys()


def _mount_own_sys() -> None:
    """/sys of this network namespace, with the control groups where they were: they are mounted below /sys."""
    cgroups = os.open(CGROUPS, os.O_PATH | os.O_CLOEXEC)
    try:
        namespaces.mount("sysfs", "/sys", "sysfs", 0)
        with contextlib.suppress(WorldError):
            namespaces.mount(f"/proc/thread-self/fd/{cgroups}", CGROUPS, "", MS_BIND | MS_REC)
    finally:
        os.close(cgroups)
