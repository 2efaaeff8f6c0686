"""Labels missing: an exporter's series no longer say what they are of."""

from __future__ import annotations

import random
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import ClassVar, Self

from leadline.lab.faults.base import ONE_OR_MORE, Fault
from leadline.lab.faults.telemetry.exporters import control, gpu_hosts, page, some_gpu_host
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class LabelsMissing(Fault):
    """After an upgrade or a relabelling gone wrong an exporter's series lack labels; values go on."""

    name = "labels-missing"
    layer = "telemetry"
    fault_class = "persistent"
    signal = "series_without"
    bounds: ClassVar = {"hosts": ONE_OR_MORE}
    magnitudes: ClassVar = {
        "small": {"labels": "modelName"},
        "large": {"labels": "UUID,Hostname,gpu,device,pci_bus_id,modelName", "hosts": 3},
    }

    host: str | None = None
    hosts: int = 1  # it and those after it
    labels: str = "UUID"  # with commas between

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.host else replace(self, host=some_gpu_host(lab, rng))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if not all(self.labels.split(",")):
            raise UsageError(f"{self.name}: labels are names with commas between, got {self.labels!r}")

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"service:dcgm-exporter/{host}" for host in gpu_hosts(lab, self.host, self.hosts))

    def start(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.hold(control(lab, host), self, {"drop_labels": self.labels.split(",")})

    def stop(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.release(control(lab, host), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {host: self._series(lab, host) for host in gpu_hosts(lab, self.host, self.hosts)}

    def _series(self, lab: RunningLab, host: str) -> dict[str, object]:
        lines = [line for line in (page(lab, host) or "").splitlines() if line and not line.startswith("#")]
        first = self.labels.partition(",")[0]
        return {"series": len(lines), "series_without": sum(f'{first}="' not in line for line in lines)}
