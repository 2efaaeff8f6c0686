"""Verdicts as metrics: open incidents, goodput and lost GPU time of jobs, error budgets.

    store.written(incident, cause, ledger) ──(changed: every 10 s; all: every 60 s)──> read (views.standing) ──> kept
                                                                                              scrape ──────────> kept

A scrape never asks the store: it is answered from what was read last, however slow the store is just now.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from prometheus_client.core import Metric

from leadline.server.metrics.catalogue import METRICS
from leadline.store import Store
from leadline.views.incidents.title import severity
from leadline.views.standing import Budget, GpuTime, JobTime, OpenIncidents, Standing, all_budgets, open_incidents

EVERY_S = 10.0  # a window of most analyses: nothing changes more often
ALL_EVERY_S = 60.0  # a window of `sle`, the dearest to read; and who else writes to a ClickHouse server is not counted
STALE_S = 300.0  # what was read so long ago says nothing of now: Prometheus, too, looks back five minutes
# Series that one scrape gives. With every bound of this folder reached it has 6,000 lines, and takes 45 ms of a core.
INCIDENTS_MAX = 200
JOBS_MAX = 200  # each up to 12 lines: 9 categories, time held, goodput twice
BUDGETS_MAX = 200  # each up to 5 lines; of those the worst

_COUNTED = ("incident", "cause", "ledger")
T = TypeVar("T", OpenIncidents, JobTime, Budget)


class Verdicts:
    """The verdicts as they were read last. `run` reads them for as long as the server runs."""

    def __init__(
        self,
        store: Store,
        now_ns: Callable[[], int] = time.time_ns,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._store, self._now_ns, self._clock_s = store, now_ns, clock_s
        self._gpu_time: GpuTime | None = None
        self._written: dict[str, int] = {}
        self._kept: Standing | None = None
        self._all_s, self._read_s, self._took_s = 0.0, 0.0, 0.0  # when all was read, and when anything was looked at

    async def run(self) -> None:
        """Read what changed, every EVERY_S. Errors: StoreError; what was read before stays until it is stale."""
        while True:
            await asyncio.to_thread(self.refresh)
            await asyncio.sleep(EVERY_S)

    def refresh(self) -> None:
        """Read what changed since last time. Errors: StoreError."""
        begun_s, now_ns = self._clock_s(), self._now_ns()
        if self._gpu_time is None:
            self._gpu_time = GpuTime(now_ns)
        written = {table: self._store.written(table) for table in _COUNTED}
        changed = {table for table in _COUNTED if written[table] != self._written.get(table)}
        kept = self._kept
        if kept is None or begun_s - self._all_s >= ALL_EVERY_S:
            jobs = self._gpu_time.at(self._store, now_ns)
            kept = Standing(now_ns, open_incidents(self._store), jobs, all_budgets(self._store, now_ns))
            self._all_s = begun_s
        else:
            jobs = self._gpu_time.at(self._store, now_ns) if "ledger" in changed else kept.jobs
            incidents = open_incidents(self._store) if changed & {"incident", "cause"} else kept.incidents
            kept = Standing(now_ns, incidents, jobs, kept.budgets)
        self._kept, self._written, self._read_s = kept, written, self._clock_s()
        self._took_s = self._read_s - begun_s

    def families(self, left_out: dict[str, int], tenant: str = "") -> Iterator[Metric]:
        """What was read last, of one tenant or (empty) of all; nothing but its age once that is stale.

        How many series there are beyond each bound is added to `left_out`.
        """
        if self._kept is None:
            return
        age_s = self._clock_s() - self._read_s
        yield METRICS["leadline_verdicts_age_seconds"].single(age_s)
        yield METRICS["leadline_verdicts_read_seconds"].single(self._took_s)
        if age_s > STALE_S:
            return
        yield from _incidents(_first(self._kept.incidents, tenant, INCIDENTS_MAX, "incidents", left_out))
        yield from _jobs(_first(self._kept.jobs, tenant, JOBS_MAX, "jobs", left_out))
        yield from _sle(_first(self._kept.budgets, tenant, BUDGETS_MAX, "expectations", left_out))


def _first(every: Sequence[T], tenant: str, bound: int, kind: str, left_out: dict[str, int]) -> list[T]:
    """The first `bound` of one tenant or of all; how many more there are is added to `left_out`."""
    own = [each for each in every if not tenant or each.tenant == tenant]
    left_out[kind] = max(0, len(own) - bound)
    return own[:bound]


def _incidents(some: Sequence[OpenIncidents]) -> Iterator[Metric]:
    family: Any = METRICS["leadline_incidents_open"].family()
    for each in some:
        whose = [each.tenant, each.cluster, each.job, each.rule]
        labels = [*whose, each.symptom, severity(each.symptom), each.suppressed]
        family.add_metric(labels, each.count)
    yield family


def _jobs(some: Sequence[JobTime]) -> Iterator[Metric]:
    names = ("goodput_ratio", "goodput_ratio_max", "gpu_seconds", "lost_gpu_seconds")
    families = [METRICS[f"leadline_job_{name}"].family() for name in names]
    ratio, ratio_max, held, lost = families
    for each in some:
        labels = [each.tenant, each.cluster, each.job]
        _add(ratio, labels, each.ratio)
        _add(ratio_max, labels, each.ratio_max)
        held.add_metric(labels, each.held)
        for category, seconds in sorted(each.lost.items()):
            lost.add_metric([*labels, category], seconds)
    yield from families


def _sle(some: Sequence[Budget]) -> Iterator[Metric]:
    names = ("good_ratio", "budget_left_ratio", "burn_rate")
    families = [METRICS[f"leadline_sle_{name}"].family() for name in names]
    good, left, burn = families
    for each in some:
        labels = [each.tenant, each.cluster, each.expectation, each.layer, each.entity]
        _add(good, labels, each.good_ratio)
        _add(left, labels, each.left_ratio)
        for window, rate in each.burn.items():
            _add(burn, [*labels, window], rate)
    yield from families


def _add(family: Any, labels: list[str], value: float | None) -> None:
    """A sample where the value is known: an unknown one is no sample, never 0."""
    if value is not None:
        family.add_metric(labels, value)
