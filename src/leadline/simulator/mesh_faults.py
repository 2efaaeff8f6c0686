"""What faults do to probes: which links lose them, are down, queue; which hosts see them late. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from leadline.simulator.fabric import Bools, Floats, Ints
from leadline.simulator.fleet import HOST_BPS, Fleet
from leadline.simulator.jobs import JobSteps
from leadline.simulator.targets import Befallen, links_of

QUEUE_BYTES = 250_000.0  # as `network.LinkState`
# What harms only packets that are long, of another class or of another protocol than probes.
SPARES_PROBES = frozenset({"wrong-gid", "wrong-dscp", "wrong-mtu"})
# Shares of the time that a link must be busy for its queue to show in the smallest, median and 99th percentile.
SHOWS_AT = np.array([0.99, 0.5, 0.01])


@dataclass(frozen=True, slots=True)
class Trouble:
    """One fault as probes meet it. Times in seconds since the begin."""

    at_s: float
    end_s: float
    hit_D: Bools  # directions of links
    loss: float
    capacity: float  # share of the rate that is left
    capacity_bps: float
    filled: bool  # whatever the job does
    run: int
    down_s: float  # of each period; inf: all the time
    period_s: float
    reroute_s: float  # after so long routing leaves the links out; inf: never
    stall_ns: float
    hosts: tuple[int, ...]

    def lasts(self, at_N: Floats) -> Bools:
        found: Bools = (at_N >= self.at_s) & (at_N < self.end_s)
        return found

    def share(self, from_N: Floats, to_N: Floats) -> Floats:
        """Share of each span in which it lasts."""
        return _overlap(from_N, to_N, self.at_s, self.end_s)

    def crossed(self, path_WPX: Ints) -> Floats:
        """1 for the paths over any of the links that are hit, (W, P)."""
        hit_WPX = self.hit_D[np.maximum(path_WPX, 0)] & (path_WPX >= 0)
        return np.asarray(hit_WPX.any(axis=-1), np.float64)

    def down(self, from_N: Floats, to_N: Floats) -> tuple[Floats, Bools]:
        """Share of each span in which the links are down, and whether they are at its end."""
        if self.down_s <= 0:
            return np.zeros(len(to_N)), np.zeros(len(to_N), bool)
        end_s = min(self.end_s, self.at_s + self.reroute_s)
        if np.isinf(self.down_s):
            return _overlap(from_N, to_N, self.at_s, end_s), (to_N >= self.at_s) & (to_N < end_s)
        # From the begin of each period on; what is down after the end of the span is not counted twice.
        gone = (self._down_until(np.minimum(to_N, end_s)) - self._down_until(np.minimum(from_N, end_s))) / (
            to_N - from_N
        )
        since = to_N - self.at_s
        return gone, (since >= 0) & (to_N < end_s) & (since % self.period_s < self.down_s)

    def _down_until(self, at_N: Floats) -> Floats:
        since = np.maximum(at_N - self.at_s, 0.0)
        periods = np.floor(since / self.period_s)
        return np.asarray(periods * self.down_s + np.minimum(since - periods * self.period_s, self.down_s), np.float64)

    @property
    def rerouted_s(self) -> tuple[float, ...]:
        """When routing changes because of it."""
        return (self.at_s + self.reroute_s, self.end_s) if np.isfinite(self.reroute_s) else ()

    def is_rerouted(self, at_s: float) -> bool:
        return self.at_s + self.reroute_s <= at_s < self.end_s

    def queue_ns(self, at_N: Floats, jobs: Mapping[int, JobSteps], start_ns: int) -> Floats:
        """How much longer the smallest, median and 99th percentile of delays are over such a link, (N, 3)."""
        if self.capacity >= 1.0:
            return np.zeros((len(at_N), 3))
        busy_N = np.ones(len(at_N)) if self.filled else np.zeros(len(at_N))
        job = jobs.get(self.run)
        if job is not None and not self.filled:
            at_ns = start_ns + np.rint(at_N * 1e9).astype(np.int64)
            busy_N = np.minimum(1.0, job.port_bytes_per_s(at_ns) * 8 / (self.capacity * self.capacity_bps))
        full_ns = QUEUE_BYTES * 8e9 / (self.capacity * self.capacity_bps)
        return np.asarray(full_ns * (busy_N[:, None] >= SHOWS_AT), np.float64)


def _overlap(from_N: Floats, to_N: Floats, at_s: float, end_s: float) -> Floats:
    """Share of each span that lies between two times."""
    lasts_N = np.maximum(np.minimum(to_N, end_s) - np.maximum(from_N, at_s), 0.0)
    return np.asarray(lasts_N / (to_N - from_N), np.float64)


def troubles(fleet: Fleet, faults: list[Befallen]) -> list[Trouble]:
    """Those faults that probes can meet."""
    found = []
    for fault in faults:
        effect, level = fault.effect, fault.level
        hit = links_of(fleet, fault)
        down_s, reroute_s = effect.down_s[level], np.inf
        if down_s < 0:
            down_s, reroute_s = np.inf, effect.pause_s[level]
        if effect.dies and effect.scope == "link":  # the job ends of it; the card stays dead
            down_s = np.inf
        stall_ns = effect.stall_ms[level] * 1e6
        touched = len(hit) and effect.name not in SPARES_PROBES
        if not stall_ns and not (touched and (effect.loss[level] or down_s or effect.capacity[level] < 1)):
            continue
        hit_D = np.zeros(2 * fleet.links, bool)
        if touched:
            hit_D[hit] = hit_D[fleet.links + hit] = True
        bps = float(fleet.capacity_bps_L[hit[0]]) if len(hit) else HOST_BPS
        found.append(
            Trouble(
                fault.at_s, fault.end_s, hit_D, effect.loss[level], effect.capacity[level], bps,
                effect.queues == "others", fault.run, down_s, effect.period_s, reroute_s, stall_ns, fault.hosts,
            )
        )  # fmt: skip
    return found
