"""Dynamic batching and its figures: when a batch is computed, what is turned away, how long requests took. Pure."""

from __future__ import annotations

import math
import random
from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Policy:
    """A batch goes when it is full, or when its oldest request has waited so long."""

    batch_max: int
    wait_ns: int
    queue_max: int  # requests that may wait; one more is shed

    def __post_init__(self) -> None:
        assert self.batch_max > 0
        assert self.wait_ns >= 0
        assert self.queue_max >= self.batch_max, "else no batch would ever be full"


class Batcher(Generic[T]):
    """The requests that wait. The caller brings the time (ns, never going back) and does the waiting."""

    def __init__(self, policy: Policy) -> None:
        self._policy = policy
        self._waiting: deque[tuple[int, T]] = deque()

    def __len__(self) -> int:
        return len(self._waiting)

    def offer(self, request: T, now_ns: int) -> bool:
        """Let it wait; False: the queue is full, it must be turned away."""
        if len(self._waiting) >= self._policy.queue_max:
            return False
        self._waiting.append((now_ns, request))
        return True

    def due_ns(self, now_ns: int) -> int | None:
        """When the next batch is to be taken: not after now if at once; None if nothing waits."""
        if not self._waiting:
            return None
        full = len(self._waiting) >= self._policy.batch_max
        return now_ns if full else self._waiting[0][0] + self._policy.wait_ns

    def take(self) -> list[tuple[int, T]]:
        """The next batch, oldest first, each with the time it came."""
        return [self._waiting.popleft() for _ in range(min(self._policy.batch_max, len(self._waiting)))]


def percentile(ordered: Sequence[float], ratio: float) -> float:
    """The smallest of the values that so many are not above (nearest rank); NaN if there are none.

    Inputs: values in rising order; 0 < ratio <= 1. Always one of the values: a p99 of 20 requests is their slowest.
    """
    if not ordered:
        return math.nan
    return ordered[max(0, math.ceil(ratio * len(ordered)) - 1)]


def arrivals(rng: random.Random, rate_per_s: float) -> Iterator[float]:
    """Times (s from 0) of a Poisson process, without end: the same for the same seed."""
    now_s = 0.0
    while True:
        now_s += rng.expovariate(rate_per_s)
        yield now_s


@dataclass(slots=True)
class Window:
    """What happened in one stretch of time. Every request that ended is counted under exactly one name."""

    number: int
    start_ns: int
    latencies_ms: list[float] = field(default_factory=list)  # of the requests that were answered
    batches: int = 0
    compute_ns: int = 0
    queue_max: int = 0
    shed: int = 0  # turned away, because the queue was full
    failed: int = 0  # their connection broke, or there was none
    timed_out: int = 0
    held_back: int = 0  # never sent, because too many were under way
    refused: int = 0  # connections that were closed: not our frames, too many, or their replies were not read

    def counts(self) -> dict[str, int]:
        """What was lost, by reason; only what happened."""
        names = ("shed", "failed", "timed_out", "held_back", "refused")
        return {name: count for name in names if (count := getattr(self, name))}

    def metrics(self) -> dict[str, float]:
        """Values by name, as the event ring tells them: latencies in ms where any request was answered."""
        ordered = sorted(self.latencies_ms)
        found: dict[str, float] = {name: float(count) for name, count in self.counts().items()}
        if ordered:
            found["latency_ms_p50"] = round(percentile(ordered, 0.5), 3)
            found["latency_ms_p99"] = round(percentile(ordered, 0.99), 3)
        if self.batches:
            found["batch_size"] = round(len(ordered) / self.batches, 2)
            found["queue"] = float(self.queue_max)
        return found
