"""Silent blackhole: a switch loses all packets to some hosts, and no counter moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, SHARE, Fault
from leadline.lab.faults.network.flows import switches_to
from leadline.lab.faults.telemetry.exporters import several
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Blackhole(Fault):
    """A broken entry of a forwarding table: what this switch should send to one host disappears."""

    name = "blackhole"
    layer = "network"
    fault_class = "persistent"

    signal = "lost_packets"
    bounds: ClassVar = {"hosts": ONE_OR_MORE, "loss_ratio": SHARE}
    magnitudes: ClassVar = {
        "small": {"loss_ratio": 0.3},
        "large": {"hosts": 3},
    }  # small: one of several pipelines is broken

    switch: str | None = None
    host: str | None = None  # whose primary address is no longer reached through it
    hosts: int = 1  # it and those after it
    loss_ratio: float = 1.0
    _rules: list[DropRule] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        """A switch through which packets to the host pass now, if there is one: else nothing would be lost."""
        spines = [each.name for each in lab.cluster.topology.switches if each.tier == "spine"]
        leaves = [each.name for each in lab.cluster.topology.switches if each.tier == "leaf"]
        host = self.host or rng.choice([each.host for each in lab.ranks(None)])
        if self.switch:
            return replace(self, host=host)
        passed = switches_to(lab, host, "spine") or switches_to(lab, host, "leaf")
        return replace(self, switch=rng.choice(passed or spines or leaves), host=host)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"switch:{self.switch}",)

    def start(self, lab: RunningLab) -> None:
        names = [each.name for each in lab.cluster.topology.hosts]
        for host in several(names, self.host, self.hosts):
            match = f"ip daddr {lab.cluster.address(host)}"
            for port in lab.cluster.topology.switch(self.switch or "").ports:
                self._rules.append(lab.cluster.drop_rule(port.node, port.name, match, self.loss_ratio))

    def stop(self, lab: RunningLab) -> None:
        while self._rules:
            lab.cluster.remove_rule(self._rules.pop())

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"lost_packets": sum(lab.cluster.dropped(rule) for rule in self._rules)}
