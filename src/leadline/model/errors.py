"""The errors Leadline raises in public, as one short tree.

LeadlineError
├── DataError         bytes or rows from outside that are not what they claim to be
├── UsageError        the caller asked for something that cannot be
│   └── ConfigError   ... in a configuration file, variable or flag
├── UnknownNameError  well-formed, but nobody told of anything of that name
├── RefusedError      well-formed, but over a limit; `reason` is a counter of model.counters
├── BusyError         try again after `retry_after_s`
└── WorldError        the world outside failed us: disk, peer, permission
    ├── StoreLockedError  another process owns this embedded store
    └── StoreError        the store could not do what was asked
"""

from __future__ import annotations


class LeadlineError(Exception):
    """Base of every error that Leadline raises on purpose."""


class DataError(LeadlineError):
    """Bytes or rows that are not what they claim to be.

    `expected` and `got` complete "expected ..., got ..."; `where` says from which input and, where it is
    known, at which byte or line.
    """

    def __init__(self, where: str, expected: str, got: str) -> None:
        super().__init__(f"{where}: expected {expected}, got {got}")
        self.where = where
        self.expected = expected
        self.got = got


class UsageError(LeadlineError):
    """The caller asked for something that cannot be; the text says what to do instead."""


class ConfigError(UsageError):
    """A configuration value that cannot be used; the text names its origin (file and line, variable, flag)."""


class UnknownNameError(LeadlineError):
    """A job, incident or entity of which nothing is known; the text names those that may be meant."""


class RefusedError(LeadlineError):
    """Well-formed input over a limit. `reason` is the reason of a counter in `model.counters`, `amount` how many of its unit."""

    def __init__(self, reason: str, message: str, amount: int = 1) -> None:
        super().__init__(message)
        self.reason = reason
        self.amount = amount


class BusyError(LeadlineError):
    """A bounded queue is full; nothing was taken. Try again after `retry_after_s` seconds.

    `reason` is that of a counter in `model.counters`: whose share is full.
    """

    def __init__(self, message: str, retry_after_s: int = 1, reason: str = "queue_full") -> None:
        super().__init__(message)
        self.retry_after_s = retry_after_s
        self.reason = reason


class WorldError(LeadlineError):
    """The world outside failed: disk, peer, permission. Retrying may help."""


class StoreLockedError(WorldError):
    """Another process owns this embedded store."""


class StoreError(WorldError):
    """The store could not do what was asked of it."""
