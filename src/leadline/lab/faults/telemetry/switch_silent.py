"""Switch stops sampling: its sFlow agent falls silent while the switch forwards as ever."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, Fault
from leadline.lab.faults.telemetry.exporters import sampler, sampler_status, several
from leadline.lab.running import RunningLab


@dataclass(frozen=True, slots=True)
class SwitchStopsSampling(Fault):
    """No more flow samples of a switch, and (but for the small one) no more counter samples either."""

    name = "switch-stops-sampling"
    layer = "telemetry"
    fault_class = "persistent"
    signal = "withheld"
    bounds: ClassVar = {"switches": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"counters": False}, "large": {"switches": 2}}

    switch: str | None = None
    switches: int = 1  # it and those after it
    counters: bool = True  # whether these stop too

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.switch else replace(self, switch=rng.choice(self._fabric(lab)))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"switch:{each}" for each in self._befallen(lab))

    def start(self, lab: RunningLab) -> None:
        for switch in self._befallen(lab):
            lab.hold(sampler(lab, switch), self, "all" if self.counters else "flows")

    def stop(self, lab: RunningLab) -> None:
        for switch in self._befallen(lab):
            lab.release(sampler(lab, switch), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        found = {}
        for switch in self._befallen(lab):
            told = sampler_status(lab, switch)
            found[switch] = {name: told.get(name, 0) for name in ("withheld", "samples", "datagrams")}
        return found

    def _fabric(self, lab: RunningLab) -> list[str]:
        return [each.name for each in lab.cluster.topology.switches if each.tier != "frontend"]

    def _befallen(self, lab: RunningLab) -> list[str]:
        return several(self._fabric(lab), self.switch, self.switches)
