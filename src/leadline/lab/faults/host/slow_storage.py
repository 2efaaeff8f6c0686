"""Slow storage: the storage host gets little CPU, and its port a part of its rate, both ways."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import TRAINING, Fault
from leadline.lab.levers import Lever
from leadline.lab.running import RunningLab
from leadline.lab.topology import Port, Topology
from leadline.lab.workloads.base import Process
from leadline.lab.workloads.storage.log import requests
from leadline.model.errors import UsageError

RECENT = 5  # requests whose median time is told


@dataclass(frozen=True, slots=True)
class SlowStorage(Fault):
    """A storage host that is overloaded by others: its servers wait for CPU, its port carries a part."""

    name = "slow-storage"
    layer = "storage"
    fault_class = "gray"
    workloads = TRAINING
    signal = "throttled"
    magnitudes: ClassVar = {
        "small": {"cores": 0.05, "rate_ratio": 0.5},
        "large": {"cores": 0.01, "rate_ratio": 0.1},
    }

    host: str | None = None  # storage host; the first by default
    # Of every storage server that runs on it. A shard of text costs a server some 8 ms, a checkpoint of 23 MB some
    # 100 ms: at 0.01 it takes ten seconds, and a collective that waits for it fails after twelve.
    cores: float = 0.02
    rate_ratio: float = 0.2  # of its port's rate
    _held: list[Lever] = field(default_factory=list, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        if not topology.storage:
            raise UsageError(f"slow-storage: topology {topology.name} has no storage host; give it `storage: 1`")
        names = [each.name for each in topology.storage]
        if self.host is not None and self.host not in names:
            raise UsageError(f"slow-storage: host must be a storage host, {', '.join(names)}, got {self.host}")
        if self.cores <= 0 or not 0 < self.rate_ratio <= 1:
            raise UsageError(f"slow-storage: cores > 0 and rate_ratio 0 to 1, got {self.cores} and {self.rate_ratio}")

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return replace(self, host=self.host or lab.cluster.topology.storage[0].name, _held=[])

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"storage:{self.host}",)

    def start(self, lab: RunningLab) -> None:
        for end in port_ends(lab, self.host or ""):
            self._hold(lab, lab.port_rate(end), self.rate_ratio)
        for server in servers(lab, self.host or "").values():
            self._hold(lab, lab.cpu_of(server), self.cores)

    def stop(self, lab: RunningLab) -> None:
        # Those that were held: a job that has started since has a server of its own.
        while self._held:
            lab.release(self._held.pop(), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        found = servers(lab, self.host or "")
        return {
            "throttled": sum(each.cgroup.throttled() for each in found.values()),
            "request_s": {job: recent_s(lab, job) for job in found},
        }

    def _hold(self, lab: RunningLab, lever: Lever, value: float) -> None:
        self._held.append(lever)
        lab.hold(lever, self, value)


def servers(lab: RunningLab, host: str) -> dict[str, Process]:
    """The storage servers on a storage host, by the job that has it."""
    found = {name: getattr(job, "storage", None) for name, job in lab.jobs.items()}
    return {name: server for name, server in found.items() if server is not None and server.node == host}


def port_ends(lab: RunningLab, host: str) -> tuple[Port, Port]:
    """The switch's port to a storage host, and the storage host's own."""
    own = lab.cluster.topology.host(host).ports[0]
    return lab.cluster.topology.neighbour(own), own


def recent_s(lab: RunningLab, job: str) -> float | None:
    """Median time of the last requests of a job's storage server, seconds, by its own log."""
    times = sorted(each.seconds for each in requests(lab.state / "jobs" / job / "storage.log")[-RECENT:])
    return times[len(times) // 2] if times else None
