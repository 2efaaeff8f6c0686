"""Which connections may stay: a state machine without sockets, the caller brings the time.

    FRESH ──> (whole header) ──> BODY ──> ANSWER ──> IDLE ──> HEADER ──> BODY ──> ...
      10 s                     120 s               65 s     10 s

When there is no room, whoever has most connections loses of them first those that never sent a whole request, then
those that do nothing, then those with half a body; a connection that waits for its answer is never cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any

HEADER_S_MAX = 10.0  # a header is one packet or two; ten seconds are three losses in a row (RFC 6298: 1, 3 and 7 s)
IDLE_S_MAX = 65.0  # more than the minute at which senders scrape, so that theirs is kept between two
BODY_S_MAX = 130.0  # behind the 120 s and 30 s of the ways in, which answer in words: this is for everybody else
BODY_IDLE_S_MAX = 40.0
READER_S_MAX = 120.0  # an answer of which nothing is taken: 64 KiB wait to be sent then
# Closed at once when there is no room: to find them looks at all connections of one sender, and so does that rarely.
ROOM_SHARE = 0.01


class Phase(IntEnum):
    """What a connection is at; in the order in which they make room."""

    FRESH = 0  # nothing whole has come yet
    HEADER = 1  # a further request's header has begun
    IDLE = 2  # between two requests
    BODY = 3
    ANSWER = 4  # it is our turn


_TIMES: dict[Phase, tuple[float, str]] = {
    Phase.FRESH: (HEADER_S_MAX, "header_slow"),
    Phase.HEADER: (HEADER_S_MAX, "header_slow"),
    Phase.IDLE: (IDLE_S_MAX, "idle"),
    Phase.BODY: (BODY_S_MAX, "body_slow"),
}


@dataclass(eq=False, slots=True)
class Connection:
    """One connection. `owner` is what can close it; times are monotonic seconds."""

    sender: str
    owner: Any
    since: float  # in this phase
    phase: Phase = Phase.FRESH
    moved: float = 0.0  # when the last piece of a body came
    stuck: float | None = None  # since when nothing of our answer is taken

    def enter(self, phase: Phase, now: float) -> None:
        """It is at something else now."""
        if phase is not self.phase:
            self.phase, self.since, self.moved = phase, now, now

    def overdue(self, now: float) -> str | None:
        """Why it should be closed: a reason of `connection_closed` in model.counters; or None."""
        if self.stuck is not None and now - self.stuck > READER_S_MAX:
            return "reader_slow"
        if self.phase is Phase.BODY and now - self.moved > BODY_IDLE_S_MAX:
            return "body_slow"
        seconds, reason = _TIMES.get(self.phase, (float("inf"), ""))
        return reason if now - self.since > seconds else None


@dataclass(slots=True)
class Gate:
    """All connections of the process, of whichever port. Not for several threads at once."""

    connections_max: int
    file_max: int  # a connection whose file has this number or a higher one is one too many
    _of: dict[str, set[Connection]] = field(default_factory=dict)
    _count: int = 0

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[Connection]:
        return (each for connections in self._of.values() for each in connections)

    def arrive(self, connection: Connection, file: int) -> list[Connection] | None:
        """A connection was made; `file` is its number.

        Returns: those to close for it, usually none; None if there is no room, and then it is not kept here.
        """
        room: list[Connection] = []
        if self._count >= self.connections_max or file >= self.file_max:
            room = self._least(max(1, int(self._count * ROOM_SHARE)))
            if not room:
                return None
            for each in room:
                self.leave(each)
        self._of.setdefault(connection.sender, set()).add(connection)
        self._count += 1
        return room

    def leave(self, connection: Connection) -> None:
        """A connection is gone; nothing happens if that is known."""
        mine = self._of.get(connection.sender)
        if mine is None or connection not in mine:
            return
        mine.remove(connection)
        self._count -= 1
        if not mine:
            del self._of[connection.sender]

    def overdue(self, now: float) -> list[tuple[Connection, str]]:
        """Connections that took longer than they may, and why."""
        return [(each, reason) for each in self if (reason := each.overdue(now))]

    def _least(self, count: int) -> list[Connection]:
        """Up to `count` connections that should make room, of whoever has most."""
        most = max(self._of.values(), key=len, default=set())
        able = [each for each in most if each.phase is not Phase.ANSWER]
        return sorted(able, key=lambda each: (each.phase, each.since))[:count]
