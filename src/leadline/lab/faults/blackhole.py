"""Silent blackhole: a switch loses all packets to some hosts, and no counter moves."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class Blackhole(Fault):
    """A broken entry of a forwarding table: what this switch should send to one host disappears."""

    name = "blackhole"
    layer = "network"
    fault_class = "persistent"

    switch: str | None = None
    host: str | None = None  # whose primary address is no longer reached through it
    _rules: list[DropRule] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        spines = [each.name for each in lab.cluster.topology.switches if each.tier == "spine"]
        leaves = [each.name for each in lab.cluster.topology.switches if each.tier == "leaf"]
        host = self.host or rng.choice([each.host for each in lab.job(None).ranks])
        return replace(self, switch=self.switch or rng.choice(spines or leaves), host=host)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"switch:{self.switch}",)

    def start(self, lab: RunningLab) -> None:
        match = f"ip daddr {lab.cluster.address(self.host or '')}"
        for port in lab.cluster.topology.switch(self.switch or "").ports:
            self._rules.append(lab.cluster.drop_rule(port.node, port.name, match))

    def stop(self, lab: RunningLab) -> None:
        while self._rules:
            lab.cluster.remove_rule(self._rules.pop())

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"lost_packets": sum(lab.cluster.dropped(rule) for rule in self._rules)}
