"""Row remaps: memory of a GPU wears out; rows are replaced by spare ones, until a double bit error comes first."""

from __future__ import annotations

import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.application.signals import state_of
from leadline.lab.faults.hardware.replay import Cast, logged
from leadline.lab.faults.hardware.replayed import ReplayedRanks
from leadline.lab.faults.host.slow_worker import share_of_use
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.lab.workloads.base import signal_process
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class RowRemaps(ReplayedRanks):
    """Replayed: XIDs 63, 64, 92, 94, rows that are remapped or wait for it, ECC errors.

    Real: with more than ten rows the rank gets less CPU (of such nodes 83 % were slower: SuperBench, ATC'24); an error
    that cannot be corrected kills it.
    """

    name = "row-remaps"
    layer = "gpu"
    fault_class = "gray"
    signal = "xid_63_lines"
    magnitudes: ClassVar = {
        "small": {"rows": 2, "share": 1.0},
        "large": {"rows": 16, "uncorrectable": 1, "share": 1.0},
    }

    rows: int = 12
    every_s: float = 1.5
    uncorrectable: int = 0  # errors that no code corrects: the first kills the process
    share: float = 0.8  # of the CPU that the rank used before
    _cores: Mapping[int, float] = field(default_factory=dict, repr=False, compare=False)

    def check(self, topology: Topology) -> None:
        ReplayedRanks.check(self, topology)
        if not 0 < self.share <= 1 or self.rows < 1 or self.every_s <= 0 or self.uncorrectable < 0:
            raise UsageError("row-remaps: rows >= 1, every_s > 0, share over 0 and up to 1, uncorrectable >= 0")

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        fault = ReplayedRanks.chosen(self, lab, rng)
        slower = fault.share < 1
        return replace(fault, _cores=share_of_use(fault.befallen(lab), fault.share)) if slower else fault

    def cast(self, lab: RunningLab) -> Cast:
        return {"gpu": self.gpus(lab)}

    def effect(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            last = 94 if self.uncorrectable else 63
            lab.hold(lab.gpu(one.host, one.gpu), self, {"xid": last})
            if one.rank in self._cores:
                lab.hold(lab.cpu(one), self, self._cores[one.rank])
            if self.uncorrectable:
                signal_process(one.process, signal.SIGABRT)

    def no_effect(self, lab: RunningLab) -> None:
        for one in self.befallen(lab):
            lab.release(lab.gpu(one.host, one.gpu), self)
            lab.release(lab.cpu(one), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ranks = self.befallen(lab)
        return {
            **ReplayedRanks.seen(self, lab),
            "xid_63_lines": sum(logged(lab, host, "): 63,") for host in dict.fromkeys(one.host for one in ranks)),
            "throttled": sum(one.process.cgroup.throttled() for one in ranks),
            "states": [state_of(one.process.pid) for one in ranks],
        }
