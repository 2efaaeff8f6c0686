"""Wrong MTU: a port of a path takes shorter packets than everybody else sends."""

from __future__ import annotations

import itertools
import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import Fault
from leadline.lab.faults.network.flows import some_used_link
from leadline.lab.faults.network.link import port_counters
from leadline.lab.levers import Lever, strongest
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab
from leadline.lab.topology import Port, Topology
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of

LEAST_BYTES = 576  # what every IPv4 host must take (RFC 791)
# What a router says to the sender of a packet that is too long and must not be cut.
FRAGMENTATION_NEEDED = "icmp type destination-unreachable icmp code frag-needed"


@dataclass(frozen=True, slots=True)
class WrongMtu(Fault):
    """A port left at 1500 in a fabric of jumbo frames: small packets pass, so every ping says that all is well.

    What such a port sends is refused with "fragmentation needed", and TCP at the sender obeys; what it receives is
    dropped as too long, and nobody says so. Small: both ends are wrong, so both ways are told and TCP sends shorter
    packets. Medium: one end, so one way loses all long packets. Large: both ends, and nobody tells (a filter eats it).
    """

    name = "wrong-mtu"
    layer = "network"
    fault_class = "gray"
    signal = "too_long"
    magnitudes: ClassVar = {"small": {"ends": 2}, "large": {"ends": 2, "told": False}}

    link: str | None = None
    mtu_bytes: int = 1500
    ends: int = 1  # 1: the end that is nearer to the hosts
    told: bool = True  # whether routers may say "fragmentation needed"
    _rules: list[DropRule] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.link else replace(self, link=some_used_link(lab, rng, ("uplink",)))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if not LEAST_BYTES <= self.mtu_bytes < topology.shape.mtu_bytes:
            fabric = topology.shape.mtu_bytes
            raise UsageError(
                f"{self.name}: mtu_bytes must be {LEAST_BYTES} or more and less than the fabric's {fabric}, got "
                f"{self.mtu_bytes}"
            )
        if self.ends not in (1, 2):
            raise UsageError(f"{self.name}: a link has ends 1 and 2 that may be wrong, got {self.ends}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (*(end.id for end in self._wrong(lab)), lab.link(self.link or "").id)

    def start(self, lab: RunningLab) -> None:
        if not self.told:
            for node in {end.node for end in self._wrong(lab) if kind_of(end.id) == "swport"}:
                for port in lab.cluster.topology.node(node).ports:
                    self._rules.append(lab.cluster.drop_rule(node, port.name, FRAGMENTATION_NEEDED))
        for end in self._wrong(lab):
            lab.hold(mtu(lab, end), self, self.mtu_bytes)

    def stop(self, lab: RunningLab) -> None:
        for end in self._wrong(lab):
            lab.release(mtu(lab, end), self)
        while self._rules:
            lab.cluster.remove_rule(self._rules.pop())
        # Hosts would go on sending short packets for ten minutes (net.ipv4.route.mtu_expires).
        for host in lab.cluster.topology.hosts:
            lab.cluster.command(host.name, ["ip", "route", "flush", "cache"])

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        wrong = self._wrong(lab)
        dropped = sum(port_counters(lab, end)["rx_dropped"] for end in wrong)
        refused = sum(fragmentation_failures(lab, node) for node in {end.node for end in wrong})
        return {"too_long": dropped + refused, "dropped": dropped, "refused": refused}

    def _wrong(self, lab: RunningLab) -> list[Port]:
        tiers = {each.name: each.tier for each in lab.cluster.topology.switches}
        order = {"leaf": 0, "frontend": 0, "spine": 1}
        ends = sorted(lab.link(self.link or "").ends, key=lambda end: order.get(tiers.get(end.node, ""), 2))
        return ends[: self.ends]


def mtu(lab: RunningLab, port: Port) -> Lever:
    """The longest packet of a port, in bytes."""

    def apply(size_bytes: int | None) -> None:
        wanted = lab.cluster.topology.shape.mtu_bytes if size_bytes is None else size_bytes
        lab.cluster.command(port.node, ["ip", "link", "set", "dev", port.name, "mtu", str(wanted)])

    return Lever(("mtu", port.id), strongest, apply)


def fragmentation_failures(lab: RunningLab, node: str) -> int:
    """Packets that a node could not forward, because they were too long and must not be cut (IpFragFails)."""
    lines = [line.split() for line in lab.cluster.command(node, ["cat", "/proc/net/snmp"]).splitlines()]
    for names, values in itertools.pairwise(lines):
        if names[0] == values[0] == "Ip:" and "FragFails" in names:
            return int(values[names.index("FragFails")])
    return 0
