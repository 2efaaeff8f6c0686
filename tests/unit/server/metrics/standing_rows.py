"""Verdicts of several jobs in a store, and what `/metrics` says of them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from prometheus_client import generate_latest
from prometheus_client.parser import text_string_to_metric_families
from tests.unit.views.incidents import incident_rows as made
from tests.unit.views.paths.path_rows import append, filled
from tests.unit.views.sle import sle_rows

from leadline.ingest.counts import Counts
from leadline.ingest.sources import Sender, Sources
from leadline.model.principal import Principal
from leadline.server.health import Parts
from leadline.server.metrics.collector import registry_for, registry_of
from leadline.server.metrics.verdicts import Verdicts
from leadline.store import Store

S = 10**9
NOW = made.NOW
Samples = dict[tuple[str, frozenset[tuple[str, str]]], float]


class Clock:
    """Both clocks of `Verdicts`, which stand still until they are set."""

    def __init__(self) -> None:
        self.ns = NOW

    def now_ns(self) -> int:
        """Wall time."""
        return self.ns

    def s(self) -> float:
        """Monotonic time."""
        return self.ns / S


def window(job: str, end_s: float, category: str, gpu_s: float, lost: float, **more: Any) -> dict[str, Any]:
    """A row of `ledger`, in s after NOW."""
    return {
        **made.VERDICT, "analysis": "ledger", "job": job, "category": category, "owner": None,
        "end_ns": NOW + round(end_s * S), "window_ns": 10 * S, "seconds": gpu_s / 8, "gpu_seconds": gpu_s,
        "lost_seconds": lost / 8, "lost_gpu_seconds": lost, "confidence": 1.0, "depth": "steps", **more,
    }  # fmt: skip


def budget(entity: str, bad_s: float, **more: Any) -> dict[str, Any]:
    """A row of `sle`: the last minute."""
    return sle_rows.held(entity, NOW - 20 * S, 60 - bad_s, bad_s, tenant="acme", **more)


ROWS = {
    **{name: made.ROWS[name] for name in ("incident", "cause")},
    "ledger": [
        window("bert-1", -1800, "compute", 60.0, 0.0),
        window("bert-1", -1800, "straggler", 20.0, 15.0),
        window("resnet-2", -60, "compute", 8.0, 0.0, tenant="beta"),
    ],
    "sle": [budget("gpu:GPU-6", 30.0), budget("gpu:GPU-7", 0.0)],
}


def parts_of(store: Store, verdicts: Verdicts, clock: Clock) -> Parts:
    """A server of which only what `/metrics` reads is there."""
    counts = Counts()
    sources = Sources(counts)
    sources.heard(Sender("acme", "rows", "agent at 10.0.0.7"), NOW - 40 * S, rows=3, newest_ns=NOW - 45 * S)
    intake: Any = SimpleNamespace(
        counts=counts, sources=sources, series_known=7, waiting_rows={"event": 2}, held_s=(0.0, "")
    )
    return Parts(store, intake, NOW, clock.now_ns, verdicts=verdicts)


@contextmanager
def read_verdicts(directory: Path, rows: dict[str, list[dict[str, Any]]] = ROWS) -> Iterator[tuple[Parts, Clock]]:
    """A store with these rows, read once before NOW, when the server began."""
    with filled(directory, {}) as store:
        clock = Clock()
        clock.ns -= 3600 * S
        verdicts = Verdicts(store, clock.now_ns, clock.s)
        verdicts.refresh()
        append(store, rows)
        clock.ns = NOW
        verdicts.refresh()
        yield parts_of(store, verdicts, clock), clock


def text_of(parts: Parts, principal: Principal | None = None) -> str:
    """The page of `/metrics` as somebody gets it."""
    everything = registry_of(parts)
    return generate_latest(registry_for(everything, parts, principal or Principal())).decode()


def samples_of(text: str) -> Samples:
    """Every sample, by name and labels."""
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def one(samples: Samples, name: str, **labels: str) -> float:
    """The one sample with these labels, whatever others it has."""
    found = [value for (each, own), value in samples.items() if each == name and labels.items() <= dict(own).items()]
    assert len(found) == 1, f"{name} {labels}: {len(found)} samples"
    return found[0]
