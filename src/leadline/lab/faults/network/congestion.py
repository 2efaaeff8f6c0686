"""Faults that others' traffic makes: elephants that collide on one uplink, a neighbour job that fills a port."""

from __future__ import annotations

import itertools
import random
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, Fault
from leadline.lab.running import RunningLab
from leadline.lab.workloads.bulk.job import SINK_PORT, Bulk, colliding_ports
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class _Traffic(Fault):
    """Bulk flows from one host to another, across the spines unless the scenario says otherwise."""

    stem: ClassVar[str] = "bulk"
    signal: ClassVar[str] = "bulk_bytes"

    src: str | None = None
    dst: str | None = None
    flows: int = 4
    job: str | None = None  # name of the job that it starts
    _started: list[Bulk] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        job = self.job or free_name(lab, self.stem)
        if self.src and self.dst:
            return replace(self, job=job)
        src, dst = rng.choice(pairs_across_leaves(lab))
        return replace(self, src=self.src or src, dst=self.dst or dst, job=job)

    def stop(self, lab: RunningLab) -> None:
        while self._started:
            self._started.pop().stop()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"bulk_bytes": sum(each.bytes_sent() for each in self._started)}

    @property
    def _port(self) -> int:
        """Where the sink listens: two such jobs may send to one host."""
        return SINK_PORT + 1 + zlib.crc32((self.job or "").encode()) % 700

    def _begin(self, lab: RunningLab, src_ports: Sequence[int] = ()) -> None:
        bulk = Bulk(
            name=self.job or "", src=self.src or "", dst=self.dst or "", flows=self.flows, src_ports=src_ports,
            port=self._port,
        )  # fmt: skip
        bulk.start(lab.cluster)
        self._started.append(bulk)


@dataclass(frozen=True, slots=True)
class EcmpCollision(_Traffic):
    """Long flows whose hashes choose the same uplink while its equals stay idle."""

    name = "ecmp-collision"
    layer = "network"
    fault_class = "transient"

    stem = "elephants"
    bounds: ClassVar = {"flows": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"flows": 2}, "large": {"flows": 8}}

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (*self._uplink(lab)[1], f"job:{self.job}")

    def start(self, lab: RunningLab) -> None:
        self._begin(lab, self._uplink(lab)[0])

    def _uplink(self, lab: RunningLab) -> tuple[list[int], tuple[str, ...]]:
        ports, link = colliding_ports(lab.cluster, self.src or "", self.dst or "", self.flows, self._port)
        return ports, lab.link_entities(link)


@dataclass(frozen=True, slots=True)
class NeighbourCongestion(_Traffic):
    """Another job's bulk traffic into a host that trains."""

    name = "neighbour-congestion"
    layer = "network"
    fault_class = "transient"

    bounds: ClassVar = {"flows": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"flows": 2}, "large": {"flows": 16}}

    flows: int = 8

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        into = lab.cluster.topology.link_of(lab.cluster.topology.host(self.dst or "").primary)
        return (f"job:{self.job}", *lab.link_entities(into))

    def start(self, lab: RunningLab) -> None:
        self._begin(lab)


def free_name(lab: RunningLab, stem: str) -> str:
    """The first of stem-1, stem-2, ... that no job of this lab has or had: a second one is another job."""
    taken = set(lab.jobs)
    directory = lab.state / "jobs"
    names = (f"{stem}-{number}" for number in itertools.count(1))
    return next(name for name in names if name not in taken and not (directory / name).exists())


def pairs_across_leaves(lab: RunningLab) -> list[tuple[str, str]]:
    """Pairs of hosts whose primary ports hang on different leaves: their traffic crosses a spine."""
    topology = lab.cluster.topology
    leaf = {host.name: topology.neighbour(host.primary).node for host in topology.hosts if host.backend}
    pairs = [(a, b) for a in leaf for b in leaf if leaf[a] != leaf[b]]
    if not pairs:
        raise UsageError(f"no two hosts of {topology.name} hang on different leaves")
    return sorted(pairs)
