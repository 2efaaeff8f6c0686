"""Co-located neighbour: another tenant on the same machine takes CPU and the machine's uplink.

All hosts of the lab share this machine's real cores, so a burner alone would slow every rank, not only those beside
it. What an emulated machine lacks because of its neighbour is therefore taken from the ranks on it by a CPU quota,
as a hypervisor steals time; the neighbour's own program really runs, in a control group of its own, and its traffic
really crosses what the machine's hosts share at their leaf.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from leadline.lab.faults.base import Fault
from leadline.lab.faults.host.slow_worker import CORES_MIN
from leadline.lab.faults.measured import cores_used, cpu_seconds, step_s
from leadline.lab.levers import Lever
from leadline.lab.running import RunningLab
from leadline.lab.topology import Host, Topology
from leadline.lab.workloads.base import RankProcess, stop_all
from leadline.lab.workloads.bulk.job import Bulk
from leadline.model.errors import UsageError

BURN = ("/bin/sh", "-c", "while :; do :; done")


@dataclass(frozen=True, slots=True)
class ColocatedNeighbour(Fault):
    """A virtual host on a rank's machine computes and receives as much as it can; the tenant sees only its own."""

    name = "colocated-neighbour"
    layer = "host"
    fault_class = "gray"
    preset = "shared"
    signal = "neighbour_cpu_s"
    magnitudes: ClassVar = {"small": {"stolen": 0.25, "load": 0.3}, "large": {"stolen": 0.75, "load": 0.8}}

    host: str | None = None  # the neighbour's; another host of its machine has ranks
    src: str | None = None  # who sends to it, on another machine
    stolen: float = 0.5  # of the CPU that the ranks on its machine used
    cores: float = 0.15  # what the neighbour's program really burns
    # Of the machine's uplink. As much as TCP gets starves a job's flows until a collective fails after 12 s.
    load: float = 0.6
    flows: int = 2  # that carry it; 0: none
    _left: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)  # cores, by process
    _held: list[Lever] = field(default_factory=list, repr=False, compare=False)
    _running: list[Any] = field(default_factory=list, repr=False, compare=False)  # burner, traffic

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        shared = {host.name for hosts in topology.machines().values() if len(hosts) > 1 for host in hosts}
        if not shared:
            raise UsageError(
                f"colocated-neighbour needs a machine with several hosts, and {topology.name} has none; take the "
                "preset shared or cloud16, or a topology with hosts_per_machine: 2"
            )
        if self.host is not None and self.host not in shared:
            raise UsageError(f"colocated-neighbour: {self.host} is alone on its machine; take {min(shared)}")
        if not 0 < self.stolen < 1 or self.cores <= 0 or not 0 < self.load <= 1 or self.flows < 0:
            raise UsageError(
                f"colocated-neighbour: stolen and load 0 to 1, cores > 0, flows >= 0; got {self.stolen}, {self.load}, "
                f"{self.cores}, {self.flows}"
            )

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        machines = lab.cluster.topology.machines()
        working = {one.host for job in lab.jobs.values() for one in job.ranks}
        host = self.host or _neighbour(machines, working, rng)
        away = [each.name for hosts in machines.values() for each in hosts if host not in {one.name for one in hosts}]
        # Not a host that trains, if there is one: it is the neighbour's traffic, not the job's.
        src = self.src or rng.choice([name for name in away if name not in working] or away)
        fault = replace(self, host=host, src=src, _held=[], _running=[])
        ranks = fault._victims(lab)
        left = [max(CORES_MIN, (1 - self.stolen) * cores) for cores in cores_used(ranks)]
        return replace(fault, _left={one.process.pid: cores for one, cores in zip(ranks, left, strict=True)})

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        # Who sees whose flows cross its links names the neighbour by them.
        return (f"host:{self.host}", *([f"job:{self._label}"] if self.flows else []))

    @property
    def _label(self) -> str:
        return f"neighbour-{self.host}"

    def start(self, lab: RunningLab) -> None:
        burner = lab.cluster.spawn(self.host or "", BURN, name=self._label)
        self._running.append(burner)
        burner.cgroup.set_cpu_quota(self.cores)
        for one in self._victims(lab):
            if one.process.pid in self._left:
                self._held.append(lab.cpu(one))
                lab.hold(self._held[-1], self, self._left[one.process.pid])
        if self.flows:
            each_mbit = self.load * lab.cluster.topology.shape.machine_bps / self.flows / 1e6
            src, dst = self.src or "", self.host or ""
            bulk = Bulk(name=self._label, src=src, dst=dst, flows=self.flows, rate_mbit=each_mbit)
            bulk.start(lab.cluster)
            self._running.append(bulk)

    def stop(self, lab: RunningLab) -> None:
        while self._held:
            lab.release(self._held.pop(), self)
        while self._running:
            one = self._running.pop()
            if isinstance(one, Bulk):
                one.stop()
            else:
                stop_all([one])

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        burnt = [cpu_seconds(each.pid) for each in self._running if not isinstance(each, Bulk)]
        sent = [each.bytes_sent() for each in self._running if isinstance(each, Bulk)]
        ranks = self._victims(lab)
        return {
            "neighbour_cpu_s": round(sum(burnt), 2),
            "bulk_bytes": sum(sent),
            "throttled": sum(one.process.cgroup.throttled() for one in ranks),
            "step_s": {name: step_s(job) for name, job in lab.jobs.items() if job.ranks},
        }

    def _victims(self, lab: RunningLab) -> list[RankProcess]:
        """The ranks on the neighbour's machine."""
        machine = lab.cluster.topology.host(self.host or "").machine
        hosts = {each.name for each in lab.cluster.topology.machines()[machine]}
        return [one for job in lab.jobs.values() for one in job.ranks if one.host in hosts]


def _neighbour(machines: Mapping[str, Sequence[Host]], working: set[str], rng: random.Random) -> str:
    """A host beside one that has ranks; one without ranks of its own, if there is one. Errors: UsageError."""
    beside = [
        host.name
        for hosts in machines.values()
        for host in hosts
        if any(other.name in working for other in hosts if other != host)
    ]
    if not beside:
        raise UsageError("colocated-neighbour: no host shares its machine with one that has ranks")
    return rng.choice([name for name in beside if name not in working] or beside)
