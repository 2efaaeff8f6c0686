"""A lane delivers the items of one spool, on threads of its own.

Three lanes, so that no kind waits behind another: `urgent` (events, relations) and `metrics` have one request in
flight and keep their order; `ring` has several, because a server answers only when the rows are stored: alone in
flight, a request of what all rings had in half a second could just be delivered in that time, and a backlog never.
While the server fails, one request at a time is tried, the same bytes again, after waits that grow.
"""

from __future__ import annotations

import logging
import random
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from leadline.host.delivery import Delivery, Outcome, Verdict, judge
from leadline.host.frames import Item
from leadline.host.post import Poster
from leadline.host.spool import Spool

LOG = logging.getLogger("leadline.agent")
LANES = ("urgent", "metrics", "ring")
TELL_EVERY_S = 60.0  # a failure that lasts is in the log once a minute, not at each try
IDLE_S = 60.0  # a wait without items ends at the next append; this only bounds it


@dataclass(frozen=True, slots=True)
class Refusals:
    """What becomes of an item that the server will never take.

    `parts`: what to try in its place, because one bad part spoils the whole; none: it cannot be taken apart.
    `poisoned(item, words)` is told what is refused for good.
    """

    poisoned: Callable[[Item, str], None]
    parts: Callable[[Item], Sequence[Item]] = lambda _: ()


@dataclass(frozen=True, slots=True)
class _Turn:
    """Leave to try once. `failed` are the failures known when it was given: a try from before the last is no news."""

    failed: int
    is_probe: bool  # the only one that tries, while the server fails


class Lane:
    """One spool's way to the server, with as many requests in flight as there are `posts`."""

    def __init__(
        self,
        name: str,
        spool: Spool,
        posts: Sequence[Poster],
        wait_s_max: float,
        refusals: Refusals,
        moved: Callable[[], None] = lambda: None,
    ) -> None:
        """`moved` is told when an item was taken off; it must not block."""
        self.name = name
        self.spool = spool
        self.state = Delivery()
        self.delivered = 0  # rows or samples that the server has stored
        self._wait_s_max = wait_s_max
        self._refusals = refusals
        self._moved = moved
        self._lock = threading.Condition()  # guards the state of delivery
        self._failed = 0  # failures that were judged
        self._not_before = 0.0  # monotonic, while it fails
        self._told, self._told_at = "", 0.0  # the failure that the log told last, and when (monotonic)
        self._is_probing = False  # somebody tries whether it still fails
        self._stop_at: float | None = None  # monotonic; None: runs on
        self._stopping = threading.Event()
        self._threads = [
            threading.Thread(target=self._run, args=(post,), name=f"lane-{name}-{number}", daemon=True)
            for number, post in enumerate(posts)
        ]

    def start(self) -> None:
        """Begin to deliver."""
        for thread in self._threads:
            thread.start()

    def stop(self, deadline: float) -> None:
        """Deliver what is left until the monotonic time `deadline`, or the first failure. Does not wait."""
        self._stop_at = deadline
        self._stopping.set()
        self.spool.wake()
        with self._lock:
            self._lock.notify_all()

    def join(self) -> None:
        """Wait for the end after `stop`; a request in flight is given up when the deadline is over."""
        assert self._stop_at is not None
        for thread in self._threads:
            if thread.ident is not None:  # was started
                thread.join(max(0.0, self._stop_at - time.monotonic()) + 0.1)

    def _run(self, post: Poster) -> None:
        while True:
            stopping = self._stopping.is_set()
            if stopping and (self.state.failures or time.monotonic() > (self._stop_at or 0)):
                break
            item = self.spool.take(0.0 if stopping else IDLE_S)
            if item is None and stopping:
                break
            if item is not None and self._deliver(item, post, item):
                self.spool.done(item)
                self._moved()
        post.close()

    def _deliver(self, item: Item, post: Poster, whole: Item) -> bool:
        """Try until the server has answered for good. `item` is `whole`, or a part of it.

        False: given up, because we stop, or because the bound has dropped it meanwhile.
        """
        while (turn := self._turn_to_try()) is not None:
            if not self.spool.holds(whole):
                self._give_back(turn)
                return False
            outcome = post(item)
            verdict = self._judged(outcome, turn)
            if verdict is Verdict.STORED:
                with self._lock:
                    self.delivered += item.rows
                return True
            if verdict is Verdict.POISON:
                return self._refused(item, post, whole, outcome.words)
        return False

    def _refused(self, item: Item, post: Poster, whole: Item, words: str) -> bool:
        parts = self._refusals.parts(item)
        if not parts:
            self._refusals.poisoned(item, words)
            return True
        return all(self._deliver(part, post, whole) for part in parts)

    def _turn_to_try(self) -> _Turn | None:
        """Wait until a try makes sense: at once while all goes well, else when it is our turn. None: we stop."""
        with self._lock:
            while self.state.failures:
                if self._stopping.is_set():
                    return None
                left_s = self._not_before - time.monotonic()
                if left_s <= 0 and not self._is_probing:
                    self._is_probing = True
                    return _Turn(self._failed, is_probe=True)
                self._lock.wait(IDLE_S if self._is_probing else left_s)
            return _Turn(self._failed, is_probe=False)

    def _judged(self, outcome: Outcome, turn: _Turn) -> Verdict:
        """What becomes of a try, and the state after it. Tries that fail together are one failure."""
        with self._lock:
            after, verdict = judge(self.state, outcome, self._wait_s_max, random.random())
            if verdict is not Verdict.AGAIN:
                self.state = after
            elif turn.failed == self._failed:
                self.state = after
                self._failed += 1
                self._not_before = time.monotonic() + after.wait_s
            self._tell(verdict, outcome.words)
        self._give_back(turn)
        return verdict

    def _tell(self, verdict: Verdict, words: str) -> None:
        """Into the log: what keeps rows from being delivered, such as a token that was revoked, and when it is over."""
        now = time.monotonic()
        if verdict is Verdict.AGAIN and (words != self._told or now - self._told_at >= TELL_EVERY_S):
            LOG.warning("lane %s: kept and tried again, because it is not delivered: %s", self.name, words)
            self._told, self._told_at = words, now
        elif verdict is not Verdict.AGAIN and self._told:
            LOG.info("lane %s: the server takes it again", self.name)
            self._told = ""

    def _give_back(self, turn: _Turn) -> None:
        with self._lock:
            if turn.is_probe:
                self._is_probing = False
            self._lock.notify_all()
