"""Faults of one link: lossy, slow, flapping; and a NIC that dies."""

from __future__ import annotations

import json
import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

from leadline.lab.faults.base import Fault
from leadline.lab.levers import Lever
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab
from leadline.lab.topology import Port
from leadline.model.errors import WorldError


@dataclass(frozen=True, slots=True)
class _LinkFault(Fault):
    kinds: ClassVar[tuple[str, ...]] = ("host", "uplink")

    link: str | None = None  # h3~leaf1, or with ports h3/eth0~leaf1/Ethernet3

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.link else replace(self, link=lab.some_link(rng, self.kinds))

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

    loss_ratio: float = 0.05
    _rules: list[DropRule] = field(default_factory=list, repr=False)

    def start(self, lab: RunningLab) -> None:
        # Both ways at the switch's end: a rule on what a host sends would tell the sender's own TCP at once.
        link = lab.link(self.link or "")
        end = next(each for each in link.ends if each.id.startswith("swport:"))
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

    rate_ratio: float = 0.2

    def start(self, lab: RunningLab) -> None:
        for end in self._sending(lab):
            lab.hold(lab.port_rate(end), self, self.rate_ratio)

    def stop(self, lab: RunningLab) -> None:
        for end in self._sending(lab):
            lab.release(lab.port_rate(end), self)

    def _sending(self, lab: RunningLab) -> list[Port]:
        return [end for end in lab.link(self.link or "").ends if end.id.startswith("swport:")]


@dataclass(frozen=True, slots=True)
class FlappingLink(_LinkFault):
    """Carrier goes and comes: down for `down_s` every `period_s`, `flaps` times (0: until it is stopped)."""

    name = "flapping-link"
    layer = "network"
    fault_class = "transient"
    kinds = ("host",)

    down_s: float = 1.0
    period_s: float = 5.0
    flaps: int = 0
    _running: dict[str, Any] = field(default_factory=dict, repr=False)

    def start(self, lab: RunningLab) -> None:
        ended = threading.Event()
        thread = threading.Thread(target=self._flap, args=(lab, ended), name="flaps", daemon=True)
        self._running.update(ended=ended, thread=thread)
        thread.start()

    def stop(self, lab: RunningLab) -> None:
        if self._running:
            self._running["ended"].set()
            self._running["thread"].join()
            failed = self._running.pop("failed", None)
            self._running.clear()
            if failed is not None:
                lab.release(self._cut(lab), self)
                raise failed

    def _flap(self, lab: RunningLab, ended: threading.Event) -> None:
        try:
            self._flap_until(lab, ended)
        except WorldError as error:
            self._running["failed"] = error  # told when it is mended

    def _flap_until(self, lab: RunningLab, ended: threading.Event) -> None:
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

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        link = lab.link(self.link or "")
        ends = sorted(link.ends, key=lambda end: end.id.startswith("swport:"))  # the NIC first: it is what is broken
        return (*(end.id for end in ends), link.id)

    def start(self, lab: RunningLab) -> None:
        lab.hold(self._cut(lab), self, True)

    def stop(self, lab: RunningLab) -> None:
        lab.release(self._cut(lab), self)


def port_counters(lab: RunningLab, port: Port) -> dict[str, int]:
    """What the kernel counts at a port: carrier changes, packets, drops of its queue."""
    told = lab.cluster.command(port.node, ["ip", "-json", "-s", "-s", "link", "show", "dev", port.name])
    counts = json.loads(told)[0]["stats64"]
    queues = json.loads(lab.cluster.command(port.node, ["tc", "-json", "-s", "qdisc", "show", "dev", port.name]))
    return {
        "carrier_changes": counts["tx"]["carrier_changes"],
        "tx_packets": counts["tx"]["packets"],
        "rx_packets": counts["rx"]["packets"],
        "queue_drops": sum(each["drops"] for each in queues if each.get("root")),
    }
