"""Anomalies that harm nobody: a detector that blames one of them beside a real fault is wrong."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Self

from leadline.lab.faults.background import Background
from leadline.lab.faults.base import SOME, Fault, Harmless
from leadline.lab.faults.network.link import port_counters
from leadline.lab.running import RunningLab
from leadline.lab.telemetry.kernel_log import append
from leadline.lab.topology import Port
from leadline.lab.workloads.base import Process, stop_all
from leadline.model.errors import UsageError

WARNING = 4  # priority of a line in the kernel log
# Lines that healthy machines write: sources in docs/lab/scenarios.md.
NOISE = (
    "perf: interrupt took too long (2507 > 2500), lowering kernel.perf_event_max_sample_rate to 79750",
    "clocksource: timekeeping watchdog on CPU3: hpet wd-wd read-back delay of 68482ns",
    "nvidia-uvm: Loaded the UVM driver, major device number 234.",
    "TCP: request_sock_TCP: Possible SYN flooding on port 29500. Sending cookies.",
)


@dataclass(frozen=True, slots=True)
class _OnHost(Harmless, Fault):
    """Something on one host, from the seed unless it is given."""

    layer = "host"

    host: str | None = None

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        hosts = [each.name for each in lab.cluster.topology.hosts if each.gpus]
        return self if self.host else replace(self, host=rng.choice(hosts))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return (f"host:{self.host}",)


@dataclass(frozen=True, slots=True)
class LogNoise(_OnHost):
    """Lines in a host's kernel log that sound like trouble and are none."""

    name = "log-noise"
    lasts = False

    def start(self, lab: RunningLab) -> None:
        for line in NOISE:
            append(lab.state / "hosts" / (self.host or ""), line, WARNING)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        log = lab.state / "hosts" / (self.host or "") / "kmsg"
        return {"lines": len(log.read_text().splitlines()) if log.exists() else 0}


@dataclass(frozen=True, slots=True)
class CronJob(_OnHost):
    """A short housekeeping job on a host, at the lowest priority: its CPU counters rise, nobody waits for it."""

    name = "cron-job"

    _processes: list[Process] = field(default_factory=list, repr=False)

    def start(self, lab: RunningLab) -> None:
        # Bounded in time by itself, whatever becomes of us; and in CPU, because all hosts share this machine's cores.
        program = (
            "i=0; while [ $i -lt 600 ]; do n=0; while [ $n -lt 2000 ]; do n=$((n+1)); done; sleep 0.1; i=$((i+1)); done"
        )
        argv = ["/bin/sh", "-c", program]
        self._processes.append(lab.cluster.spawn(self.host or "", argv, name="cron", cgroup="cron", nice=19))

    def stop(self, lab: RunningLab) -> None:
        stop_all(self._processes)
        self._processes.clear()

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"running": sum(each.popen.poll() is None for each in self._processes)}


@dataclass(frozen=True, slots=True)
class UnusedNicFlaps(Harmless, Fault):
    """A NIC that no job's traffic leaves by loses its carrier a few times."""

    name = "unused-nic-flaps"
    layer = "network"

    bounds: ClassVar = {"down_s": SOME, "period_s": SOME}

    port: str | None = None  # h3/eth1
    down_s: float = 0.5
    period_s: float = 3.0
    _running: list[Background] = field(default_factory=list, repr=False)

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        free = [
            f"{port.node}/{port.name}"
            for host in lab.cluster.topology.hosts
            for port in host.backend
            if port != host.primary
        ]
        if not (self.port or free):
            raise UsageError(
                f"{self.name}: every backend NIC of {lab.cluster.topology.name} is in use; it has one a host"
            )
        return self if self.port else replace(self, port=rng.choice(free))

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        return lab.link_entities(lab.cluster.topology.link_of(self._port(lab)))

    def start(self, lab: RunningLab) -> None:
        self._running.append(Background("decoy-flaps", partial(self._flap, lab)))

    def stop(self, lab: RunningLab) -> None:
        try:
            while self._running:
                self._running.pop().end()
        finally:
            lab.release(lab.cut(lab.cluster.topology.link_of(self._port(lab)).id), self)

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        return {"carrier_changes": port_counters(lab, self._port(lab))["carrier_changes"]}

    def _port(self, lab: RunningLab) -> Port:
        return lab.cluster.topology.port(self.port or "")

    def _flap(self, lab: RunningLab, ended: threading.Event) -> None:
        cut = lab.cut(lab.cluster.topology.link_of(self._port(lab)).id)
        while not ended.is_set():
            lab.hold(cut, self, True)
            ended.wait(self.down_s)
            lab.release(cut, self)
            ended.wait(max(0.0, self.period_s - self.down_s))
