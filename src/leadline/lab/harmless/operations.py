"""What operators do on a healthy cluster: maintenance, upgrades, restarts of exporters."""

from __future__ import annotations

import os
import random
import signal
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

from leadline.lab.faults.background import Background
from leadline.lab.faults.base import NONE_OR_MORE, Fault, Harmless
from leadline.lab.running import RunningLab
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class Maintenance(Harmless, Fault):
    """A host that no job uses is taken out: its ports go down and come back. Its agent needs none and speaks on."""

    name = "maintenance"
    layer = "host"

    host: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        used = {one.host for job in lab.jobs.values() for one in job.ranks}
        free = [host.name for host in lab.cluster.topology.hosts if host.name not in used]
        if self.host in used or not (self.host or free):
            raise UsageError(f"{self.name} needs a host that no job uses; busy: {', '.join(sorted(used))}")
        return replace(self, host=self.host or rng.choice(free))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.host}",)

    def start(self, lab: RunningLab) -> None:
        for link in self._links(lab):
            lab.hold(lab.cut(link), self, True)

    def stop(self, lab: RunningLab) -> None:
        for link in self._links(lab):
            lab.release(lab.cut(link), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        told = lab.cluster.command(self.host or "", ["ip", "-brief", "link"])
        return {"ports_up": sum("LOWER_UP" in line and not line.startswith("lo") for line in told.splitlines())}

    def _links(self, lab: RunningLab) -> list[str]:
        topology = lab.cluster.topology
        return [topology.link_of(port).id for port in topology.host(self.host or "").ports]


@dataclass(frozen=True, slots=True)
class RollingUpgrade(Harmless, Fault):
    """The agents are restarted one host after the other, as when a new version is rolled out."""

    name = "rolling-upgrade"
    layer = "telemetry"

    bounds: ClassVar = {"every_s": NONE_OR_MORE}

    every_s: float = 2.0
    _running: list[Background] = field(default_factory=list, repr=False)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return tuple(f"host:{host.name}" for host in lab.cluster.topology.hosts)

    def start(self, lab: RunningLab) -> None:
        if lab.agents is None:
            raise UsageError(f"{self.name} needs agents, which this lab has none of")
        self._running.append(Background("upgrade", partial(self._roll, lab)))

    def stop(self, lab: RunningLab) -> None:
        while self._running:
            self._running.pop().end()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"agents": lab.agents.pids() if lab.agents else {}}

    def _roll(self, lab: RunningLab, ended: threading.Event) -> None:
        for host in lab.cluster.topology.hosts:
            if ended.is_set() or lab.agents is None:
                return
            lab.agents.restart(host.name)
            ended.wait(self.every_s)


@dataclass(frozen=True, slots=True)
class ExporterRestarts(Harmless, Fault):
    """A host's exporter is ended and comes back within seconds: a gap in its series, counters go on."""

    name = "exporter-restarts"
    layer = "telemetry"
    lasts = False

    host: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        return self if self.host else replace(self, host=rng.choice(hosts))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.host}", f"service:dcgm-exporter/{self.host}")

    def start(self, lab: RunningLab) -> None:
        os.kill(self._pid(lab), signal.SIGTERM)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"pid": self._pid(lab)}

    def _pid(self, lab: RunningLab) -> int:
        if lab.telemetry is None:
            raise UsageError(f"{self.name} needs the lab's telemetry, which this scenario leaves out")
        return lab.telemetry.exporter_pid(self.host or "")
