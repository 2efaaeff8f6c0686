"""Faults of the emulated GPU: thermal throttle, XID, and an exporter that claims another GPU's UUID.

The GPU is a model (docs/lab/telemetry.md); what it does to the rank is real: less CPU, or death.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.application.signals import state_of
from leadline.lab.faults.base import ONE_OR_MORE, Fault
from leadline.lab.faults.hardware.replay import logged
from leadline.lab.faults.hardware.shown import page
from leadline.lab.faults.host.slow_worker import share_of_use
from leadline.lab.faults.ranks import RanksFault
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.kernel_log import append_xid
from leadline.lab.telemetry.plan import DCGM_PORT
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import signal_process
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class GpuThrottle(RanksFault):
    """The GPU is hot and lowers its clock; the rank on it gets as much less CPU."""

    name = "gpu-throttle"
    layer = "gpu"
    fault_class = "gray"
    signal = "throttled"
    magnitudes: ClassVar = {"small": {"clock_factor": 0.75}, "large": {"clock_factor": 0.25}}

    clock_factor: float = 0.5
    share: float | None = None  # of the CPU that the rank used before; None: `clock_factor` of it
    cores: float | None = None  # so many instead, whatever it used
    _cores: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)  # by rank, as measured

    def check(self, topology: Topology) -> None:
        RanksFault.check(self, topology)
        for what in ("clock_factor", "share"):
            value = getattr(self, what)
            if value is not None and not 0 < value < 1:
                raise UsageError(f"gpu-throttle: {what} is over 0 and under 1, got {value}")
        if self.cores is not None and self.cores <= 0:
            raise UsageError(f"gpu-throttle: cores must be > 0, got {self.cores}; leave it out for a share")

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        fault = RanksFault.chosen(self, lab, rng)
        ranks = fault.befallen(lab)
        if fault.cores is not None:
            return replace(fault, _cores={one.rank: fault.cores for one in ranks})
        share = fault.clock_factor if fault.share is None else fault.share
        return replace(fault, _cores=share_of_use(ranks, share))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return gpus_and_hosts(self, lab)

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            wanted = {"throttle": "thermal", "clock_factor": self.clock_factor}
            lab.hold(lab.gpu(one.host, one.gpu), self, wanted)
            lab.hold(lab.cpu(one), self, self._cores[one.rank])

    def stop(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.release(lab.gpu(one.host, one.gpu), self)
            lab.release(lab.cpu(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ranks = self.befallen(lab)
        clocks: dict[str, object] = {}
        for one in ranks:
            told = page(lab, one.host, DCGM_PORT)
            clocks |= {
                f"gpu:{one.gpu} sm_mhz": value
                for name, value in told.items()
                if name.startswith("DCGM_FI_DEV_SM_CLOCK{") and one.gpu in name
            }
        return {"throttled": sum(one.process.cgroup.throttled() for one in ranks), **clocks}


@dataclass(frozen=True, slots=True)
class Xid(RanksFault):
    """The driver reports an error in the kernel log; the process on the GPU dies, as after most codes."""

    name = "xid"
    layer = "gpu"
    fault_class = "persistent"
    lasts = False
    seen_in = "replay"
    signal = "xid_lines"
    bounds: ClassVar = {"code": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"code": 94}, "large": {"ranks": 3}}

    code: int = 79  # GPU has fallen off the bus
    kills: bool = True

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return gpus_and_hosts(self, lab)

    def start(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            append_xid(lab.state, one.host, one.gpu, self.code, one.process.pid)
            lab.hold(lab.gpu(one.host, one.gpu), self, {"xid": self.code})
            if self.kills:
                signal_process(one.process, signal.SIGABRT)

    def stop(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):  # the exporter goes on telling the last one
            lab.release(lab.gpu(one.host, one.gpu), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ranks = self.befallen(lab)
        hosts = dict.fromkeys(one.host for one in ranks)
        return {
            "xid_lines": sum(logged(lab, host, f"): {self.code},") for host in hosts),
            "states": [state_of(one.process.pid) for one in ranks],
        }


@dataclass(frozen=True, slots=True)
class DuplicateUuid(Fault):
    """Hosts whose exporters report their GPU under the UUID of another host's: a cloned image, a wrong inventory."""

    name = "duplicate-uuid"
    layer = "telemetry"
    fault_class = "persistent"
    signal = "claims"
    magnitudes: ClassVar = {"small": {"hosts": 1}, "large": {"hosts": 4}}

    host: str | None = None  # the first that claims it; the others follow it in the topology
    of_host: str | None = None
    hosts: int = 2

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        host = self.host or rng.choice(hosts)
        return replace(self, host=host, of_host=self.of_host or rng.choice([each for each in hosts if each != host]))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if self.hosts < 1:
            raise UsageError(f"duplicate-uuid: hosts must be at least 1, got {self.hosts}")
        if sum(bool(host.gpus) for host in topology.hosts) < 2:
            raise UsageError(f"duplicate-uuid needs two hosts with GPUs, and {topology.name} has not")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (*(f"host:{host}" for host in self._claiming(lab)), f"gpu:{self._gpu(lab, self.of_host)}")

    def start(self, lab: RunningLab) -> None:
        claimed = self._gpu(lab, self.of_host)
        for host in self._claiming(lab):
            lab.hold(lab.gpu(host, self._gpu(lab, host)), self, {"duplicate_of": claimed})

    def stop(self, lab: RunningLab) -> None:
        for host in self._claiming(lab):
            lab.release(lab.gpu(host, self._gpu(lab, host)), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        claimed = self._gpu(lab, self.of_host)
        told = [name for host in self._claiming(lab) for name in page(lab, host, DCGM_PORT)]
        return {"claims": sum(name.startswith("DCGM_FI_DEV_SM_CLOCK{") and claimed in name for name in told)}

    def _claiming(self, lab: RunningLab) -> list[str]:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        first = hosts.index(self.host or "")
        return [each for each in hosts[first:] + hosts[:first] if each != self.of_host][: self.hosts]

    def _gpu(self, lab: RunningLab, host: str | None) -> str:
        return next(each.gpus[0] for each in lab.cluster.topology.hosts if each.name == host)


def gpus_and_hosts(fault: RanksFault, lab: RunningLab) -> tuple[str, ...]:
    """Entity ids of the GPUs of the ranks that it befalls, then of their hosts."""
    ranks = fault.befallen(lab)
    return (*(f"gpu:{one.gpu}" for one in ranks), *dict.fromkeys(f"host:{one.host}" for one in ranks))
