"""What `/metrics` says: to an operator everything, to a tenant its own verdicts."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from prometheus_client import CollectorRegistry, PlatformCollector, ProcessCollector
from prometheus_client.core import Metric

from leadline import __version__
from leadline.ingest.sources import Source
from leadline.model.principal import OPERATE, Principal
from leadline.runner.lanes import AnalysisState
from leadline.server.health import Parts, private_bytes
from leadline.server.metrics.catalogue import METRICS
from leadline.server.metrics.cpu import CpuTime
from leadline.views.senders import senders_of

SOURCES_MAX = 200  # exposed one by one, those that were silent longest; `leadline doctor` lists 10,000
SENDERS_MAX = 200  # the same of agents, the worst first: hosts that are well need no series each


class LeadlineCollector:
    """Our own metrics for prometheus_client: every declared counter, zeros included, verdicts, what is waiting."""

    def __init__(self, parts: Parts) -> None:
        self._parts = parts
        self._cpu = CpuTime()

    def describe(self) -> Iterable[Metric]:
        """Nothing: names are checked by tests, not at each registration, which would collect all."""
        return ()

    def collect(self) -> Iterator[Metric]:
        """All metrics as they are now."""
        parts, left_out = self._parts, dict[str, int]()
        yield from self._counters()
        if parts.verdicts is not None:
            yield from parts.verdicts.families(left_out)
        yield from self._senders(left_out)
        yield _left_out(left_out)
        if parts.runner is not None:
            yield from analyses(parts.runner.states())
        yield from self._process()
        yield from parts.http.families()

    def _counters(self) -> Iterator[Metric]:
        families: dict[str, Any] = {}
        for counter, total in self._parts.intake.counts.totals().items():
            name = f"leadline_{counter.family}"
            families.setdefault(name, METRICS[name].family()).add_metric([counter.reason], total)
        yield from families.values()

    def _senders(self, left_out: dict[str, int]) -> Iterator[Metric]:
        sources, count = self._parts.intake.sources.quietest(SOURCES_MAX)
        left_out["sources"] = count - len(sources)
        yield METRICS["leadline_sources"].single(count)
        yield METRICS["leadline_series"].single(self._parts.intake.series_known)
        yield from lags(sources, self._parts.now_ns())
        senders = senders_of(self._parts.runner if self._parts.replay is None else None, Principal())
        left_out["senders"] = max(0, len(senders) - SENDERS_MAX)
        family: Any = METRICS["leadline_sender_lag_seconds"].family()
        for each in senders[:SENDERS_MAX]:
            who = each.sender
            family.add_metric([who.tenant, who.cluster, who.host, who.name], each.behind_s)
        yield family

    def _process(self) -> Iterator[Metric]:
        build: Any = METRICS["leadline_build_info"].family()
        build.add_metric([__version__], 1)
        waiting: Any = METRICS["leadline_queue_rows"].family()
        for table, rows in self._parts.intake.waiting_rows.items():
            waiting.add_metric([table], rows)
        cpu: Any = METRICS["leadline_cpu_seconds"].family()
        for part, seconds in self._cpu.now().items():
            cpu.add_metric([part], seconds)
        yield from (build, waiting, cpu)
        if self._parts.memory is not None:
            yield METRICS["leadline_memory_bytes_max"].single(self._parts.memory.bytes_max)
        yield METRICS["leadline_private_bytes"].single(private_bytes())


def _left_out(counts: dict[str, int]) -> Metric:
    family: Metric = METRICS["leadline_metrics_left_out"].family()
    for kind, count in counts.items():
        family.add_metric([kind], count)  # type: ignore[attr-defined]
    return family


def lags(sources: Iterable[Source], now_ns: int) -> Iterator[Metric]:
    """How far behind sources are, and how long they were silent."""
    lag: Any = METRICS["leadline_source_lag_seconds"].family()
    silent: Any = METRICS["leadline_source_silent_seconds"].family()
    for each in sources:
        labels = [each.sender.tenant, each.sender.way, each.sender.name]
        silent.add_metric(labels, (now_ns - each.last_ns) / 1e9)
        if each.newest_ns:
            lag.add_metric(labels, (now_ns - each.newest_ns) / 1e9)
    yield from (lag, silent)


def analyses(states: Iterable[AnalysisState]) -> Iterator[Metric]:
    """How the analyses do."""
    names = ("lag_seconds", "seconds", "waiting", "past", "windows", "failures")
    families: list[Any] = [METRICS[f"leadline_analysis_{name}"].family() for name in names]
    for each in states:
        values = (each.lag_s, each.last_took_s, each.waiting, each.past, each.windows, each.failures)
        for family, value in zip(families, values, strict=True):
            if value is not None:
                family.add_metric([each.name], value)
    yield from families


class _OfTenant:
    """The verdicts of one tenant."""

    def __init__(self, parts: Parts, tenant: str) -> None:
        self._parts, self._tenant = parts, tenant

    def describe(self) -> Iterable[Metric]:
        return ()

    def collect(self) -> Iterator[Metric]:
        if self._parts.verdicts is not None:
            left_out = dict[str, int]()
            yield from self._parts.verdicts.families(left_out, self._tenant)
            yield _left_out(left_out)


def registry_of(parts: Parts) -> CollectorRegistry:
    """Everything, for operators."""
    registry = CollectorRegistry()
    registry.register(LeadlineCollector(parts))
    ProcessCollector(registry=registry)
    PlatformCollector(registry=registry)
    return registry


def registry_for(everything: CollectorRegistry, parts: Parts, principal: Principal) -> CollectorRegistry:
    """What somebody may read: what the process counts is of all tenants, so tenants get their verdicts alone."""
    if principal.may(OPERATE):
        return everything
    own = CollectorRegistry()
    own.register(_OfTenant(parts, principal.tenant))
    return own
