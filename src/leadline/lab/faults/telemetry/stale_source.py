"""Stale source: an exporter or a tree of counters says the same for ever, and looks alive."""

from __future__ import annotations

import random
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, Fault
from leadline.lab.faults.telemetry.exporters import control, gpu_hosts, page, some_gpu_host
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.controls import PARTS
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError

LOOK_S = 0.5  # between two looks; an emulated GPU counts its energy anew after 0.2 s


@dataclass(frozen=True, slots=True)
class StaleSource(Fault):
    """A cache that is no longer filled: the exporter answers with its last page, the counters' files stand still."""

    name = "stale-source"
    layer = "telemetry"
    fault_class = "gray"
    signal = "repeats"
    bounds: ClassVar = {"hosts": ONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"parts": "gpu"}, "large": {"parts": "gpu,ports,sys", "hosts": 3}}

    host: str | None = None
    hosts: int = 1  # it and those after it
    parts: str = "gpu,ports"  # the GPUs' page, the ports' page, `sys`: the tree of files that the agent reads

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.host else replace(self, host=some_gpu_host(lab, rng))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if unknown := [part for part in self.parts.split(",") if part not in PARTS]:
            raise UsageError(f"{self.name}: parts are {', '.join(PARTS)}, with commas between; got {unknown[0]!r}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        hosts, parts = gpu_hosts(lab, self.host, self.hosts), self.parts.split(",")
        services = {"gpu": "dcgm-exporter", "ports": "node-exporter", "sys": "sysfs"}
        return tuple(f"service:{services.get(part, part)}/{host}" for host in hosts for part in parts)

    def start(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.hold(control(lab, host), self, {"frozen": self.parts.split(",")})

    def stop(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.release(control(lab, host), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        host = self.host or ""
        first = page(lab, host)
        if first is None:
            return {"repeats": 0, "answers": 0}
        time.sleep(LOOK_S)
        return {"repeats": int(page(lab, host) == first), "answers": 1}
