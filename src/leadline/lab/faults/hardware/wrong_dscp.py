"""Wrong DSCP: a host marks its traffic for another class than the fabric keeps for it: no PFC protects it there."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

from leadline.lab.faults.hardware.replay import Cast
from leadline.lab.faults.hardware.replayed import ReplayedLink, nic_of, port_place, switch_end
from leadline.lab.levers import Lever, strongest
from leadline.lab.running import RunningLab
from leadline.lab.topology import Port, Topology
from leadline.model.errors import UsageError, WorldError

TABLE = "leadline_dscp"  # ours, in the host's own namespace


@dataclass(frozen=True, slots=True)
class WrongDscp(ReplayedLink):
    """Real: every packet of the NIC leaves with that DSCP, so sFlow shows it; a part of them is lost at the leaf, as in
    a class that has no buffer to speak of. Replayed: the leaf's discards in that priority.
    """

    name = "wrong-dscp"
    layer = "network"
    fault_class = "gray"
    signal = "marked_packets"
    magnitudes: ClassVar = {"small": {"loss_ratio": 0.002}, "large": {"loss_ratio": 0.05}}

    dscp: int = 8  # CS1, the class of what may wait; RoCE usually has 26
    loss_ratio: float = 0.01

    def check(self, topology: Topology) -> None:
        ReplayedLink.check(self, topology)
        if not 0 <= self.dscp <= 63 or not 0 < self.loss_ratio <= 1:
            raise UsageError(f"wrong-dscp: dscp is 0 to 63, loss_ratio over 0, got {self.dscp} and {self.loss_ratio}")

    @property
    def strength(self) -> float:
        return self.loss_ratio / 0.01

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        nic = self._nic(lab)
        return (nic.id, f"host:{nic.node}")

    def cast(self, lab: RunningLab) -> Cast:
        return {"switch_port": [port_place(lab, switch_end(self.of(lab)))]}

    def effect(self, lab: RunningLab) -> None:
        nic, port = self._nic(lab), switch_end(self.of(lab))
        lab.hold(marking(lab, nic), self, self.dscp)
        match = f"ip dscp {self.dscp}"
        rule = lab.cluster.drop_rule(port.node, port.name, match, self.loss_ratio, direction="received")
        self._rules.append(rule)

    def no_effect(self, lab: RunningLab) -> None:
        lab.release(marking(lab, self._nic(lab)), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {**ReplayedLink.seen(self, lab), "marked_packets": marked(lab, self._nic(lab))}

    def _nic(self, lab: RunningLab) -> Port:
        return nic_of(self.of(lab))


def marking(lab: RunningLab, nic: Port) -> Lever:
    """The DSCP that a NIC's packets leave with, whatever their sockets say; two claims: the lower class."""

    def apply(dscp: float | None) -> None:
        lab.cluster.command(nic.node, ["nft", "-f", "-"], marking_text(nic.name, None if dscp is None else int(dscp)))

    return Lever(("dscp", nic.id), strongest, apply)


def marking_text(port: str, dscp: int | None) -> str:
    """What `nft -f -` is told; None: mark nothing any more."""
    table = f"inet {TABLE}_{port}"
    gone = f"table {table} {{}}\ndelete table {table}\n"
    if dscp is None:
        return gone
    return gone + (
        f"table {table} {{\n  chain sent {{\n    type filter hook postrouting priority -5; policy accept;\n"
        f'    oifname "{port}" counter ip dscp set {dscp}\n  }}\n}}\n'
    )


def marked(lab: RunningLab, nic: Port) -> int:
    """Packets that were marked so far; 0 where nothing is."""
    try:
        told = lab.cluster.command(nic.node, ["nft", "--json", "list", "table", "inet", f"{TABLE}_{nic.name}"])
    except WorldError:
        return 0
    found = json.loads(told)
    items = found.get("nftables", []) if isinstance(found, dict) else []
    rules = (item["rule"]["expr"] for item in items if "rule" in item)
    return sum(int(part["counter"]["packets"]) for rule in rules for part in rule if "counter" in part)
