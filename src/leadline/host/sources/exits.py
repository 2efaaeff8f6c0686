"""How a rank's process ended, seen as it happens, without being its parent.

A pidfd becomes readable when its process has ended. Until its parent has waited for it, its exit status stands in
/proc/<pid>/stat (for root); from Linux 6.15 on `PIDFD_GET_INFO` tells it afterwards, too. Where neither does, the event
says that only the end itself is known. Whether a SIGKILL came from the OOM killer is read off the rank's cgroup.
"""

from __future__ import annotations

import fcntl
import os
import signal
import struct
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass

from leadline.host.found import Event, Found
from leadline.host.sources.access import Access, Grant, of_others
from leadline.host.sources.cgroup import group_of, oom_kills, parse_mounts
from leadline.host.sources.site import RankSeen, Site, process_is, read_if_there
from leadline.host.sources.source import Source

INFO = struct.Struct("=QQ11Ii")  # mask, cgroup, pids and ids, exit status: struct pidfd_info, first version
INFO_EXIT = 1 << 3
PIDFD_GET_INFO = 3 << 30 | INFO.size << 16 | 0xFF << 8 | 11  # _IOWR(0xFF, 11, struct pidfd_info)
STATUS_S_MAX = 2.0  # how long we try to learn the status before we tell the end without it
LOOK_EVERY_S = 0.1


@dataclass(slots=True)
class Watched:
    """One rank's process. `ended_ns` is when it was seen to have ended."""

    rank: RankSeen
    handle: int
    memory: str  # its memory cgroup's directory, or empty
    kills: int  # OOM kills there when we began to watch
    ended_ns: int | None = None


def _end(site: Site) -> str:
    """Watch a process of our own until it ends. Errors: OSError (a kernel before 5.3)."""
    handle = -1
    with subprocess.Popen(["/bin/sh", "-c", "read _; exit 7"], stdin=subprocess.PIPE) as child:
        try:
            handle = os.pidfd_open(child.pid)
        finally:
            child.communicate(b"\n")
    try:
        # Linux 6.15 tells the status of whom its parent waited for to anybody who holds the pidfd.
        is_told = exit_status(handle) is not None
    finally:
        os.close(handle)
    return "ends of processes, with their status" if is_told else "ends of processes"


def _status(site: Site) -> str:
    """Whether the exit status of another user's process would be shown. Errors: PermissionError.

    The kernel hides the same fields of the living from those whom it tells no exit status: 1 stands in place of where
    the program begins. Source: Linux, fs/proc/array.c, do_task_stat.
    """
    if _end(site).endswith("status"):
        return "the kernel tells it to anybody (Linux 6.15 and later)"
    if os.geteuid() != 0:
        raise PermissionError("the kernel shows 0 to those who may not know: it is believed by root alone")
    return of_others(site, lambda pid: _shown(site, pid))


def _shown(site: Site, pid: int) -> str:
    fields = read_if_there(site.config.proc_root / str(pid) / "stat").rpartition(b")")[2].split()
    if len(fields) < 24 or fields[23] == b"1":
        raise PermissionError(f"the kernel hides the status of process {pid}, which is another user's")
    return f"seen of process {pid}"


