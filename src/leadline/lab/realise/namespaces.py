"""Network namespaces by their names under /run/netns, in the manner of `ip netns`, without starting a program for each.

A namespace belongs to a thread, not to a process. So whatever is to happen inside one is run in a thread that enters
it: the rest of the process stays where it is. A socket opened inside stays there, whoever uses it later.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

from leadline.model.errors import WorldError

T = TypeVar("T")

NETNS = Path("/run/netns")
CLONE_NEWNS, CLONE_NEWUTS, CLONE_NEWNET = 0x0002_0000, 0x0400_0000, 0x4000_0000
MS_BIND, MS_REC, MS_SLAVE, MS_SHARED, MNT_DETACH = 0x1000, 0x4000, 0x8_0000, 0x10_0000, 0x2

_libc = ctypes.CDLL(None, use_errno=True)


def namespace_path(name: str) -> Path:
    """Where the namespace of that name is mounted."""
    return NETNS / name


def prepare_directory() -> None:
    """Make /run/netns a shared mount, as `ip netns add` does: what is unmounted here is unmounted everywhere.

    Otherwise a program that copied the mount table earlier would keep our namespaces alive after their end.
    """
    NETNS.mkdir(mode=0o755, parents=True, exist_ok=True)
    try:
        mount("", str(NETNS), "", MS_SHARED | MS_REC)
    except WorldError:  # it is no mount of its own yet
        mount(str(NETNS), str(NETNS), "", MS_BIND | MS_REC)
        mount("", str(NETNS), "", MS_SHARED | MS_REC)


def create(name: str, prepare: Callable[[], None]) -> None:
    """Make the namespace and run `prepare` inside. Errors: WorldError; if the name is taken, nothing is changed."""
    path = namespace_path(name)
    try:
        os.close(os.open(path, os.O_CREAT | os.O_EXCL | os.O_RDONLY, 0o000))
    except FileExistsError:
        raise WorldError(f"network namespace {name} is there already, and not ours; see `ip netns list`") from None

    def make() -> None:
        unshare(CLONE_NEWNET)
        mount("/proc/thread-self/ns/net", str(path), "", MS_BIND)
        prepare()

    in_thread(make)


def delete(name: str) -> bool:
    """Take the name away; the kernel ends the namespace when nobody is in it any more. False if it was not there."""
    path = namespace_path(name)
    with contextlib.suppress(WorldError):  # created, but killed before it was mounted: only the file is there
        _call("umount2", str(path).encode(), MNT_DETACH)
    try:
        path.unlink()
    except FileNotFoundError:
        return False
    return True


def inode(name: str) -> int | None:
    """What /proc/PID/ns/net of a process inside shows; None if there is no such namespace."""
    try:
        return namespace_path(name).stat().st_ino
    except OSError:
        return None


def enter(name: str) -> None:
    """Move the calling thread into the namespace, for good. Errors: WorldError."""
    try:
        handle = os.open(namespace_path(name), os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        raise WorldError(f"no network namespace {name}; is the lab up? `leadline lab status` says") from None
    try:
        _call("setns", handle, CLONE_NEWNET)
    finally:
        os.close(handle)


def call_in(name: str, function: Callable[[], T]) -> T:
    """Run `function` in a thread inside the namespace; returns what it returns, raises what it raises."""

    def inside() -> T:
        enter(name)
        return function()

    return in_thread(inside)


def in_thread(function: Callable[[], T]) -> T:
    """Run in a thread of its own and wait for it."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(function())
        except BaseException as error:
            outcome.append(error)
            outcome.append(None)

    thread = threading.Thread(target=run, name="leadline-netns")
    thread.start()
    thread.join()
    if len(outcome) == 2:
        raise outcome[0]
    result: T = outcome[0]
    return result


def unshare(flags: int) -> None:
    """Give the calling thread namespaces of its own. Errors: WorldError."""
    _call("unshare", flags)


def mount(source: str, target: str, kind: str, flags: int) -> None:
    """mount(2). Errors: WorldError."""
    _call("mount", source.encode(), target.encode(), kind.encode(), ctypes.c_ulong(flags), None)


def unmount(target: str) -> None:
    """Detach what is mounted there. Errors: WorldError."""
    _call("umount2", target.encode(), MNT_DETACH)


def set_hostname(name: str) -> None:
    """Name of the calling thread's UTS namespace. Errors: WorldError."""
    encoded = name.encode()
    _call("sethostname", encoded, ctypes.c_size_t(len(encoded)))


def _call(function: str, *arguments: Any) -> None:
    if getattr(_libc, function)(*arguments) != 0:
        number = ctypes.get_errno()
        told = ", ".join(repr(each.decode() if isinstance(each, bytes) else each) for each in arguments[:2])
        hint = "; the lab needs root (CAP_SYS_ADMIN)" if number in (errno.EPERM, errno.EACCES) else ""
        raise WorldError(f"{function}({told}): {os.strerror(number)}{hint}")
