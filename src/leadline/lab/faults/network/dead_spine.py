"""Dead spine: a switch in the middle of the fabric is gone, and all its links with it."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.background import Background
from leadline.lab.faults.base import NONE_OR_MORE, SHARE, Fault
from leadline.lab.faults.network.link import port_counters
from leadline.lab.realise.drops import DropRule
from leadline.lab.running import RunningLab
from leadline.lab.topology import Link
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class DeadSpine(Fault):
    """Links lose their carrier and routes converge; a large one first swallows packets until its neighbours notice."""

    name = "dead-spine"
    layer = "network"
    fault_class = "persistent"
    signal = "carrier_changes"
    bounds: ClassVar = {"links_ratio": SHARE, "silent_s": NONE_OR_MORE}
    magnitudes: ClassVar = {
        "small": {"links_ratio": 0.5},
        "large": {"silent_s": 9.0},
    }  # 9 s: BGP's shortest usual hold time

    switch: str | None = None
    links_ratio: float = 1.0  # of its links: half of them is a line card
    silent_s: float = 0.0  # it forwards nothing for so long before the carriers go
    _rules: list[DropRule] = field(default_factory=list, repr=False)
    _running: list[Background] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        spines = [each.name for each in lab.cluster.topology.switches if each.tier == "spine"]
        if not spines and not self.switch:
            raise UsageError(f"{lab.cluster.topology.name} has no spine that could die")
        return self if self.switch else replace(self, switch=rng.choice(spines))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"switch:{self.switch}", *(link.id for link in self._links(lab)))

    def start(self, lab: RunningLab) -> None:
        if not self.silent_s:
            self._cut(lab)
            return
        for link in self._links(lab):
            end = next(each for each in link.ends if each.node == self.switch)
            self._rules.append(lab.cluster.drop_rule(end.node, end.name))

        def later(ended: threading.Event) -> None:
            if not ended.wait(self.silent_s):
                self._cut(lab)

        self._running.append(Background("dead-spine", later))

    def stop(self, lab: RunningLab) -> None:
        try:
            while self._running:
                self._running.pop().end()
        finally:
            while self._rules:
                lab.cluster.remove_rule(self._rules.pop())
            for link in self._links(lab):
                lab.release(lab.cut(link.id), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        ends = [end for link in self._links(lab) for end in link.ends if end.node == self.switch]
        ports = {f"{end.node}/{end.name}": port_counters(lab, end) for end in ends}
        return {**ports, "lost_packets": sum(lab.cluster.dropped(rule) for rule in self._rules)}

    def _cut(self, lab: RunningLab) -> None:
        for link in self._links(lab):
            lab.hold(lab.cut(link.id), self, True)

    def _links(self, lab: RunningLab) -> list[Link]:
        topology = lab.cluster.topology
        links = [topology.link_of(port) for port in topology.switch(self.switch or "").ports]
        return links[: max(1, round(len(links) * self.links_ratio))]