class Exits(Source):
    """Ends of the processes that are ranks."""

    name = "exits"
    reports = "how a rank's process ended"
    told_as = "event `process-exit` of the rank, code `exit/3` or `signal/SIGSEGV`"
    accesses = (
        Access(
            "ends of processes (pidfd)",
            _end,
            "the end of a rank shows only as silence",
            Grant(service="Linux 5.3 or later"),
            ("program-failed", "program-crashed", "killed"),
        ),
        Access(
            "exit status of other users' processes",
            _status,
            "the end of a rank is seen, but not how it ended: exception, signal or OOM kill",
            Grant("CAP_SYS_PTRACE", "Linux 6.15 or later"),
            ("program-failed", "program-crashed", "killed"),
        ),
    )

    def __init__(self, site: Site) -> None:
        super().__init__(site)
        self._mounts = parse_mounts(read_if_there(site.config.proc_root / "self" / "mounts"))
        self._watched: dict[int, Watched] = {}  # by pid

    @property
    def every_s(self) -> float:
        return (
            LOOK_EVERY_S if any(each.ended_ns for each in self._watched.values()) else self.site.config.ring_interval_s
        )

    def watched(self) -> Sequence[int]:
        return [each.handle for each in self._watched.values() if each.ended_ns is None]

    def poll(self, now_ns: int) -> Found:
        for pid, rank in list(self.site.ranks.items()):
            if pid not in self._watched:
                self._watch(rank)
        found = Found()
        for watched in [each for each in self._watched.values() if each.ended_ns is not None]:
            self._look(watched, now_ns, found)
        return found

    def ready(self, handle: int, now_ns: int) -> Found:
        found = Found()
        for watched in [each for each in self._watched.values() if each.handle == handle]:
            watched.ended_ns = now_ns
            self._look(watched, now_ns, found)
        return found

    @property
    def held_ns(self) -> int | None:
        return min((each.ended_ns for each in self._watched.values() if each.ended_ns is not None), default=None)

    def close(self) -> None:
        for watched in self._watched.values():
            os.close(watched.handle)
        self._watched.clear()

    def _watch(self, rank: RankSeen) -> None:
        try:
            handle = os.pidfd_open(rank.pid)
        except OSError:  # gone between two looks: its end was not seen. Or this kernel has no pidfd (before 5.3)
            if not process_is(self.site, rank.pid, rank.start_ticks):
                self.site.ranks.pop(rank.pid, None)
            return
        if not process_is(self.site, rank.pid, rank.start_ticks):
            os.close(handle)
            self.site.ranks.pop(rank.pid, None)
            return
        group = group_of(read_if_there(self.site.config.proc_root / str(rank.pid) / "cgroup"), self._mounts)
        memory = group.memory if group else ""
        self._watched[rank.pid] = Watched(rank, handle, memory, oom_kills(memory) or 0 if memory else 0)

    def _look(self, watched: Watched, now_ns: int, found: Found) -> None:
        """Tell the end, once its status is known or has been waited for long enough."""
        assert watched.ended_ns is not None
        rank = watched.rank
        stat = read_if_there(self.site.config.proc_root / str(rank.pid) / "stat")
        status = zombie_status(stat, rank.start_ticks, os.geteuid() == 0)
        if status is None:
            status = exit_status(watched.handle)
        if status is None and now_ns - watched.ended_ns < STATUS_S_MAX * 1e9:
            return
        is_oom = bool(watched.memory) and (oom_kills(watched.memory) or 0) > watched.kills
        found.events.append(exit_event(rank, status, is_oom, watched.ended_ns))
        os.close(watched.handle)
        del self._watched[rank.pid]
        self.site.ranks.pop(rank.pid, None)


def zombie_status(stat: bytes, start_ticks: int, is_root: bool) -> int | None:
    """The wait status in /proc/<pid>/stat of a process that has ended and was not waited for; None if it is not there.

    The kernel shows 0 to those who may not know: unless we are root, 0 is not believed. Source: proc_pid_stat(5), 52.
    """
    fields = stat.rpartition(b")")[2].split()
    if len(fields) < 50 or fields[0] not in (b"Z", b"X") or (start_ticks and fields[19] != b"%d" % start_ticks):
        return None
    status = int(fields[49]) if fields[49].isdigit() else 0
    return status if status or is_root else None


def exit_status(handle: int) -> int | None:
    """The wait status of a process that has ended and was waited for; None as long as it is not known."""
    memory = bytearray(INFO.pack(INFO_EXIT, *[0] * 13))
    try:
        fcntl.ioctl(handle, PIDFD_GET_INFO, memory)
    except OSError:
        return None  # an older kernel
    fields = INFO.unpack(memory)
    return int(fields[-1]) if fields[0] & INFO_EXIT else None


def exit_event(rank: RankSeen, status: int | None, is_oom: bool, time_ns: int) -> Event:
    """The event of an end. `is_oom`: its cgroup had an OOM kill while we watched."""
    who = f"rank {rank.rank} of {rank.job} (pid {rank.pid})"
    attributes = {"pid": str(rank.pid)}
    code: str | None = None
    severity = "error"
    if status is None:
        text = f"{who} ended; exit status unknown: the kernel does not report it"
    elif os.WIFSIGNALED(status):
        name = _signal_name(os.WTERMSIG(status))
        code = f"signal/{name}"
        attributes |= {"signal": name, "core_dumped": str(os.WCOREDUMP(status)).lower()}
        text = f"{who} was killed by {name}"
    else:
        exit_code = os.WEXITSTATUS(status)
        code, severity = f"exit/{exit_code}", "error" if exit_code else "info"
        attributes["exit_code"] = str(exit_code)
        text = f"{who} ended with exit code {exit_code}"
    if is_oom and code in (None, "signal/SIGKILL"):
        attributes["reason"] = "oom-kill"
        text += "; its cgroup counts an OOM kill"
    return Event(time_ns, rank.entity, "process-exit", severity, text, attributes, "agent/exits", code)


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"SIG{number}"
