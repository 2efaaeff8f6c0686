"""What a source must be let in to: declared once by the source, tried for real, told with what is lost without it.

    Source.accesses ──> tried(...) ──> Tried: ok, refused, absent, hangs, untried; and why
           │                 ├── the agent's log, at its start
           │                 └── `leadline doctor --permissions`, `leadline agent --permissions`
           └── docs/permissions.md

Nothing is concluded from the user id: each access opens the file or socket that the source itself reads. What cannot be
tried now (no job of another user runs here) is told as that.
"""

from __future__ import annotations

import errno
import os
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from itertools import islice
from pathlib import Path
from typing import NamedTuple

from leadline.host.sources.site import Site, read, read_if_there
from leadline.model.errors import LeadlineError

# The process namespace of the machine has a fixed number; any other is a container's. Source: Linux,
# include/uapi/linux/nsfs.h, PROC_PID_INIT_INO.
HOST_PROCESSES = "pid:[4026531836]"
PROCESSES_MAX = 4096  # looked at for those of other users
OTHERS_MAX = 8  # of them tried
NOBODY = 65_534  # the user of nobody; Linux calls users so whom it does not know (overflowuid)


class Outcome(StrEnum):
    """How a try ended."""

    OK = "ok"
    REFUSED = "refused"  # it is there, and this process may not read it: can be granted
    HANGS = "hangs"  # it was asked and does not answer
    ABSENT = "absent"  # this host does not have it
    UNTRIED = "untried"  # nothing to try it on now


class UntriedError(LeadlineError):
    """There is nothing here on which an access could be tried."""


class Grant(NamedTuple):
    """What lets a process in. A capability is granted in the same way everywhere, so its name is enough."""

    capability: str = ""  # CAP_SYSLOG
    service: str = ""  # for the agent as a service of the host, beside or instead of the capability
    pod: str = ""  # for the agent as a DaemonSet, where it is not the capability

    def for_service(self) -> str:
        """What to do where the agent is a service, or is started by hand; empty: nothing helps."""
        if not self.capability:
            return self.service
        text = (
            f"{self.capability}: run the agent as root and keep it in CapabilityBoundingSet, or set "
            f"AmbientCapabilities={self.capability} in its unit"
        )
        return f"{text}; or {self.service}" if self.service else text

    def for_pod(self) -> str:
        """What to do where the agent is a pod; empty: nothing helps."""
        return self.pod or (
            f"add {self.capability.removeprefix('CAP_')} to agent.capabilities" if self.capability else ""
        )


class Access(NamedTuple):
    """One thing that a source reads.

    `tried` reads it as the source does and says what it saw. Errors: PermissionError where this process may not,
    another OSError or LeadlineError where the host does not have it, UntriedError.
    """

    what: str
    tried: Callable[[Site], str]
    lost: str  # what nobody sees without it
    grant: Grant
    causes: tuple[str, ...] = ()  # rules of causes (docs/analyses/rules.md) that lose evidence by it


class Tried(NamedTuple):
    """How one access went. `found`: what was seen, or why not."""

    source: str
    access: Access
    outcome: Outcome
    found: str


def tried(source: str, access: Access, site: Site) -> Tried:
    """Try one access."""
    try:
        return Tried(source, access, Outcome.OK, access.tried(site))
    except UntriedError as error:
        return Tried(source, access, Outcome.UNTRIED, str(error))
    except OSError as error:
        refused = error.errno in (errno.EACCES, errno.EPERM, errno.EROFS) or isinstance(error, PermissionError)
        why = f"{error.filename}: {error.strerror}" if error.filename else error.strerror or str(error)
        return Tried(source, access, Outcome.REFUSED if refused else Outcome.ABSENT, why)
    except LeadlineError as error:
        return Tried(source, access, Outcome.ABSENT, str(error))


# --- what several sources try -------------------------------------------------------------------------------------


def opened(path: Path) -> str:
    """Read the beginning of a file, as some are opened for everybody and refuse to be read. Errors: OSError."""
    try:
        read(path, 4096)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(path)) from None
    return str(path)


def host_network(site: Site) -> str:
    """Whether this process has the network namespace of the machine. Errors: PermissionError, UntriedError."""
    own = os.readlink(site.config.proc_root / "self" / "ns" / "net")
    if not _sees_host(site):
        raise UntriedError(
            "the host's processes cannot be seen from here, so nothing tells which network is the host's"
        )
    try:
        first = os.readlink(site.config.proc_root / "1" / "ns" / "net")
    except OSError:
        raise UntriedError("/proc/1/ns/net may not be read, so nothing tells which network is the host's") from None
    if own != first:
        raise PermissionError("this process has a network namespace of its own, with other interfaces than the host's")
    return "the host's network namespace"


def host_processes(site: Site) -> str:
    """Whether this process sees the machine's processes. Errors: PermissionError."""
    count = sum(1 for _ in _processes(site))
    if not _sees_host(site):
        raise PermissionError(f"this process has a process namespace of its own and sees {count} processes in it")
    if not (site.config.proc_root / "1" / "status").exists() and not any(_foreign(site)):
        raise PermissionError("/proc is mounted with hidepid: it shows nobody else's processes")
    return f"{count} processes"


def of_others(site: Site, read_one: Callable[[int], str]) -> str:
    """Read something of another user's process: of a few that run, or of one that is started for it.

    One that can be read is enough: a security module may keep a single process (the first one) from everybody.
    Errors: PermissionError of the first where none can be read, UntriedError where there is none to try.
    """
    refused: OSError | None = None
    with _others(site) as pids:
        for pid in pids:
            try:
                return read_one(pid)
            except FileNotFoundError:
                continue  # it has just ended
            except OSError as error:
                refused = refused or error
    if refused is not None:
        raise refused
    raise UntriedError("no process of another user runs here, and none may be started")


@contextmanager
def _others(site: Site) -> Iterator[list[int]]:
    """Processes of other users; a child of nobody's where there are none and this process may become another user."""
    found = list(islice(_foreign(site), OTHERS_MAX))
    if found or os.geteuid() != 0:
        yield found
        return
    try:
        child = subprocess.Popen(
            ["/bin/sh", "-c", "read _"], stdin=subprocess.PIPE, user=NOBODY, group=NOBODY, extra_groups=[]
        )
    except (OSError, subprocess.SubprocessError):
        yield []
        return
    try:
        yield [child.pid]
    finally:
        child.communicate(b"\n")


def _foreign(site: Site) -> Iterator[int]:
    """Processes of other users; threads of the kernel, which have no memory, are none."""
    for pid in _processes(site):
        status = read_if_there(site.config.proc_root / str(pid) / "status")
        words = status.partition(b"\nUid:")[2].split(b"\n", 1)[0].split()
        if b"\nVmSize:" in status and len(words) > 1 and int(words[1]) != os.geteuid():
            yield pid


def _processes(site: Site) -> Iterator[int]:
    numbers = sorted(int(name) for name in os.listdir(site.config.proc_root) if name.isdigit())
    return iter(numbers[:PROCESSES_MAX])


def _sees_host(site: Site) -> bool:
    return os.readlink(site.config.proc_root / "self" / "ns" / "pid") == HOST_PROCESSES
