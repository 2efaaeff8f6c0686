# ruff: noqa: E501 (a flat table reads better with one row per line)
"""When parts fail: Weibull hazards by age, lemons among the parts, repairs. Pure, from a random generator.

    H(t) = (t / scale) ** shape      survival to t: exp(-f H(t)), f = the lemon's factor or 1

A part of age a fails next at scale * ((a / scale) ** shape + E / f) ** (1 / shape) with E exponential: exact, and
conditional on having lived to a.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]
DAY_S = 86_400.0


@dataclass(frozen=True, slots=True)
class Part:
    """A kind of part. `mean_days`: mean life between failures of one that is no lemon."""

    name: str
    of: Literal["gpu", "link", "host", "switch"]
    mean_days: float
    shape: float  # below 1: infant failures; above: wear
    lemon_share: float
    lemon_factor: float  # of the hazard
    shows_as: tuple[tuple[str, float], ...]  # faults, and how often each


# Means so that 1,000 nodes of 8 GPUs fail about 6.5 times a day, as RSC-1 (Kokolis et al., HPCA'25); of these nearly
# six in ten by GPUs (Llama 3: 58.7 %). A five-year optic or NIC is the vendors' figure (2,628,000 min). Lemons: 40
# nodes of some 2,700 caused a tenth of the failures of large jobs (Meta). Shapes: below 1 for what is new, as the
# headline means hide; wear only where something wears.
PARTS: tuple[Part, ...] = (
    Part("gpu", "gpu", 2100.0, 0.8, 0.015, 10.0, (("xid", 0.35), ("gpu-lost", 0.15), ("row-remaps", 0.25), ("gpu-throttle", 0.15), ("nvlink-errors", 0.1))),
    Part("nic", "link", 9000.0, 0.9, 0.01, 8.0, (("dead-nic", 0.4), ("pcie-width", 0.3), ("slow-link", 0.3))),
    Part("optic", "link", 1825.0 * 4, 1.2, 0.02, 10.0, (("flapping-link", 0.6), ("marginal-optic", 0.3), ("lossy-link", 0.1))),
    Part("cable", "link", 20_000.0, 1.0, 0.01, 5.0, (("flapping-link", 0.7), ("slow-link", 0.3))),
    Part("host", "host", 900.0, 0.9, 0.015, 12.0, (("sigsegv", 0.3), ("oom-kill", 0.3), ("slow-worker", 0.3), ("clock-drift", 0.1))),
    Part("switch", "switch", 3650.0, 1.0, 0.005, 5.0, (("dead-spine", 0.3), ("blackhole", 0.5), ("switch-stops-sampling", 0.2))),
)  # fmt: skip


def scale_of(part: Part) -> float:
    """Weibull scale, days, that gives the part's mean life."""
    return part.mean_days / math.gamma(1.0 + 1.0 / part.shape)


def lives(part: Part, age_days_N: Floats, factor_N: Floats, rng: np.random.Generator) -> Floats:
    """Days until the next failure of N parts of these ages, drawn from the hazard given that they live now."""
    scale = scale_of(part)
    passed_N = (age_days_N / scale) ** part.shape
    drawn_N = rng.exponential(size=age_days_N.shape) / factor_N
    whole_N = scale * (passed_N + drawn_N) ** (1.0 / part.shape) - age_days_N
    # The difference of two near numbers would lose the short lives of old parts: expm1 and log1p keep them.
    ratio_N = np.minimum(np.divide(drawn_N, passed_N, out=np.ones_like(drawn_N), where=passed_N > 0), 1.0)
    near_N = age_days_N * np.expm1(np.log1p(ratio_N) / part.shape)
    return np.where(ratio_N < 1.0, near_N, whole_N)


@dataclass(frozen=True, slots=True)
class Failure:
    """One part fails: `index` is its GPU, link, host or switch."""

    at_s: float
    part: str
    of: str
    index: int
    fault: str


def failures(
    counts: dict[str, int], seconds: float, age_days: float, rng: np.random.Generator
) -> tuple[list[Failure], dict[str, NDArray[np.bool_]]]:
    """All failures within `seconds`, in order, and which parts are lemons.

    Inputs: how many GPUs, links, hosts and switches there are; mean age of the parts (exponential: a fleet is built
    and mended over years). A part that has failed is renewed at once: the hazard starts again at age 0.
    """
    found: list[Failure] = []
    lemons: dict[str, NDArray[np.bool_]] = {}
    for part in PARTS:
        count = counts[part.of]
        lemon_N = rng.random(count) < part.lemon_share
        lemons[part.name] = lemon_N
        factor_N = np.where(lemon_N, part.lemon_factor, 1.0)
        at_N = lives(part, rng.exponential(age_days, count), factor_N, rng) * DAY_S
        names, weights = zip(*part.shows_as, strict=True)
        index = np.flatnonzero(at_N < seconds)
        at = at_N[index]
        while len(index):
            shown = rng.choice(len(names), size=len(index), p=weights)
            found += [
                Failure(float(when), part.name, part.of, int(which), names[how])
                for when, which, how in zip(at, index, shown, strict=True)
            ]
            at = at + lives(part, np.zeros(len(index)), factor_N[index], rng) * DAY_S
            index, at = index[at < seconds], at[at < seconds]
    return sorted(found, key=lambda each: (each.at_s, each.part, each.index)), lemons
