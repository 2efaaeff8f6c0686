"""An intake on fakes: a memory store that fails when told to, a clock that stands still, what is told."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from leadline.ingest import lanes
from leadline.ingest.config import IngestConfig
from leadline.ingest.counts import Counts
from leadline.ingest.intake import Intake, Receipt
from leadline.ingest.sources import Sender, Sources
from leadline.model.counters import COUNTERS, accepted, refused
from leadline.model.principal import Principal
from leadline.model.tables import Table
from leadline.testing import FakeClock, MemoryStore, StoreFaults
from leadline.wire.samples import Samples, samples_from

from .callers import Caller

CONFIG = IngestConfig(linger_s=0.0, queue_rows_max=1000, series_max=100)
SENDER = Sender("default", "remote-write", "test")


@dataclass
class Bench:
    """One intake and everything it touches; `seen` and `told` have what was told as stored, oldest first."""

    intake: Intake
    store: MemoryStore
    faults: StoreFaults
    clock: FakeClock
    counts: Counts
    sources: Sources
    seen: list[tuple[str, int]] = field(default_factory=list)
    told: list[Mapping[str, Any]] = field(default_factory=list)

    def send(self, samples: Samples, principal: Principal = Principal()) -> Receipt:
        """Offer samples and wait until they are stored."""
        receipt = self.intake.samples(samples, principal, SENDER)
        receipt.done.result(10)
        return receipt

    def accepted(self, reason: str) -> int:
        return self.counts.totals()[accepted(reason)]

    def refused(self) -> dict[str, int]:
        """What was refused so far, by reason."""
        totals = self.counts.totals()
        family = refused("malformed").family
        return {c.reason: totals[c] for c in COUNTERS if c.family == family and totals[c]}

    def stored(self) -> list[tuple[str, int, float]]:
        """(labels written out, time, value) of every stored sample, sorted; every series must have its row."""
        names = {row["series"]: _written(row) for row in self.store.rows("series")}
        return sorted((names[row["series"]], row["time_ns"], row["value"]) for row in self.store.rows("metric_sample"))


def _written(row: Mapping[str, Any]) -> str:
    labels = ",".join(f"{name}={value}" for name, value in sorted(row["labels"]))
    return f"{row['name']}{{{labels}}}"


def one(labels: Mapping[str, str], time_ns: int, value: float = 1.0, **more: Any) -> Samples:
    """One sample of one stream."""
    return samples_from([labels], [0], [time_ns], [value], **more)


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Bench]]:
    """Makes benches: `make(store=..., series_max=...)`; all of them are stopped at the end."""
    monkeypatch.setattr(lanes, "FIRST_WAIT_S", 0.001)
    made: list[Bench] = []

    def build(store: MemoryStore | None = None, start: bool = True, **config: Any) -> Bench:
        store = store or MemoryStore()
        faults = StoreFaults()
        store.fault = faults
        clock, counts = FakeClock(), Counts()
        sources = Sources(counts)
        seen: list[tuple[str, int]] = []
        told: list[Mapping[str, Any]] = []

        def stored(tenant: str, cluster: str, table: Table, columns: Mapping[str, Any], rows: int) -> None:
            seen.append((table.name, rows))
            told.append(columns)

        settings: Any = replace(CONFIG, **config)
        intake = Intake(settings, store, counts, sources, clock, stored)  # type: ignore[arg-type]
        bench = Bench(intake, store, faults, clock, counts, sources, seen, told)
        if start:
            intake.start()
        made.append(bench)
        return bench

    yield build
    for bench in made:
        bench.faults.open.set()
        bench.intake.stop()


@pytest.fixture
def bench(make: Callable[..., Bench]) -> Bench:
    """One intake with small limits."""
    return make()


@pytest.fixture
def decoders() -> Iterator[ThreadPoolExecutor]:
    """Threads that decode."""
    with ThreadPoolExecutor(2) as pool:
        yield pool


@pytest.fixture
def caller(bench: Bench, decoders: ThreadPoolExecutor) -> Caller:
    """Posts to the bench."""
    return Caller(bench, decoders)
