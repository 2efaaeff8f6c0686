"""Faults of one link: lossy, slow, flapping; and a NIC that dies."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.background import Background
from leadline.lab.faults.base import NONE_OR_MORE, ONE_OR_MORE, SHARE, SOME, Fault
from leadline.lab.faults.network.flows import some_used_link
from leadline.lab.faults.telemetry.exporters import several
from leadline.lab.levers import Lever
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab
from leadline.lab.topology import Link, Port, Topology
from leadline.model.errors import UsageError
from leadline.model.ids import kind_of


@dataclass(frozen=True, slots=True)
class _LinkFault(Fault):
    kinds: ClassVar[tuple[str, ...]] = ("host", "uplink")

    link: str | None = None  # h3~leaf1, or with ports h3/eth0~leaf1/Ethernet3

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.link else replace(self, link=some_used_link(lab, rng, self.kinds))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return lab.link_entities(lab.link(self.link or ""))

    def _cut(self, lab: RunningLab) -> Lever:
        return lab.cut(lab.link(self.link or "").id)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        link = lab.link(self.link or "")
        return {f"{end.node}/{end.name}": port_counters(lab, end) for end in link.ends}


@dataclass(frozen=True, slots=True)
class LossyLink(_LinkFault):
    """Packets vanish on the wire at random, both ways: no counter of a switch or NIC knows of them."""

    name = "lossy-link"
    layer = "network"
    fault_class = "gray"
    signal = "lost_packets"
    bounds: ClassVar = {"loss_ratio": SHARE}
    magnitudes: ClassVar = {"small": {"loss_ratio": 0.01}, "large": {"loss_ratio": 0.2}}

    loss_ratio: float = 0.05
    _rules: list[DropRule] = field(default_factory=list, repr=False)

    def start(self, lab: RunningLab) -> None:
        # Both ways at the switch's end: a rule on what a host sends would tell the sender's own TCP at once.
        link = lab.link(self.link or "")
        end = next(each for each in link.ends if kind_of(each.id) == "swport")
        for direction in ("sent", "received"):
            rule = lab.cluster.drop_rule(end.node, end.name, probability=self.loss_ratio, direction=direction)
            self._rules.append(rule)

    def stop(self, lab: RunningLab) -> None:
        while self._rules:
            lab.cluster.remove_rule(self._rules.pop())

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        lost = sum(lab.cluster.dropped(rule) for rule in self._rules)
        return {**_LinkFault.seen(self, lab), "lost_packets": lost}


@dataclass(frozen=True, slots=True)
class SlowLink(_LinkFault):
    """A link that came up at a lower rate, as after a bad negotiation: the switch end sends at a part of it."""

    name = "slow-link"
    layer = "network"
    fault_class = "gray"
    signal = "rate_bps"
    bounds: ClassVar = {"rate_ratio": SHARE}
    magnitudes: ClassVar = {"small": {"rate_ratio": 0.5}, "large": {"rate_ratio": 0.05}}

    rate_ratio: float = 0.2

    def start(self, lab: RunningLab) -> None:
        for end in self._sending(lab):
            lab.hold(lab.port_rate(end), self, self.rate_ratio)

    def stop(self, lab: RunningLab) -> None:
        for end in self._sending(lab):
            lab.release(lab.port_rate(end), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        rates = {f"{end.node}/{end.name}": sending_bps(lab, end) for end in self._sending(lab)}
        return {**_LinkFault.seen(self, lab), "rate_bps": min(rates.values(), default=0)}

    def _sending(self, lab: RunningLab) -> list[Port]:
        return [end for end in lab.link(self.link or "").ends if kind_of(end.id) == "swport"]


@dataclass(frozen=True, slots=True)
class FlappingLink(_LinkFault):
    """Carrier goes and comes: down for `down_s` every `period_s`, `flaps` times (0: until it is stopped)."""

    name = "flapping-link"
    layer = "network"
    fault_class = "transient"
    kinds = ("host",)
    signal = "carrier_changes"
    bounds: ClassVar = {"down_s": SOME, "period_s": SOME, "flaps": NONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"down_s": 0.3, "period_s": 10.0}, "large": {"down_s": 2.0, "period_s": 4.0}}

    down_s: float = 1.0
    period_s: float = 5.0
    flaps: int = 0
    _running: list[Background] = field(default_factory=list, repr=False)

    def check(self, topology: Topology) -> None:
        _LinkFault.check(self, topology)
        if self.period_s <= self.down_s:
            raise UsageError(
                f"{self.name}: period_s must be longer than down_s, or it is never up; got {self.period_s:g} and "
                f"{self.down_s:g}"
            )

    def start(self, lab: RunningLab) -> None:
        self._running.append(Background("flaps", lambda ended: self._flap(lab, ended)))

    def stop(self, lab: RunningLab) -> None:
        try:
            while self._running:
                self._running.pop().end()
        finally:
            lab.release(self._cut(lab), self)

    def _flap(self, lab: RunningLab, ended: threading.Event) -> None:
        cut = self._cut(lab)
        done = 0
        while not ended.is_set() and (not self.flaps or done < self.flaps):
            lab.hold(cut, self, True)
            ended.wait(self.down_s)
            lab.release(cut, self)
            done += 1
            ended.wait(max(0.0, self.period_s - self.down_s))


@dataclass(frozen=True, slots=True)
class DeadNic(_LinkFault):
    """A NIC is gone: its link goes down and does not come back by itself."""

    name = "dead-nic"
    layer = "network"
    fault_class = "persistent"
    kinds = ("host",)
    signal = "carrier_changes"
    # The other NIC of a host carries no traffic of its own: a job goes on, and has lost its way out.
    bounds: ClassVar = {"hosts": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"primary": False}, "large": {"hosts": 2}}

    primary: bool = True  # the NIC that the host's traffic leaves by, if no link is given
    hosts: int = 1  # of the job, the link's and those after it

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        if self.link:
            return self
        link = lab.link(lab.some_link(rng, self.kinds))
        host = lab.host_end(link)
        assert host is not None, "it is a host's"
        return replace(self, link=self._nic(lab, host.node).id)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        found: list[str] = []
        for link in self._links(lab):
            ends = sorted(link.ends, key=lambda end: kind_of(end.id) == "swport")  # the NIC first: it is what is broken
            found += [*(end.id for end in ends), link.id]
        return tuple(found)

    def start(self, lab: RunningLab) -> None:
        for link in self._links(lab):
            lab.hold(lab.cut(link.id), self, True)

    def stop(self, lab: RunningLab) -> None:
        for link in self._links(lab):
            lab.release(lab.cut(link.id), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ends = [end for link in self._links(lab) for end in link.ends]
        return {f"{end.node}/{end.name}": port_counters(lab, end) for end in ends}

    def _links(self, lab: RunningLab) -> list[Link]:
        first = lab.link(self.link or "")
        host = lab.host_end(first)
        if host is None:
            raise UsageError(f"{self.name} is of a host's link, {first.id} is none")
        names = [each.name for each in lab.cluster.topology.hosts]
        return [first, *(self._nic(lab, name) for name in several(names, host.node, self.hosts)[1:])]

    def _nic(self, lab: RunningLab, host: str) -> Link:
        found = lab.cluster.topology.host(host)
        others = [port for port in found.backend if port != found.primary]
        return lab.cluster.topology.link_of(found.primary if self.primary or not others else others[0])


def port_counters(lab: RunningLab, port: Port) -> dict[str, int]:
    """What the kernel counts at a port: carrier changes, packets, drops of its queue."""
    told = lab.cluster.command(port.node, ["ip", "-json", "-s", "-s", "link", "show", "dev", port.name])
    counts = json.loads(told)[0]["stats64"]
    queues = json.loads(lab.cluster.command(port.node, ["tc", "-json", "-s", "qdisc", "show", "dev", port.name]))
    return {
        "carrier_changes": counts["tx"]["carrier_changes"],
        "tx_packets": counts["tx"]["packets"],
        "rx_packets": counts["rx"]["packets"],
        "rx_dropped": counts["rx"]["dropped"],
        "queue_drops": sum(each["drops"] for each in queues if each.get("root")),
    }


def sending_bps(lab: RunningLab, port: Port) -> int:
    """The rate at which the kernel lets a port send, in bit/s; 0 if it is not shaped."""
    told = lab.cluster.command(port.node, ["tc", "class", "show", "dev", port.name])
    words = told.split()
    rates = [words[place + 1] for place, word in enumerate(words[:-1]) if word == "rate"]
    return min(map(_bps, rates), default=0)


def _bps(text: str) -> int:
    """`250Mbit` as tc prints it."""
    number = text.removesuffix("bit")
    factors = {"K": 10**3, "M": 10**6, "G": 10**9}
    factor = factors.get(number[-1:], 1)
    return round(float(number.rstrip("KMG")) * factor)
