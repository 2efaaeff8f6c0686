"""Answers that viewers share: who asks `Cache-Control: max-age=2` takes one that is two seconds old (RFC 9111).

    page, page, page ── GET /api/v1/now, max-age=2 ──> SharedAnswers ── one of them, each two seconds ──> the end point

The page says so when it asks again for what it shows, so that twenty of them cost what one costs. Whoever says nothing
is answered for itself. What somebody changes (a mark) makes every kept answer old.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Hashable
from dataclasses import dataclass
from typing import TypeVar

from fastapi import Request, Response

AGE_S_MAX = 30  # as old as the page ever asks for (web/src/lib/pace.ts)
BYTES_MAX = 32 << 20  # of all kept answers; one of a fleet of 1,000 hosts has 0.3 MB
COUNT_MAX = 256
_MAX_AGE = re.compile(r"(?:^|[,\s])max-age=(\d{1,9})(?:$|[,\s])")
A = TypeVar("A")


@dataclass(slots=True)
class _Kept:
    asked_s: float
    answer: asyncio.Task[Response]
    took_s: float = 0.0
    size_bytes: int = 0


class SharedAnswers:
    """The newest answer to each question for which an age was named. For one event loop."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: OrderedDict[Hashable, _Kept] = OrderedDict()

    async def answer(self, key: Hashable, age_s: int, ask: Callable[[], Awaitable[Response]]) -> Response:
        """One that was asked for at most `age_s` ago, under way ones too, or a new one. Errors: those of `ask`."""
        now = self._clock()
        kept = self._kept.get(key)
        if kept is None or now - kept.asked_s > age_s:
            kept = self._kept[key] = _Kept(now, asyncio.ensure_future(_awaited(ask)))
            kept.answer.add_done_callback(lambda _: self._came(key, kept))
        self._kept.move_to_end(key)
        # A viewer that hangs up does not take the answer from the others.
        answer = await asyncio.shield(kept.answer)
        copy = Response(answer.body, answer.status_code)
        # The page asks less often for what takes long, and once more for what is older than the rows it was told of.
        old_s = self._clock() - kept.asked_s
        timing = b"age;dur=%.0f, answer;dur=%.0f" % (old_s * 1e3, kept.took_s * 1e3)
        copy.raw_headers = [*answer.raw_headers, (b"age", b"%d" % old_s), (b"server-timing", timing)]
        return copy

    def forget(self) -> None:
        """Somebody changed what answers tell."""
        self._kept.clear()

    def _came(self, key: Hashable, kept: _Kept) -> None:
        """Keep what can be given twice, within the bounds."""
        kept.took_s = self._clock() - kept.asked_s
        answer = None if kept.answer.cancelled() or kept.answer.exception() else kept.answer.result()
        if self._kept.get(key) is not kept:
            return
        if answer is None or answer.status_code != 200 or not hasattr(answer, "body"):
            del self._kept[key]
            return
        kept.size_bytes = len(answer.body)
        while len(self._kept) > COUNT_MAX or sum(each.size_bytes for each in self._kept.values()) > BYTES_MAX:
            self._kept.popitem(last=False)


async def _awaited(ask: Callable[[], Awaitable[A]]) -> A:
    return await ask()


def age_asked(request: Request) -> int:
    """How old an answer may be, by the request; seconds, 0: it is to be made for this request."""
    found = _MAX_AGE.search(request.headers.get("cache-control", "").lower())
    return min(int(found[1]), AGE_S_MAX) if found else 0
