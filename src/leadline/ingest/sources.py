"""Who sends, how fresh, and what was refused of it: what `leadline doctor` shows."""

from __future__ import annotations

import threading
from collections import Counter as Tally
from collections import OrderedDict
from dataclasses import dataclass, field
from itertools import islice

from leadline.ingest.counts import Counts
from leadline.model.counters import Counter, counter

SOURCES_MAX = 10_000  # about 1 kB each
TELLS_MAX = 32  # kinds of telemetry named per source
ERROR_CHARS_MAX = 500


@dataclass(frozen=True, slots=True)
class Sender:
    """One sender: whose it is, which way it comes in, what it calls itself."""

    tenant: str
    way: str  # remote-write, otlp-http, otlp-grpc, scrape, rows, ring
    name: str


@dataclass(slots=True)
class Source:
    """What one sender has sent so far. Times are ns of our clock, except `newest_ns`, which is the data's."""

    sender: Sender
    first_ns: int
    last_ns: int
    newest_ns: int = 0
    requests: int = 0
    samples: int = 0
    rows: int = 0
    tells: set[str] = field(default_factory=set)
    refused: Tally[str] = field(default_factory=Tally)
    last_error: str = ""
    last_error_ns: int = 0
    last_reason: str = ""  # of the refusal that the error tells of
    last_do: str = ""  # what to do about it


class Sources:
    """Bounded list of senders. Thread-safe. The one heard from longest ago makes room."""

    def __init__(self, counts: Counts, sources_max: int = SOURCES_MAX) -> None:
        self._lock = threading.Lock()
        self._counts = counts
        self._max = sources_max
        self._sources: OrderedDict[Sender, Source] = OrderedDict()

    def heard(self, sender: Sender, now_ns: int, *, samples: int = 0, rows: int = 0, newest_ns: int = 0) -> None:
        """A request of `sender` was stored."""
        with self._lock:
            source = self._source(sender, now_ns)
            source.last_ns = now_ns
            source.requests += 1
            source.samples += samples
            source.rows += rows
            source.newest_ns = max(source.newest_ns, newest_ns)

    def tells(self, sender: Sender, now_ns: int, what: set[str]) -> None:
        """`sender` sends telemetry of these kinds (`node_exporter`, `dcgm`, ...)."""
        with self._lock:
            known = self._source(sender, now_ns).tells
            known.update(sorted(what - known)[: TELLS_MAX - len(known)])

    def refuse(self, sender: Sender, now_ns: int, why: Counter, amount: int, error: str = "") -> None:
        """Count something refused, for the sender and in total, and keep the newest error."""
        self._counts.add(why, amount)
        with self._lock:
            source = self._source(sender, now_ns)
            source.refused[why.reason] += amount
            if error:
                source.last_error, source.last_error_ns, source.last_do = error[:ERROR_CHARS_MAX], now_ns, why.do
                source.last_reason = why.reason

    def all(self) -> list[Source]:
        """Copies of all sources, oldest acquaintance first."""
        with self._lock:
            return sorted((_copy(source) for source in self._sources.values()), key=lambda s: s.first_ns)

    def quietest(self, count: int) -> tuple[list[Source], int]:
        """Copies of the `count` that were silent longest, and how many there are in all: cheap, however many."""
        with self._lock:
            return [_copy(source) for source in islice(self._sources.values(), count)], len(self._sources)

    def _source(self, sender: Sender, now_ns: int) -> Source:
        source = self._sources.get(sender)
        if source is None:
            if len(self._sources) >= self._max:
                self._sources.popitem(last=False)
                self._counts.add(counter("source_overflow", "sources"))
            source = self._sources[sender] = Source(sender, now_ns, now_ns)
        self._sources.move_to_end(sender)
        return source


def _copy(source: Source) -> Source:
    return Source(
        source.sender, source.first_ns, source.last_ns, source.newest_ns, source.requests, source.samples,
        source.rows, set(source.tells), Tally(source.refused), source.last_error, source.last_error_ns,
        source.last_reason, source.last_do,
    )  # fmt: skip
