"""NVLink errors: a link between GPUs sends again and again, trains anew, and the driver reports it."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.hardware.replay import Cast, logged
from leadline.lab.faults.hardware.replayed import ReplayedRanks
from leadline.lab.faults.host.slow_worker import share_of_use
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError

ERRORS_PER_S = 50.0


@dataclass(frozen=True, slots=True)
class NvlinkErrors(ReplayedRanks):
    """Replayed: DCGM's NVLink counters and XID 74. Real: the rank gets less CPU, as its GPU waits for the link."""

    name = "nvlink-errors"
    layer = "gpu"
    fault_class = "gray"
    signal = "DCGM_FI_DEV_NVLINK_REPLAY_ERROR_COUNT_TOTAL"
    magnitudes: ClassVar = {
        "small": {"errors_per_s": 2.0, "xids": 0, "share": 0.9},
        "large": {"errors_per_s": 500.0, "xids": 6, "share": 0.35},
    }

    errors_per_s: float = ERRORS_PER_S  # CRC errors of flits; the others in proportion
    xids: int = 2
    share: float = 0.65  # of the CPU that the rank used before
    _cores: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        ReplayedRanks.check(self, topology)
        if not 0 < self.share <= 1 or self.errors_per_s <= 0 or self.xids < 0:
            raise UsageError("nvlink-errors: share is over 0 and up to 1, errors_per_s over 0, xids >= 0")

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        fault = ReplayedRanks.chosen(self, lab, rng)
        return replace(fault, _cores=share_of_use(fault.befallen(lab), fault.share))

    @property
    def strength(self) -> float:
        return self.errors_per_s / ERRORS_PER_S

    def cast(self, lab: RunningLab) -> Cast:
        return {"gpu": self.gpus(lab)}

    def effect(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.hold(lab.cpu(one), self, self._cores[one.rank])

    def no_effect(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.release(lab.cpu(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        lines = {f"{one.host} xid_74_lines": logged(lab, one.host, "): 74,") for one in self.befallen(lab)}
        throttled = sum(one.process.cgroup.throttled() for one in self.befallen(lab))
        return {**ReplayedRanks.seen(self, lab), **lines, "throttled": throttled}
