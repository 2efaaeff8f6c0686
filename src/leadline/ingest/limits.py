"""How much of the way in one sender may have: room for bodies, and turns at the decoders.

    headers ──> Room.enter ──> chunks: Place.hold ──> whole: Place.arrived ──> Turns.run ──> unpacked: Place.hold

What is unpacked counts like what is on its way, so that `bytes_max` is memory and not the sender's word. While the
process has no memory left (`shut`) nothing new is held, and bodies under way end. A sender is an
address until tokens say more: a tenant's name may be made up, where somebody connects from may not.
"""

from __future__ import annotations

import asyncio
import ipaddress
import threading
from collections import OrderedDict, deque
from collections.abc import Callable
from concurrent.futures import Executor
from functools import lru_cache
from typing import TypeVar

from leadline.model.errors import BusyError

T = TypeVar("T")

BODY_S_MAX = 120.0  # first byte to last: 32 MiB at 2.2 Mbit/s, slower than any link that telemetry is sent over
SHUT_RETRY_S = 5  # the caches of the process are let go meanwhile
BODY_IDLE_S_MAX = 30.0  # between two pieces: TCP tries again after 1, 3, 7 and 15 s (RFC 6298), so four losses in a row
# Of the room for all bodies, what the unfinished ones of one sender may hold: with all of it, one that never ends its
# bodies would keep everybody else out for BODY_S_MAX at a time.
UNFINISHED_SHARE = 0.5


@lru_cache(10_000)
def sender_key(address: str) -> str:
    """Who counts as one sender: an IPv4 address, or the /64 of an IPv6 one, of which a host may have them all."""
    try:
        parsed = ipaddress.ip_address(address.partition("%")[0])
    except ValueError:
        return address  # our own socket has no address
    if isinstance(parsed, ipaddress.IPv4Address):
        return address
    if parsed.ipv4_mapped is not None:
        return str(parsed.ipv4_mapped)
    return str(ipaddress.IPv6Network((parsed, 64), strict=False))


class Room:
    """Room for the bodies of requests: bytes of all together, unfinished bodies of each sender. Thread-safe."""

    def __init__(self, bytes_max: int, bodies_per_sender_max: int) -> None:
        self._lock = threading.Lock()
        self._bytes_max = bytes_max
        self._bodies_max = bodies_per_sender_max
        self._bytes = 0
        self._shut = ""
        self._unfinished: dict[str, list[int]] = {}  # by sender: bodies, bytes

    @property
    def held_bytes(self) -> int:
        """Bytes held now."""
        return self._bytes

    @property
    def unfinished(self) -> dict[str, tuple[int, int]]:
        """Unfinished bodies by sender: how many, and their bytes."""
        with self._lock:
            return {sender: (bodies, size) for sender, (bodies, size) in self._unfinished.items()}

    def shut(self, why: str) -> None:
        """Hold nothing more, for a reason that senders are given; empty: hold again."""
        self._shut = why

    def enter(self, sender: str) -> Place:
        """A place for one body that begins to arrive; `close` it. Errors: BusyError."""
        with self._lock:
            self._require_open()
            bodies = self._unfinished.setdefault(sender, [0, 0])
            if bodies[0] >= self._bodies_max:
                raise BusyError(
                    f"{bodies[0]} bodies from {sender} have begun and not ended, at most {self._bodies_max} may "
                    "(ingest.bodies_per_sender_max); end those and try again in a second",
                    reason="sender_full",
                )
            bodies[0] += 1
        return Place(self, sender)

    def _require_open(self) -> None:
        if self._shut:
            raise BusyError(self._shut, SHUT_RETRY_S, "memory_full")

    def _hold(self, place: Place, more: int) -> None:
        with self._lock:
            if more > 0:
                self._require_open()
            others = self._bytes - place.size_bytes
            # A body larger than all the room is taken when it is alone: it could never be taken else.
            if more > 0 and others and self._bytes + more > self._bytes_max:
                raise BusyError(
                    f"{self._bytes} bytes of requests are held already (ingest.decode_bytes_max); try again in a second"
                )
            if place.unfinished:
                mine = self._unfinished[place.sender]
                share = int(self._bytes_max * UNFINISHED_SHARE)
                if more > 0 and mine[1] > place.size_bytes and mine[1] + more > share:
                    raise BusyError(
                        f"unfinished bodies from {place.sender} hold {mine[1]} bytes; end those and try again",
                        reason="sender_full",
                    )
                mine[1] += more
            self._bytes += more
            place.size_bytes += more

    def _arrived(self, place: Place) -> None:
        with self._lock:
            if not place.unfinished:
                return
            place.unfinished = False
            mine = self._unfinished[place.sender]
            mine[0] -= 1
            mine[1] -= place.size_bytes
            if not mine[0]:
                del self._unfinished[place.sender]


