"""Faults that others' traffic makes: elephants that collide on one uplink, a neighbour job that fills a port."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.running import RunningLab
from leadline.lab.workloads.bulk import Bulk, colliding_ports
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class _Traffic(Fault):
    """Bulk flows from one host to another, across the spines unless the scenario says otherwise."""

    src: str | None = None
    dst: str | None = None
    flows: int = 4
    job: str = "bulk-1"
    _started: list[Bulk] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        if self.src and self.dst:
            return self
        src, dst = rng.choice(pairs_across_leaves(lab))
        return replace(self, src=self.src or src, dst=self.dst or dst)

    def stop(self, lab: RunningLab) -> None:
        while self._started:
            self._started.pop().stop()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"bulk_bytes": sum(each.bytes_sent() for each in self._started)}

    def _begin(self, lab: RunningLab, src_ports: Sequence[int] = ()) -> None:
        bulk = Bulk(name=self.job, src=self.src or "", dst=self.dst or "", flows=self.flows, src_ports=src_ports)
        bulk.start(lab.cluster)
        self._started.append(bulk)


@dataclass(frozen=True, slots=True)
class EcmpCollision(_Traffic):
    """Long flows whose hashes choose the same uplink while its equals stay idle."""

    name = "ecmp-collision"
    layer = "network"
    fault_class = "transient"

    job: str = "elephants-1"

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (*self._uplink(lab)[1], f"job:{self.job}")

    def start(self, lab: RunningLab) -> None:
        self._begin(lab, self._uplink(lab)[0])

    def _uplink(self, lab: RunningLab) -> tuple[list[int], tuple[str, ...]]:
        ports, link = colliding_ports(lab.cluster, self.src or "", self.dst or "", self.flows)
        return ports, lab.link_entities(link)


@dataclass(frozen=True, slots=True)
class NeighbourCongestion(_Traffic):
    """Another job's bulk traffic into a host that trains."""

    name = "neighbour-congestion"
    layer = "network"
    fault_class = "transient"

    flows: int = 8

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        into = lab.cluster.topology.link_of(lab.cluster.topology.host(self.dst or "").primary)
        return (f"job:{self.job}", *lab.link_entities(into))

    def start(self, lab: RunningLab) -> None:
        self._begin(lab)


def pairs_across_leaves(lab: RunningLab) -> list[tuple[str, str]]:
    """Pairs of hosts whose primary ports hang on different leaves: their traffic crosses a spine."""
    topology = lab.cluster.topology
    leaf = {host.name: topology.neighbour(host.primary).node for host in topology.hosts if host.backend}
    pairs = [(a, b) for a in leaf for b in leaf if leaf[a] != leaf[b]]
    if not pairs:
        raise UsageError(f"no two hosts of {topology.name} hang on different leaves")
    return sorted(pairs)
