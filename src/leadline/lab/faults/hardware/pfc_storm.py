"""PFC storm: a NIC that sends pause frames without end. Its switch may not send to it, and pauses others in turn."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.hardware.replay import Cast
from leadline.lab.faults.hardware.replayed import ReplayedLink, nic_of, port_place, switch_end
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class PfcStorm(ReplayedLink):
    """Replayed: pause counters of the NIC, of its switch port, and of ports that the switch pauses in turn.

    Real: the switch sends to that host at a part of its rate only, as a port that is paused most of the time.
    """

    name = "pfc-storm"
    layer = "network"
    fault_class = "gray"
    signal = "tx_prio3_pause"
    magnitudes: ClassVar = {"small": {"rate_ratio": 0.3, "spread": 0}, "large": {"rate_ratio": 0.03, "spread": 8}}

    rate_ratio: float = 0.1  # of its rate that the paused port still sends
    spread: int = 2  # ports of the switch that are paused in turn, at most

    def check(self, topology: Topology) -> None:
        ReplayedLink.check(self, topology)
        if not 0 < self.rate_ratio < 1 or self.spread < 0:
            raise UsageError(
                f"pfc-storm: rate_ratio is over 0 and under 1, spread >= 0, got {self.rate_ratio}, {self.spread}"
            )

    @property
    def strength(self) -> float:
        return 1.0 - self.rate_ratio  # the share of time that the port is paused

    def cast(self, lab: RunningLab) -> Cast:
        link = self.of(lab)
        nic, port = nic_of(link), switch_end(link)
        topology = lab.cluster.topology
        others = [each for each in topology.switch(port.node).ports if each != port and each.role == "backend"]
        pausing = others[: self.spread]
        return {
            "nic": [port_place(lab, nic)],
            "switch_port": [port_place(lab, port)],
            "pausing": [port_place(lab, each) for each in pausing],
            "paused": [port_place(lab, topology.neighbour(each)) for each in pausing],
        }

    def effect(self, lab: RunningLab) -> None:
        lab.hold(lab.port_rate(switch_end(self.of(lab))), self, self.rate_ratio)

    def no_effect(self, lab: RunningLab) -> None:
        lab.release(lab.port_rate(switch_end(self.of(lab))), self)
