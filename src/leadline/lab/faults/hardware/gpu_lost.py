"""GPU lost: it falls off the bus. The driver says so, its exporter no longer lists it, the process on it dies."""

from __future__ import annotations

import signal
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.lab.faults.application.signals import state_of
from leadline.lab.faults.background import later
from leadline.lab.faults.hardware.replay import Cast, logged
from leadline.lab.faults.hardware.replayed import ReplayedRanks
from leadline.lab.faults.hardware.shown import page
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.plan import DCGM_PORT
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import signal_process
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class GpuLost(ReplayedRanks):
    """Replayed: XID 79, the driver's line, the page that no longer lists it. Real: the rank on it dies."""

    name = "gpu-lost"
    layer = "gpu"
    fault_class = "persistent"
    signal = "xid_79_lines"  # `gpus_listed` is as before once a reset brought it back
    magnitudes: ClassVar = {"small": {"reset_s": 5.0}, "large": {"ranks": 3}}

    reset_s: float = 0.0  # a reset of the machine brings it back after that; 0: when it is mended
    _now: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        ReplayedRanks.check(self, topology)
        if self.reset_s < 0:
            raise UsageError(f"gpu-lost: reset_s must be seconds >= 0, got {self.reset_s}")

    def cast(self, lab: RunningLab) -> Cast:
        return {"gpu": self.gpus(lab)}

    def effect(self, lab: RunningLab) -> None:
        ranks = self.befallen(lab)
        for one in ranks:
            lab.hold(lab.gpu(one.host, one.gpu), self, {"lost": True, "xid": 79})
            signal_process(one.process, signal.SIGABRT)
        self._now["lost"] = len(ranks)
        if self.reset_s:
            self._now["later"] = later("gpu-reset", self.reset_s, lambda: self._back(lab))

    def no_effect(self, lab: RunningLab) -> None:
        try:
            if "later" in self._now:
                self._now.pop("later").end()
        finally:
            self._back(lab)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ranks = self.befallen(lab)
        hosts = list(dict.fromkeys(one.host for one in ranks))
        told = [name for host in hosts for name in page(lab, host, DCGM_PORT)]
        return {
            "gpus_listed": sum(name.startswith("DCGM_FI_DEV_SM_CLOCK{") for name in told),
            "xid_79_lines": sum(logged(lab, host, "): 79,") for host in hosts),
            "states": [state_of(one.process.pid) for one in ranks],
        }

    def _back(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.release(lab.gpu(one.host, one.gpu), self)