class Place:
    """The place of one body in a `Room`."""

    __slots__ = ("_room", "sender", "size_bytes", "unfinished")

    def __init__(self, room: Room, sender: str) -> None:
        self._room = room
        self.sender = sender
        self.size_bytes = 0
        self.unfinished = True

    def hold(self, more: int) -> None:
        """Hold so many bytes more, or fewer. Errors: BusyError; then it holds what it did."""
        self._room._hold(self, more)

    def arrived(self) -> None:
        """The body is whole."""
        self._room._arrived(self)

    def close(self) -> None:
        """The body is done with: all that it held is free."""
        self._room._arrived(self)
        self._room._hold(self, -self.size_bytes)


class Turns:
    """Turns at the decoders: senders take them one after the other, however much each of them has waiting.

    When `requests_max` are running or waiting, the newest of whoever waits with most gives way to a sender that waits
    with fewer: one that floods crowds out nobody but itself. For one event loop.
    """

    def __init__(self, executor: Executor, at_once: int, requests_max: int) -> None:
        """`at_once` go to the executor; one more than it has threads keeps those busy between two turns."""
        self._executor = executor
        self._at_once = min(at_once, requests_max)
        self._requests_max = requests_max
        self._running = 0
        self._waiting: OrderedDict[str, deque[asyncio.Future[None]]] = OrderedDict()
        self._waiting_count = 0

    @property
    def requests(self) -> int:
        """Requests running or waiting."""
        return self._running + self._waiting_count

    async def run(self, sender: str, work: Callable[[], T]) -> T:
        """Call `work` in the executor when it is the sender's turn. Errors: BusyError; and what `work` raises."""
        loop = asyncio.get_running_loop()
        if self._running < self._at_once:
            self._running += 1
        else:
            turn: asyncio.Future[None] = loop.create_future()
            self._queue(sender, turn)
            try:
                await turn
            except asyncio.CancelledError:
                if not turn.cancelled() and turn.exception() is None:  # its turn had come already
                    self._end()
                raise
        try:
            return await loop.run_in_executor(self._executor, work)
        finally:
            self._end()

    def _queue(self, sender: str, turn: asyncio.Future[None]) -> None:
        mine = self._waiting.get(sender)
        if self.requests >= self._requests_max:
            longest = max(self._waiting.values(), key=len, default=None)
            # With as many as the newcomer would have it keeps its turn: two that are alike do not drive each other out.
            if longest is None or len(longest) <= 1 + (len(mine) if mine else 0):
                raise BusyError(f"{self.requests} requests are being decoded; try again in a second")
            given_up = longest.pop()
            self._waiting_count -= 1
            if not given_up.done():
                text = "others wait with fewer requests than you; try again in a second"
                given_up.set_exception(BusyError(text, reason="sender_full"))
        if mine is None:
            mine = self._waiting[sender] = deque()
        mine.append(turn)
        self._waiting_count += 1

    def _end(self) -> None:
        self._running -= 1
        while self._waiting and self._running < self._at_once:
            sender, turns = self._waiting.popitem(last=False)
            turn = turns.popleft() if turns else None
            if turns:
                self._waiting[sender] = turns  # behind the others
            if turn is None:
                continue
            self._waiting_count -= 1
            if not turn.done():  # else whoever waited has gone
                self._running += 1
                turn.set_result(None)
