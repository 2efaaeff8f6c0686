"""From accepted rows to the store: one lane per table, group commit, bounded.

    offer() ──> waiting batches ──(batch_rows, linger_s, or nobody left to wait for)──> store.append ──> futures

A future resolves when its rows are in the store: that is what an acknowledgement means. When a lane holds
`queue_rows_max` rows or `queue_bytes_max` bytes, `offer` raises BusyError and takes nothing.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import Generic, TypeVar

from leadline.model.errors import BusyError, RefusedError, StoreError

Batch = TypeVar("Batch")

APPEND_TRIES = 4  # with the waits below about 2 s: longer and the sender's own retry is the better place
FIRST_WAIT_S = 0.1

# Senders that wait for their answer before they send more (all of them do) must not wait for the whole linger: when
# nothing new came for SETTLE_S, everyone is waiting. But each append makes one part on disk, so a small one is made
# at most once in linger_s: below SETTLED_ROWS the fixed cost of an append (some 5 ms) is more than that of its rows.
SETTLE_S = 0.005
SETTLED_ROWS = 5_000
# Where many senders wait together, waiting longer saves more: an append costs 5 ms whoever is in it. A lane whose last
# append was of so many senders for each linger waits that many times longer, and a second at most: ranks are looked at
# every half a second, and nobody waits for an answer with the job stopped.
SENDERS_A_LINGER = 4
LINGER_S_MAX = 1.0
# Where no sender waits for an answer (sFlow), it is this many lingers, a second: an append of 13,000 flow samples costs
# 2.4 us of CPU a row, merging it with others included, one of 53,000 costs 0.9 us.
UNAWAITED_LINGERS = 4


@dataclass(slots=True)
class _Waiting(Generic[Batch]):
    batch: Batch
    rows: int
    size_bytes: int
    awaited: bool
    senders: int
    done: Future[None]


class Lane(Generic[Batch]):
    """One table's way to the store. `append` is called from one thread, with one or more batches at a time."""

    def __init__(
        self,
        name: str,
        append: Callable[[list[Batch]], None],
        *,
        batch_rows: int,
        linger_s: float,
        queue_rows_max: int,
        queue_bytes_max: int,
        on_failure: Callable[[StoreError], None],
    ) -> None:
        self._append = append
        self._batch_rows = batch_rows
        self._linger_s = linger_s
        self._queue_rows_max = queue_rows_max
        self._queue_bytes_max = queue_bytes_max
        self._on_failure = on_failure
        self._condition = threading.Condition()
        self._waiting: list[_Waiting[Batch]] = []
        self._rows = 0  # rows offered and not yet answered, those being appended included
        self._bytes = 0  # of the same
        self._pending_rows = 0  # rows in `_waiting`
        self._awaited = False  # somebody waits for those
        self._appended_at = 0.0
        self._appending = False
        self._together = 1  # senders of the last append
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name=f"lane-{name}", daemon=True)

    def start(self) -> None:
        """Begin to append."""
        self._thread.start()

    def stop(self) -> None:
        """Take nothing more, append what waits, and return when all of it is answered."""
        with self._condition:
            self._stopping = True
            self._condition.notify_all()
        self._thread.join()

    @property
    def rows(self) -> int:
        """Rows offered and not yet answered."""
        return self._rows

    @property
    def held_s(self) -> float:
        """For how long the store has had rows of this lane without an answer; 0: it has none."""
        began = self._appended_at
        return time.monotonic() - began if self._appending else 0.0

    def offer(self, batch: Batch, rows: int, size_bytes: int, awaited: bool = True, senders: int = 1) -> Future[None]:
        """Queue `batch` of `rows` rows, `size_bytes` in memory, of `senders`, which wait for the answer if `awaited`.

        The future resolves when they are stored, or fails with StoreError.
        Errors: BusyError if the lane is full or stopping; nothing was taken then.
        """
        waiting = _Waiting(batch, rows, size_bytes, awaited, senders, Future[None]())
        # From here on it cannot be cancelled: who stops waiting for the answer (a hung-up sender, a scrape target
        # that went away) does not take the rows back, and the lane can always answer.
        waiting.done.set_running_or_notify_cancel()
        with self._condition:
            if self._stopping:
                raise BusyError("Leadline is stopping; send again to the one that follows", 5)
            # A batch larger than the whole queue is taken when the lane is empty: it could never be taken else.
            full = self._rows + rows > self._queue_rows_max or self._bytes + size_bytes > self._queue_bytes_max
            if self._rows and full:
                raise BusyError(
                    f"{self._rows} rows wait for the store already, {self._bytes} bytes; try again in a second"
                )
            self._waiting.append(waiting)
            self._rows += rows
            self._bytes += size_bytes
            self._pending_rows += rows
            hurry = awaited and not self._awaited
            self._awaited |= awaited
            if len(self._waiting) == 1 or self._pending_rows >= self._batch_rows or hurry:
                self._condition.notify_all()
        return waiting.done

    def _run(self) -> None:
        while True:
            batches = self._take()
            if not batches:
                return
            self._appended_at, self._together = time.monotonic(), sum(each.senders for each in batches)
            self._appending = True
            error = self._append_with_retries([waiting.batch for waiting in batches])
            self._appending = False
            with self._condition:
                self._rows -= sum(waiting.rows for waiting in batches)
                self._bytes -= sum(waiting.size_bytes for waiting in batches)
            for waiting in batches:
                if error is None:
                    waiting.done.set_result(None)
                else:
                    waiting.done.set_exception(error)

    def _take(self) -> list[_Waiting[Batch]]:
        with self._condition:
            while not self._waiting and not self._stopping:
                self._condition.wait()
            began = time.monotonic()
            linger_s = self._linger_s * max(1.0, self._together / SENDERS_A_LINGER)
            linger_s = max(self._linger_s, min(linger_s, LINGER_S_MAX))
            while self._pending_rows < self._batch_rows and not self._stopping:
                longest_s = linger_s if self._awaited else min(LINGER_S_MAX, UNAWAITED_LINGERS * self._linger_s)
                left = began + longest_s - time.monotonic()
                if left <= 0:
                    break
                before = self._pending_rows
                self._condition.wait(min(left, SETTLE_S) if self._awaited else left)
                settled = self._awaited and self._pending_rows == before
                if settled and (before >= SETTLED_ROWS or time.monotonic() - self._appended_at >= linger_s):
                    break
            batches, self._waiting, self._pending_rows, self._awaited = self._waiting, [], 0, False
            return batches

    def _append_with_retries(self, batches: list[Batch]) -> StoreError | None:
        wait_s = FIRST_WAIT_S
        for tried in range(1, APPEND_TRIES + 1):
            try:
                self._append(batches)
                return None
            except (StoreError, RefusedError) as error:  # a limit of the engine is met by nobody's request here
                failure = error if isinstance(error, StoreError) else StoreError(str(error))
                self._on_failure(failure)
                if tried == APPEND_TRIES:
                    return failure
            except Exception as error:
                # Our own bug: these rows are not acknowledged, the sender keeps them, the lane goes on.
                failure = StoreError(f"append failed: {type(error).__name__}: {error}")
                self._on_failure(failure)
                return failure
            time.sleep(wait_s * random.uniform(0.5, 1.5))
            wait_s *= 3
        return None


def all_done(parts: Sequence[Future[None]]) -> Future[None]:
    """A future that ends when all of `parts` have, with the error of the first one that failed."""
    whole = Future[None]()
    waiting = len(parts)
    lock = threading.Lock()

    def ended(_: Future[None]) -> None:
        nonlocal waiting
        with lock:
            waiting -= 1
            last = not waiting
        if last:
            failed = next((part.exception() for part in parts if part.exception() is not None), None)
            whole.set_exception(failed) if failed else whole.set_result(None)

    if not parts:
        whole.set_result(None)
    for part in parts:
        part.add_done_callback(ended)
    return whole
