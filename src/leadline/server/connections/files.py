"""How many files the process may have open: connections, the store's parts, workers' pipes."""

from __future__ import annotations

import resource

# Of all files that may be open, connections are taken up to here: what is left is for those that are connected already,
# whose rows and questions open parts of the store (a busy one holds 420 files; a process starts with 1,024 at most).
CONNECTIONS_SHARE = 0.8


def raise_file_limit() -> int:
    """Raise the limit of open files as far as the system lets us; returns what it is then.

    The usual soft limit of 1,024 is there for programs that use select(2), which cannot see higher numbers; nothing
    here does, and services are meant to raise it themselves (systemd.exec(5), LimitNOFILE).
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft != hard:
        try:
            resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
        except (ValueError, OSError):  # a hard limit above the kernel's own fs.nr_open
            return soft
    return hard


def last_file_for_connections() -> int:
    """The number of the first file that is no connection's any more, by the limit as it is.

    The kernel gives each file the lowest free number, so a connection with this number says that as many are open,
    whoever opened them.
    """
    limit = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    return 1 << 30 if limit == resource.RLIM_INFINITY else int(limit * CONNECTIONS_SHARE)
