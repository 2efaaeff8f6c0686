"""Small bodies that come at about the same time, decoded as one: each costs nearly the same, whatever is in it.

    ring, ring, ring ──> Gathering.take ──(GATHER_S)──> one decode, one offer to each lane ──> a receipt each

Agents send such bodies, a few records of each rank each time. One alone took 2 to 4 ms of CPU, of which its rows were a
tenth. Where one of them is out of the ordinary (bad, sent before, out of time), each is taken by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter as Tally
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace

from leadline.ingest.decode import RING, ROWS, Request, take_rows_together, unreadable
from leadline.ingest.intake import Intake, Receipt
from leadline.ingest.ring import take_rings
from leadline.model.errors import BusyError, LeadlineError
from leadline.model.principal import Principal
from leadline.wire.body import Body
from leadline.wire.rows import NDJSON

BODY_BYTES_MAX = 64 << 10  # what is larger costs by what is in it
GROUP_MAX = 256  # bodies, 16 MiB of them at most
# Of these: a proxy's 1,024 agents send that many in GATHER_MANY_S. Who floods waits for its own turns.
OF_A_SENDER_MAX = 128
GATHER_S = 0.1  # the answer waits up to a second for an append all the same, where many send
# Where the last group had MANY bodies they wait longer: a group costs 2 to 4 ms. Source: bench.live, 64 hosts, decoding
# took 0.23 to 0.27 cores instead of 0.33, storing 0.33 to 0.35 instead of 0.45 (docs/log.md, 2026-11-29).
GATHER_MANY_S, MANY = 0.25, 6
Taken = Receipt | LeadlineError
TakeOne = Callable[[Request], Receipt]


def is_small(request: Request) -> bool:
    """Whether a whole body may be decoded with others."""
    packed = request.headers.get("content-encoding", "identity") not in ("", "identity")
    if packed or request.body.fed_bytes > BODY_BYTES_MAX:
        return False
    media_type = request.headers.get("content-type", NDJSON[0]).partition(";")[0].strip().lower()
    return request.path == RING or (request.path.startswith(ROWS) and media_type in NDJSON)


def take_together(intake: Intake, take: TakeOne, requests: Sequence[Request]) -> list[Taken]:
    """What becomes of requests of one path and principal; `take` takes one by itself."""
    if len(requests) == 1:
        return [_tried(take, requests[0])]
    path = requests[0].path
    bodies = [each.unpacked() for each in requests]
    try:
        if path == RING:
            found: Sequence[Taken] | None = take_rings(intake, requests, bodies)
        else:
            found = take_rows_together(intake, requests, bodies, path.removeprefix(ROWS))
    except BusyError as error:
        return [error] * len(requests)
    except LeadlineError:
        found = None  # one of them is to blame, and the others are not
    except Exception as error:
        unreadable(error)  # tells the log
        found = None
    if found is not None:
        return list(found)
    again = [replace(each, body=Body.of(body)) for each, body in zip(requests, bodies, strict=True)]
    return [_tried(take, each) for each in again]


def _tried(take: TakeOne, request: Request) -> Taken:
    try:
        return take(request)
    except LeadlineError as error:
        return error


class Gathering:
    """Gathers small bodies and has them decoded. For one event loop."""

    def __init__(self, decode: Callable[[Sequence[Request]], Awaitable[list[Taken]]]) -> None:
        self._decode = decode
        self._groups: dict[tuple[str, Principal], list[tuple[Request, asyncio.Future[Receipt]]]] = {}
        self._of_senders: dict[tuple[str, Principal], Tally[str]] = {}  # bodies of each in the group that gathers
        self._last: dict[str, int] = {}  # by path: how many the last group had
        self._tasks: set[asyncio.Task[None]] = set()

    def has_room(self, request: Request, whose: str) -> bool:
        """Whether one more body of a sender may be taken with others."""
        of_senders = self._of_senders.get((request.path, request.principal))
        return of_senders is None or of_senders[whose] < OF_A_SENDER_MAX

    async def take(self, request: Request, whose: str) -> Receipt:
        """Take one, with others that come soon. Errors: those of taking it, and of the turn to decode."""
        loop = asyncio.get_running_loop()
        key = request.path, request.principal
        group = self._groups.setdefault(key, [])
        self._of_senders.setdefault(key, Tally())[whose] += 1
        receipt: asyncio.Future[Receipt] = loop.create_future()
        group.append((request, receipt))
        if len(group) == 1:
            # Who sends alone is not kept waiting.
            last = self._last.get(request.path, 0)
            wait_s = GATHER_MANY_S if last >= MANY else GATHER_S if last > 1 else 0.0
            loop.call_later(wait_s, self._close, key, group)
        elif len(group) == GROUP_MAX:
            self._close(key, group)
        return await receipt

    def _close(self, key: tuple[str, Principal], group: list[tuple[Request, asyncio.Future[Receipt]]]) -> None:
        if self._groups.get(key) is not group:
            return
        del self._groups[key], self._of_senders[key]
        self._last[key[0]] = len(group)
        task = asyncio.ensure_future(self._run(group))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, group: list[tuple[Request, asyncio.Future[Receipt]]]) -> None:
        try:
            found: Sequence[Receipt | Exception] = await self._decode([request for request, _ in group])
        except Exception as error:
            found = [error] * len(group)
        for (_, receipt), taken in zip(group, found, strict=True):
            if receipt.done():  # whoever waited has gone
                continue
            if isinstance(taken, Exception):
                receipt.set_exception(taken)
            else:
                receipt.set_result(taken)
