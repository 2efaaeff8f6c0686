"""Clocks of virtual hosts on machines, as the mesh tells them: seeded, with the truth beside them.

    x(t) = x0 + integral of (y0 + w(s) + temperature(s)) ds + noise

Hosts of one machine share y0, w and temperature, not x0. Model and values: section 6 of the notes on time ("normal").
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
S = 10**9
START_NS = 1_767_225_600 * S


@dataclass(frozen=True, slots=True)
class Scene:
    """A fleet and how its clocks are read."""

    hosts: int = 1000
    machines: int = 600
    seconds: float = 60.0
    noise_ns: float = 10.0  # of one offset
    span_s: float = 2.0  # offsets are fits over it, so that their noise is alike over it; 0: each for itself
    step_s: float = 0.25
    rate_ppm: float = 20.0  # uniform
    wander: float = 3e-9  # per root of s
    wander_varies: float = 0.0  # sigma of its logarithm over machines
    start_ppm: float = 1000.0  # offsets: us
    steered: str = ""  # "daemon": a loop that hunts; "exact": to the noise


@dataclass(frozen=True, slots=True)
class Readings:
    """Offsets by host and time, and which machine each is on."""

    hosts: tuple[str, ...]
    machine_H: Ints
    time_T: Ints
    offset_HT: Ints


def readings(scene: Scene, seed: int) -> Readings:
    """Make them. Hosts are on machines at random: every machine has one at least, the rest fall where they fall."""
    rng = np.random.default_rng([seed, 23])
    count = round(scene.seconds / scene.step_s)
    machine_H = rng.permutation(np.r_[
        np.arange(scene.machines), rng.integers(0, scene.machines, scene.hosts - scene.machines)
    ])  # fmt: skip
    clock_MT = _clocks(scene, count, rng)
    offset_HT = clock_MT[machine_H] + rng.uniform(-scene.start_ppm * 1e3, scene.start_ppm * 1e3, (scene.hosts, 1))
    offset_HT = offset_HT - offset_HT.mean(axis=0)  # cluster time is that of all
    offset_HT += scene.noise_ns * _noise(scene, count, rng)
    time_T = START_NS + np.rint((np.arange(count) + 1) * scene.step_s * S).astype(np.int64)
    width = len(str(scene.hosts))
    names = tuple(f"h{number:0{width}}" for number in range(1, scene.hosts + 1))
    return Readings(names, machine_H, time_T, np.rint(offset_HT).astype(np.int64))


def _clocks(scene: Scene, count: int, rng: np.random.Generator) -> Floats:
    """Time of each machine's oscillator less true time, ns."""
    machines, t_T = scene.machines, np.arange(count) * scene.step_s
    rate_M = rng.uniform(-scene.rate_ppm, scene.rate_ppm, (machines, 1)) * 1e3
    by = scene.wander * 1e9 * np.exp(scene.wander_varies * rng.standard_normal((machines, 1)))
    walk_MT = by * np.sqrt(scene.step_s) * np.cumsum(rng.standard_normal((machines, count)), axis=1)
    size, period, phase = (rng.uniform(low, high, (machines, 1)) for low, high in ((100, 300), (200, 900), (0, 6.2832)))
    warm_MT = size * np.sin(2 * np.pi * t_T / period + phase)  # ppb
    rate_MT = rate_M + walk_MT + warm_MT
    if scene.steered == "exact":
        return np.zeros((machines, count))
    if scene.steered == "daemon":
        # It sees time to 1 us every second and takes off a part of offset and rate.
        return _steered(rate_MT, scene.step_s, rng)
    return np.cumsum(rate_MT, axis=1) * scene.step_s


def _steered(rate_MT: Floats, step_s: float, rng: np.random.Generator) -> Floats:
    out = np.zeros_like(rate_MT)
    x, takes = np.zeros(len(rate_MT)), -rate_MT[:, 0]
    every = max(1, round(1 / step_s))
    for t in range(rate_MT.shape[1]):
        x = x + (rate_MT[:, t] + takes) * step_s
        if t % every == 0:
            seen = x + rng.normal(0, 1000, len(x))
            takes = takes - 0.01 * seen
            x = x - 0.05 * seen * step_s
        out[:, t] = x
    return out


def _noise(scene: Scene, count: int, rng: np.random.Generator) -> Floats:
    """Of standard deviation 1, alike over the span of a fit."""
    width = max(1, round(scene.span_s / scene.step_s))
    white = rng.standard_normal((scene.hosts, count + width - 1))
    sums = np.cumsum(np.pad(white, ((0, 0), (1, 0))), axis=1)
    found: Floats = (sums[:, width:] - sums[:, :-width]) / np.sqrt(width)
    return found
