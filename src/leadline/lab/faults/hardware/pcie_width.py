"""PCIe width: a NIC's slot trains with fewer lanes than the card has. It works, at a part of its rate."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.hardware.replay import Cast, Place
from leadline.lab.faults.hardware.replayed import ReplayedLink, nic_of, port_place
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.overlay import HEALTHY, PCI_SPEED, PCI_WIDTH
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError

LANES = (1, 2, 4, 8)  # fewer than the 16 that the card has
LANE_MBPS = 15753  # of PCIe 4.0 after its coding, as the kernel counts it (pcie_dev_speed_mbps x 128/130)


@dataclass(frozen=True, slots=True)
class PcieWidth(ReplayedLink):
    """Replayed: the width in the NIC's sysfs and page, the kernel's lines, stalls that the NIC counts.

    Real: both ends of its link send at that part of their rate.
    """

    name = "pcie-width"
    layer = "host"
    fault_class = "gray"
    signal = PCI_WIDTH
    magnitudes: ClassVar = {"small": {"lanes": 8}, "large": {"lanes": 2}}

    lanes: int = 4

    def check(self, topology: Topology) -> None:
        ReplayedLink.check(self, topology)
        if self.lanes not in LANES:
            raise UsageError(f"pcie-width: lanes must be one of {', '.join(map(str, LANES))}, got {self.lanes}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        nic = nic_of(self.of(lab))
        return (nic.id, f"host:{nic.node}")

    def cast(self, lab: RunningLab) -> Cast:
        place = port_place(lab, nic_of(self.of(lab)))
        most, speed = round(HEALTHY[PCI_WIDTH]), f"{HEALTHY[PCI_SPEED]:.1f} GT/s"
        words = {
            "available": f"{LANE_MBPS * self.lanes / 1000:.3f} Gb/s",
            "limited": f"{speed} PCIe x{self.lanes} link",
            "capable": f"{LANE_MBPS * most / 1000:.3f} Gb/s with {speed} PCIe x{most} link",
        }
        return {"nic": [Place(place.entity, place.node, {**place.words, **words})]}

    def effect(self, lab: RunningLab) -> None:
        for end in self.of(lab).ends:
            lab.hold(lab.port_rate(end), self, self.lanes / HEALTHY[PCI_WIDTH])

    def no_effect(self, lab: RunningLab) -> None:
        for end in self.of(lab).ends:
            lab.release(lab.port_rate(end), self)
