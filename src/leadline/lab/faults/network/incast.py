"""Incast: many hosts answer one at the same moment, and the queue of its port is too short for all of them."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, SOME, Fault
from leadline.lab.faults.network.congestion import free_name
from leadline.lab.faults.network.link import port_counters
from leadline.lab.faults.telemetry.exporters import several
from leadline.lab.running import RunningLab
from leadline.lab.topology import Link
from leadline.lab.workloads.incast.job import Incast as IncastJob
from leadline.model.ids import kind_of


@dataclass(frozen=True, slots=True)
class Incast(Fault):
    """Another job's bursts from many hosts into a host that trains; the drops are at its leaf's port."""

    name = "incast"
    layer = "network"
    fault_class = "transient"
    signal = "bursts"  # the queue's drops are the job's own, too: a healthy one has some at its start
    bounds: ClassVar = {"sources": ONE_OR_MORE, "burst_bytes": ONE_OR_MORE, "period_s": SOME}
    magnitudes: ClassVar = {
        "small": {"sources": 3, "burst_bytes": 1 << 17, "period_s": 1.0},
        "large": {"sources": 15, "burst_bytes": 1 << 20},
    }

    dst: str | None = None
    sources: int = 6  # hosts that answer at once, at most all others
    burst_bytes: int = 1 << 18  # of each
    period_s: float = 0.5
    job: str | None = None  # name of the job that it starts
    _started: list[IncastJob] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        dst = self.dst or rng.choice([one.host for one in lab.ranks(None)])
        return replace(self, dst=dst, job=self.job or free_name(lab, "incast"))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"job:{self.job}", *lab.link_entities(self._into(lab)))

    def start(self, lab: RunningLab) -> None:
        names = [host.name for host in lab.cluster.topology.hosts if host.gpus and host.backend]
        hosts = several(names, self.dst, self.sources + 1)
        job = IncastJob(
            name=self.job or "", hosts=hosts, burst_bytes=self.burst_bytes, period_s=self.period_s, seconds=3600.0
        )
        job.start(lab.cluster)
        self._started.append(job)

    def stop(self, lab: RunningLab) -> None:
        while self._started:
            self._started.pop().stop()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ends = [end for end in self._into(lab).ends if kind_of(end.id) == "swport"]
        ports = {f"{end.node}/{end.name}": port_counters(lab, end) for end in ends}
        return {**ports, "bursts": sum(each.bursts() for each in self._started)}

    def _into(self, lab: RunningLab) -> Link:
        return lab.cluster.topology.link_of(lab.cluster.topology.host(self.dst or "").primary)
