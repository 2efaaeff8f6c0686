"""Marginal optic: a transceiver sends too little light. FEC mends it first, then frames are lost, the link flaps."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from typing import Any, ClassVar

from leadline.lab.faults.base import NONE_OR_MORE, Within
from leadline.lab.faults.hardware.replay import Cast, node_directory
from leadline.lab.faults.hardware.replayed import ReplayedLink, port_place
from leadline.lab.running import RunningLab
from leadline.lab.telemetry import kernel_log
from leadline.lab.topology import Port
from leadline.model.errors import WorldError
from leadline.model.ids import entity_id, kind_of


@dataclass(frozen=True, slots=True)
class MarginalOptic(ReplayedLink):
    """Replayed: bits that FEC corrected, symbol errors after it, received optical power, at the end that receives.

    Real: frames that are lost in that direction, and flaps of the link's carrier.
    """

    name = "marginal-optic"
    layer = "network"
    fault_class = "gray"
    signal = "rx_corrected_bits_phy"
    kinds = ("host", "uplink")
    bounds: ClassVar = {
        "loss_ratio": Within(0, 1),
        **dict.fromkeys(("corrected_per_s", "worse_after_s", "uncorrected", "flaps", "flap_every_s"), NONE_OR_MORE),
    }
    magnitudes: ClassVar = {
        "small": {"corrected_per_s": 1e5, "power_dbm": -7.0, "uncorrected": 0, "loss_ratio": 0.0},
        "large": {"corrected_per_s": 2e7, "power_dbm": -13.5, "loss_ratio": 0.03, "flaps": 3},
    }

    corrected_per_s: float = 2e6  # bits; of 100 Gbit/s, 2e-5: what FEC just mends
    power_dbm: float = -10.5  # what the receiver gets in the end
    worse_after_s: float = 5.0  # until FEC no longer mends all
    uncorrected: int = 10_000  # seconds in which it does not
    loss_ratio: float = 0.005
    flaps: int = 0
    flap_every_s: float = 8.0
    _flapping: dict[str, Any] = field(default_factory=dict, repr=False, compare=False)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        sender = self.of(lab).a
        return (entity_id("xcvr", sender.node, sender.name), *ReplayedLink.component(self, lab))

    def cast(self, lab: RunningLab) -> Cast:
        receiver = self.of(lab).b
        part = "switch_port" if kind_of(receiver.id) == "swport" else "nic"
        return {part: [port_place(lab, receiver)]}

    def effect(self, lab: RunningLab) -> None:
        if self.loss_ratio:
            sender = self.of(lab).a
            self._rules.append(lab.cluster.drop_rule(sender.node, sender.name, probability=self.loss_ratio))
        if self.flaps:
            ended = threading.Event()
            thread = threading.Thread(target=self._flap, args=(lab, ended), name="flaps", daemon=True)
            self._flapping.update(ended=ended, thread=thread)
            thread.start()

    def no_effect(self, lab: RunningLab) -> None:
        if "thread" in self._flapping:
            self._flapping["ended"].set()
            self._flapping["thread"].join()
        lab.release(lab.cut(self.of(lab).id), self)
        failed = self._flapping.pop("failed", None)
        self._flapping.clear()
        if failed is not None:
            raise failed

    def _flap(self, lab: RunningLab, ended: threading.Event) -> None:
        try:
            for _ in range(self.flaps):
                if ended.wait(self.flap_every_s):
                    return
                self._carrier(lab, "down")
                ended.wait(1.0)
                self._carrier(lab, "up")
        except WorldError as error:
            self._flapping["failed"] = error  # told when it is mended

    def _carrier(self, lab: RunningLab, state: str) -> None:
        """Take it or give it back; the NIC's driver says so, as it does on a real machine."""
        link = self.of(lab)
        if state == "down":
            lab.hold(lab.cut(link.id), self, True)
        else:
            lab.release(lab.cut(link.id), self)
        nic: Port = link.b
        if kind_of(nic.id) == "port":
            words = port_place(lab, nic).words
            text = f"mlx5_core {words['pci']} {nic.name}: Link {state}"
            kernel_log.append(node_directory(lab, nic.node), text, kernel_log.INFO)
