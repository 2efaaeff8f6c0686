"""Faults of the emulated GPU: thermal throttle, XID, and an exporter that claims another GPU's UUID.

The GPU is a model (docs/lab/telemetry.md); what it does to the rank is real: less CPU, or death.
"""

from __future__ import annotations

import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault, RankFault
from leadline.lab.faults.signals import state_of
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.kernel_log import append_xid
from leadline.lab.workloads.base import signal_process


@dataclass(frozen=True, slots=True)
class GpuThrottle(RankFault):
    """The GPU is hot and lowers its clock; the rank on it gets as much less CPU."""

    name = "gpu-throttle"
    layer = "gpu"
    fault_class = "gray"

    clock_factor: float = 0.4
    cores: float = 0.05  # what the rank still gets; `bert` on clos8 uses some 0.085

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = self.one(lab)
        return (f"gpu:{one.gpu}", f"host:{one.host}")

    def start(self, lab: RunningLab) -> None:
        one = self.one(lab)
        lab.hold(lab.gpu(one.host, one.gpu), self, {"throttle": "thermal", "clock_factor": self.clock_factor})
        lab.hold(lab.cpu(one), self, self.cores)

    def stop(self, lab: RunningLab) -> None:
        one = self.one(lab)
        lab.release(lab.gpu(one.host, one.gpu), self)
        lab.release(lab.cpu(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"throttled": self.one(lab).process.cgroup.throttled()}


@dataclass(frozen=True, slots=True)
class Xid(RankFault):
    """The driver reports an error in the kernel log; the process on the GPU dies, as after most codes."""

    name = "xid"
    layer = "gpu"
    fault_class = "persistent"
    lasts = False

    code: int = 79  # GPU has fallen off the bus
    kills: bool = True

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        one = self.one(lab)
        return (f"gpu:{one.gpu}", f"host:{one.host}")

    def start(self, lab: RunningLab) -> None:
        one = self.one(lab)
        append_xid(lab.state, one.host, one.gpu, self.code, one.process.pid)
        lab.hold(lab.gpu(one.host, one.gpu), self, {"xid": self.code})
        if self.kills:
            signal_process(one.process, signal.SIGABRT)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        one = self.one(lab)
        log = lab.state / "hosts" / one.host / "kmsg"
        lines = log.read_text().splitlines() if log.exists() else []
        xids = [line for line in lines if "Xid" in line]
        return {"xid_lines": len(xids), "last_xid": xids[-1] if xids else "", "state": state_of(one.process.pid)}


@dataclass(frozen=True, slots=True)
class DuplicateUuid(Fault):
    """A host's exporter reports its GPU under the UUID of another host's: a cloned image, a wrong inventory."""

    name = "duplicate-uuid"
    layer = "telemetry"
    fault_class = "persistent"

    host: str | None = None
    of_host: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        host = self.host or rng.choice(hosts)
        return replace(self, host=host, of_host=self.of_host or rng.choice([each for each in hosts if each != host]))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.host}", f"gpu:{self._gpu(lab, self.of_host)}")

    def start(self, lab: RunningLab) -> None:
        claimed = self._gpu(lab, self.of_host)
        lab.hold(lab.gpu(self.host or "", self._gpu(lab, self.host)), self, {"duplicate_of": claimed})

    def stop(self, lab: RunningLab) -> None:
        lab.release(lab.gpu(self.host or "", self._gpu(lab, self.host)), self)

    def _gpu(self, lab: RunningLab, host: str | None) -> str:
        return next(each.gpus[0] for each in lab.cluster.topology.hosts if each.name == host)
