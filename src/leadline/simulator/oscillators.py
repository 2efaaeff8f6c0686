"""Clocks of hosts to the nanosecond, as their oscillators run: what a probe mesh is tried on. Pure, seeded.

    x(t) = x0 + integral of (y0 + wander + temperature) + steps

The function from true time to what a host shows is strictly increasing but where a clock is set. Hosts of one machine
share rate, wander and temperature, not the offset. `simulator.clocks` is coarser: it bends rows of whole fleets.
Source of the model: the usual one of oscillators (Riley, NIST SP 1065, 2008): random walk of frequency, and a sine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from leadline.lab.oscillators import COLD as COLD
from leadline.lab.oscillators import HARSH as HARSH
from leadline.lab.oscillators import NORMAL as NORMAL
from leadline.lab.oscillators import STRESS as STRESS
from leadline.lab.oscillators import Nature as Nature
from leadline.simulator.fabric import Floats, Ints

GRID_NS = 10_000_000  # within it the frequency does not change
S_NS = 10**9


@dataclass(frozen=True, slots=True)
class ClockStep:
    """A clock is set."""

    host: int
    at_s: float  # since the start
    by_ns: int


class Oscillators:
    """Clocks of H hosts over some seconds."""

    def __init__(
        self, hosts: int, seconds: float, nature: Nature, seed: int, *, start_ns: int = 1_767_225_600 * S_NS,
        machine_H: Ints | None = None, steps: Sequence[ClockStep] = (),
    ) -> None:  # fmt: skip
        rng = np.random.default_rng([seed, 31])
        machine_H = np.arange(hosts) if machine_H is None else machine_H
        machines = int(machine_H.max()) + 1 if hosts else 0
        self.start_ns, self.machine_H, self._steps = start_ns, machine_H, tuple(steps)
        self._grid_G = np.arange(int(seconds * S_NS) // GRID_NS + 2, dtype=np.float64) * GRID_NS
        step_s = GRID_NS / S_NS
        rate_M = rng.uniform(-nature.rate_ppm, nature.rate_ppm, machines) * 1e-6
        walk_MG = rng.normal(0, nature.wander * np.sqrt(step_s), (machines, len(self._grid_G))).cumsum(axis=1)
        size_M, period_M = rng.uniform(*nature.sine_ppm, machines) * 1e-6, rng.uniform(*nature.sine_s, machines)
        phase_M, at_M = rng.uniform(0, 2 * np.pi, machines), rng.uniform(0, max(seconds - 30, 1), machines)
        second_G = self._grid_G / S_NS
        sine_MG = size_M[:, None] * np.sin(2 * np.pi * second_G / period_M[:, None] + phase_M[:, None])
        warm_M = rng.choice([-1.0, 1.0], machines) * nature.warm_ppm * 1e-6
        warm_MG = warm_M[:, None] * np.clip((second_G - at_M[:, None]) / 30, 0, 1)
        self._rate_MG: Floats = rate_M[:, None] + walk_MG + sine_MG + warm_MG
        self._phase_MG = np.zeros_like(self._rate_MG)
        self._phase_MG[:, 1:] = (self._rate_MG[:, :-1] * GRID_NS).cumsum(axis=1)
        self.offset_ns_H: Ints = np.rint(rng.uniform(-nature.offset_ns, nature.offset_ns, hosts)).astype(np.int64)

    @property
    def hosts(self) -> int:
        return len(self.machine_H)

    def shown(self, host_N: Ints, true_ns_N: Ints) -> Ints:
        """What hosts' clocks show at true times, int64 ns."""
        since_N = true_ns_N - self.start_ns
        more_N = np.zeros(len(since_N))
        for host in range(self.hosts):
            mine_N = np.flatnonzero(host_N == host)
            if len(mine_N):
                phase_G = self._phase_MG[self.machine_H[host]]
                more_N[mine_N] = np.interp(since_N[mine_N], self._grid_G, phase_G)
        out = true_ns_N + self.offset_ns_H[host_N] + np.rint(more_N).astype(np.int64)
        for step in self._steps:
            out = out + np.where((host_N == step.host) & (since_N >= step.at_s * S_NS), step.by_ns, 0)
        return out
