"""What the clocks of hosts say: offset and drift of each machine, and the faults that step or bend them. Pure."""

from __future__ import annotations

import numpy as np

from leadline.simulator.fabric import Floats, Ints
from leadline.simulator.targets import Befallen


class Clocks:
    """Clocks of all hosts. Hosts of one machine share its oscillator, and so its drift."""

    def __init__(
        self, hosts: int, hosts_per_machine: int, sigma_ns: float, drift_sigma_ppb: float, start_ns: int, seed: int
    ) -> None:
        rng = np.random.default_rng([seed, 30])
        machine_H = np.arange(hosts) // hosts_per_machine
        self.start_ns = start_ns
        self.offset_ns_H: Ints = np.rint(rng.normal(0, sigma_ns, hosts)).astype(np.int64)
        self.drift_ppb_H: Floats = np.round(rng.normal(0, drift_sigma_ppb, machine_H[-1] + 1), 3)[machine_H]
        self.boot_H = rng.integers(0, 2**32, hosts)

    def told(self, host_N: Ints, time_ns_N: Ints, faults: list[Befallen]) -> Ints:
        """What hosts' clocks said at true times."""
        since_N = time_ns_N - self.start_ns
        out = time_ns_N + self.offset_ns_H[host_N] + np.rint(since_N * self.drift_ppb_H[host_N] * 1e-9).astype(np.int64)
        for fault in faults:
            step_ns, ppb = fault.effect.clock_step_ns[fault.level], fault.effect.clock_ppb[fault.level]
            if step_ns or ppb:
                lasted_N = np.clip(np.minimum(since_N, fault.end_s * 1e9) - fault.at_s * 1e9, 0, None)
                during_N = (since_N >= fault.at_s * 1e9) & (since_N < fault.end_s * 1e9)
                more_N = step_ns * during_N + lasted_N * ppb * 1e-9
                out = out + np.where(np.isin(host_N, fault.hosts), more_N, 0.0).astype(np.int64)
        return out
