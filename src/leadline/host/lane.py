"""A lane delivers the items of one spool, in order, on a thread of its own.

Three lanes, so that no kind waits behind another: `urgent` (events, relations), `metrics`, `ring`. Each has one
request in flight; a lane that cannot deliver waits and tries the same bytes again.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable

from leadline.host.delivery import Delivery, Verdict, judge
from leadline.host.frames import Item
from leadline.host.post import Poster
from leadline.host.spool import Spool

LANES = ("urgent", "metrics", "ring")
IDLE_S = 60.0  # a wait without items ends at the next append; this only bounds it


class Lane:
    """One spool's way to the server. `poisoned(item, words)` is told what the server refuses for good."""

    def __init__(
        self, name: str, spool: Spool, post: Poster, wait_s_max: float, poisoned: Callable[[Item, str], None]
    ) -> None:
        self.name = name
        self.spool = spool
        self.state = Delivery()
        self.delivered = 0  # rows or samples that the server has stored
        self._post = post
        self._wait_s_max = wait_s_max
        self._poisoned = poisoned
        self._stop_at: float | None = None  # monotonic; None: runs on
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"lane-{name}", daemon=True)

    def start(self) -> None:
        """Begin to deliver."""
        self._thread.start()

    def stop(self, deadline: float) -> None:
        """Deliver what is left until the monotonic time `deadline`, or the first failure. Does not wait."""
        self._stop_at = deadline
        self._stopping.set()
        self.spool.wake()

    def join(self) -> None:
        """Wait for the end after `stop`; a request in flight is given up when the deadline is over."""
        assert self._stop_at is not None
        if self._thread.ident is None:  # never started
            return
        self._thread.join(max(0.0, self._stop_at - time.monotonic()) + 0.1)

    def _run(self) -> None:
        while True:
            stopping = self._stopping.is_set()
            item = self.spool.first(0.0 if stopping else IDLE_S)
            if stopping and (item is None or self.state.failures or time.monotonic() > (self._stop_at or 0)):
                self._post.close()
                return
            if item is not None:
                self._deliver(item)

    def _deliver(self, item: Item) -> None:
        outcome = self._post(item)
        self.state, verdict = judge(self.state, outcome, self._wait_s_max, random.random())
        if verdict is Verdict.AGAIN:
            self._stopping.wait(self.state.wait_s)
            return
        self.spool.done(item)
        if verdict is Verdict.STORED:
            self.delivered += item.rows
        else:
            self._poisoned(item, outcome.words)
