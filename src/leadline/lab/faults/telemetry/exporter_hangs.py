"""Exporter hangs: a host's exporter takes connections and never answers."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab.faults.application.signals import has_stopped, state_of
from leadline.lab.faults.background import Background
from leadline.lab.faults.base import NONE_OR_MORE, ONE_OR_MORE, Fault
from leadline.lab.faults.telemetry.exporters import exporter_pid, gpu_hosts, some_gpu_host, stopped
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError


@dataclass(frozen=True, slots=True)
class ExporterHangs(Fault):
    """SIGSTOP to the exporter: the kernel still accepts for it, nobody answers."""

    name = "exporter-hangs"
    layer = "telemetry"
    fault_class = "transient"
    signal = "hangs"
    bounds: ClassVar = {"hosts": ONE_OR_MORE, "hang_s": NONE_OR_MORE, "every_s": NONE_OR_MORE}
    magnitudes: ClassVar = {"small": {"hang_s": 8.0, "every_s": 12.0}, "large": {"hosts": 3}}

    host: str | None = None
    hosts: int = 1  # it and those after it
    hang_s: float = 0.0  # 0: all the time; else so long, every `every_s`
    every_s: float = 0.0
    _running: list[Background] = field(default_factory=list, repr=False)
    _hung: Counter[str] = field(default_factory=Counter, repr=False, compare=False)  # how often, by host

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.host else replace(self, host=some_gpu_host(lab, rng))

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if self.hang_s and self.every_s <= self.hang_s:
            raise UsageError(
                f"{self.name}: every_s must be longer than hang_s, or hang_s 0: all the time; got {self.every_s:g} "
                f"and {self.hang_s:g}"
            )

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        hosts = gpu_hosts(lab, self.host, self.hosts)
        return (*(f"host:{host}" for host in hosts), *(f"service:dcgm-exporter/{host}" for host in hosts))

    def start(self, lab: RunningLab) -> None:
        self._hang(lab)
        if self.hang_s:
            self._running.append(Background("hangs", lambda ended: self._now_and_then(lab, ended)))

    def stop(self, lab: RunningLab) -> None:
        try:
            while self._running:
                self._running.pop().end()
        finally:
            self._go_on(lab)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        hosts = gpu_hosts(lab, self.host, self.hosts)
        return {host: {"hangs": self._hung[host], "state": state_of(exporter_pid(lab, host))} for host in hosts}

    def _now_and_then(self, lab: RunningLab, ended: threading.Event) -> None:
        while not ended.wait(self.hang_s):
            self._go_on(lab)
            if ended.wait(max(0.0, self.every_s - self.hang_s)):
                return
            self._hang(lab)

    def _hang(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.hold(stopped(lab, host), self, True)
            self._hung[host] += has_stopped(exporter_pid(lab, host))

    def _go_on(self, lab: RunningLab) -> None:
        for host in gpu_hosts(lab, self.host, self.hosts):
            lab.release(stopped(lab, host), self)
