"""Clocks that are wrong: a step, and a drift. Of a machine: all its hosts share the oscillator."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar, Self

from leadline.lab import clock, faketime
from leadline.lab.faults.background import Background
from leadline.lab.faults.base import Fault
from leadline.lab.levers import Lever
from leadline.lab.running import RunningLab
from leadline.lab.topology import Topology
from leadline.model.errors import UsageError

DRIFT_EVERY_S = 0.2  # at 500 ppm a step of 100 us: less than programs notice of each other's clocks

SEEN_NS = 100_000  # what is told of an offset: two clocks cannot be read at one moment on a busy machine


@dataclass(frozen=True, slots=True)
class _ClockFault(Fault):
    """The wall clock of one machine: as its agents, its ranks and whatever else runs on its hosts read it."""

    layer = "host"
    signal: ClassVar[str] = "offset_ns"

    host: str | None = None  # any host of the machine

    def chosen(self, lab: RunningLab, rng: random.Random) -> Self:
        return self if self.host else replace(self, host=rng.choice([one.host for one in lab.ranks(None)]))

    def require(self) -> None:
        faketime.require()

    def prepare(self, lab: RunningLab) -> None:
        clock.prepare(lab)

    def component(self, lab: RunningLab) -> tuple[str, ...]:
        topology = lab.cluster.topology
        return tuple(f"host:{each.name}" for each in topology.machines()[self._machine(lab)])

    def seen(self, lab: RunningLab) -> Mapping[str, object]:
        offset_ns = clock.read_offset_ns(lab, self.host or "")
        return {"offset_ns": round(offset_ns / SEEN_NS) * SEEN_NS}

    def _machine(self, lab: RunningLab) -> str:
        return lab.cluster.topology.host(self.host or "").machine

    def _offset(self, lab: RunningLab) -> Lever:
        return clock.offset(lab, self._machine(lab))


@dataclass(frozen=True, slots=True)
class ClockStep(_ClockFault):
    """A wall clock jumps: a daemon steps it by a wrong server's word, and steps it back when it is mended."""

    name = "clock-step"
    fault_class = "persistent"
    magnitudes: ClassVar = {"small": {"step_s": 0.02}, "large": {"step_s": -30.0}}  # medium: as a leap second

    step_s: float = 1.0  # below zero: backwards

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if not self.step_s:
            raise UsageError(f"{self.name}: step_s must not be 0, a clock that stays right is no fault")

    def start(self, lab: RunningLab) -> None:
        lab.hold(self._offset(lab), self, self.step_s)

    def stop(self, lab: RunningLab) -> None:
        lab.release(self._offset(lab), self)


@dataclass(frozen=True, slots=True)
class ClockDrift(_ClockFault):
    """An oscillator that nobody disciplines any more: the clock gains on the others; mended by a step back."""

    name = "clock-drift"
    fault_class = "gray"
    magnitudes: ClassVar = {
        "small": {"drift_ppm": 20.0},
        "large": {"drift_ppm": 500.0},
    }  # 500: the most that NTP corrects

    drift_ppm: float = 100.0
    _running: list[Background] = field(default_factory=list, repr=False)

    def check(self, topology: Topology) -> None:
        Fault.check(self, topology)
        if not self.drift_ppm:
            raise UsageError(f"{self.name}: drift_ppm must not be 0, a clock that stays right is no fault")

    def start(self, lab: RunningLab) -> None:
        began_s, lever = time.monotonic(), self._offset(lab)

        def drift(ended: threading.Event) -> None:
            while not ended.wait(DRIFT_EVERY_S):
                lab.hold(lever, self, (time.monotonic() - began_s) * self.drift_ppm * 1e-6)

        self._running.append(Background("clock-drift", drift))

    def stop(self, lab: RunningLab) -> None:
        try:
            while self._running:
                self._running.pop().end()
        finally:
            lab.release(self._offset(lab), self)
