"""Exporter hangs: a host's GPU exporter takes connections and never answers."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Self

from leadline.lab.faults.base import Fault
from leadline.lab.faults.signals import state_of
from leadline.lab.running import RunningLab
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class ExporterHangs(Fault):
    """SIGSTOP to the exporter: the kernel still accepts for it, nobody answers."""

    name = "exporter-hangs"
    layer = "telemetry"
    fault_class = "transient"

    host: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        return self if self.host else replace(self, host=rng.choice(hosts))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.host}", f"service:dcgm-exporter/{self.host}")

    def start(self, lab: RunningLab) -> None:
        os.kill(self._pid(lab), signal.SIGSTOP)

    def stop(self, lab: RunningLab) -> None:
        os.kill(self._pid(lab), signal.SIGCONT)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"state": state_of(self._pid(lab))}

    def _pid(self, lab: RunningLab) -> int:
        if lab.telemetry is None:
            raise UsageError(f"{self.name} needs the lab's telemetry, which this scenario leaves out")
        return lab.telemetry.exporter_pid(self.host or "")
