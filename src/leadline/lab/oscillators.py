"""The oscillators of a lab's machines: what the stamps of its probers show instead of this machine's own clock.

All namespaces share one kernel clock, so probes there would find clocks that never differ. Each prober is therefore
told a clock of its own (native/prober/clock.h), which bends every stamp it takes; the kernel's clock is left alone, so
what is true stays known: `Oscillator.shown` says what a host's prober showed at any time of the raw clock.

    x(t) = x0 + integral of (y0 + wander + temperature)

Hosts of one machine share rate, wander and temperature, not the offset. Clocks run from one moment on, not from when a
prober starts: one that starts anew goes on where it was.
"""

from __future__ import annotations

import math
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from leadline.model.errors import DataError, UsageError

Ints = npt.NDArray[np.int64]
STEP_NS = 100_000_000  # within it the frequency does not change: as native/prober/clock.c has it
PPB = 1000.0  # of one ppm
TRUE = "true"


@dataclass(frozen=True, slots=True)
class Nature:
    """How oscillators of a fleet are. Sizes are the largest of a uniform draw."""

    offset_ns: float = 1e6
    rate_ppm: float = 20.0
    wander: float = 3e-9  # random walk of frequency, per square root of a second
    sine_ppm: tuple[float, float] = (0.1, 0.3)
    sine_s: tuple[float, float] = (200.0, 900.0)
    warm_ppm: float = 0.0  # a step of temperature: frequency moves by this within 30 s, at a time of its own


NORMAL = Nature()
STRESS = Nature(wander=1e-8)
COLD = Nature(offset_ns=1e10, rate_ppm=100.0)  # a cold start
HARSH = Nature(offset_ns=1e10, rate_ppm=100.0, wander=3e-8, warm_ppm=1.0)
IN_LABS: Mapping[str, Nature | None] = {TRUE: None, "normal": NORMAL, "stress": STRESS, "cold": COLD}
"""What a lab can be told; None: the one clock of this machine."""


class Injected(NamedTuple):
    """One clock, as a prober is told it."""

    offset_ns: int
    rate_ppb: float
    walk_ppb: float
    sine_ppb: float
    sine_s: float
    seed: int
    since_raw_ns: int
    base_ns: int

    @property
    def words(self) -> str:
        """As LEADLINE_PROBER_CLOCK has it."""
        return " ".join(str(each) if isinstance(each, int) else f"{each:.6f}" for each in self)


def drawn(machines: Mapping[str, Sequence[str]], kind: str, seed: int) -> dict[str, Injected]:
    """The clock of each host, from now on; of the kind `true` none. Errors: UsageError for a kind that is none."""
    if kind not in IN_LABS:
        raise UsageError(f"expected clocks {', '.join(IN_LABS)}, got {kind!r}")
    nature = IN_LABS[kind]
    if nature is None:
        return {}
    since_ns = time.clock_gettime_ns(time.CLOCK_MONOTONIC_RAW)
    base_ns = time.time_ns() - since_ns
    found = {}
    for machine, hosts in machines.items():
        rng = random.Random(f"{seed}/oscillator/{machine}")
        rate_ppb = round(rng.uniform(-nature.rate_ppm, nature.rate_ppm) * PPB, 6)
        sine_ppb, sine_s = round(rng.uniform(*nature.sine_ppm) * PPB, 6), round(rng.uniform(*nature.sine_s), 6)
        walk_ppb, own = round(nature.wander * 1e9, 6), rng.randrange(1, 1 << 48)
        for host in hosts:
            of_host = random.Random(f"{seed}/offset/{host}")
            offset_ns = round(of_host.uniform(-nature.offset_ns, nature.offset_ns))
            found[host] = Injected(offset_ns, rate_ppb, walk_ppb, sine_ppb, sine_s, own, since_ns, base_ns)
    return found


class Oscillator:
    """What an injected clock showed: the arithmetic of native/prober/clock.c, to within 2 ns."""

    def __init__(self, injected: Injected) -> None:
        self.injected = injected
        self._random = injected.seed
        self._walked_ppb = 0.0
        self._ns = [0.0]
        self._ppb = [self._rate_ppb(0.0)]

    def shown(self, raw_N: Ints) -> Ints:
        """The clock at times of the raw clock, int64 ns, none before it began."""
        since_N = raw_N - self.injected.since_raw_ns
        step_N = since_N // STEP_NS
        self._extend(int(step_N.max(initial=0)))
        ns_G, ppb_G = np.array(self._ns), np.array(self._ppb)
        gained_N = ns_G[step_N] + ppb_G[step_N] * (since_N - step_N * STEP_NS) / 1e9
        shown_N: Ints = raw_N + self.injected.base_ns + self.injected.offset_ns + np.rint(gained_N).astype(np.int64)
        return shown_N

    def raw(self, shown_N: Ints) -> Ints:
        """When, by the raw clock, it showed these times."""
        raw_N = shown_N - self.injected.base_ns - self.injected.offset_ns
        for _ in range(3):  # 100 ppm of an hour, of that 100 ppm, of that less than a ns
            raw_N = raw_N + (shown_N - self.shown(np.maximum(raw_N, self.injected.since_raw_ns)))
        return raw_N

    def _extend(self, steps: int) -> None:
        while len(self._ns) <= steps:
            self._walked_ppb += self.injected.walk_ppb * math.sqrt(STEP_NS / 1e9) * self._normal()
            self._ns.append(self._ns[-1] + self._ppb[-1] * STEP_NS / 1e9)
            self._ppb.append(self._rate_ppb((len(self._ns) - 1) * STEP_NS / 1e9))

    def _rate_ppb(self, seconds: float) -> float:
        of = self.injected
        turns = seconds / of.sine_s + (of.seed % 1000) / 1000 if of.sine_s > 0 else 0.0
        sine_ppb = of.sine_ppb * math.sin(2 * math.pi * turns) if of.sine_s > 0 else 0.0
        return of.rate_ppb + self._walked_ppb + sine_ppb

    def _uniform(self) -> float:
        """Splitmix64 (Steele, Lea and Flood, 2014)."""
        self._random = (self._random + 0x9E3779B97F4A7C15) & _WORD
        z = self._random
        z = ((z ^ z >> 30) * 0xBF58476D1CE4E5B9) & _WORD
        z = ((z ^ z >> 27) * 0x94D049BB133111EB) & _WORD
        return (((z ^ z >> 31) >> 11) + 0.5) / 9007199254740992.0

    def _normal(self) -> float:
        radius = math.sqrt(-2 * math.log(self._uniform()))
        return radius * math.cos(2 * math.pi * self._uniform())


_WORD = (1 << 64) - 1


def told(kind: str, clocks: Mapping[str, Injected]) -> dict[str, Any]:
    """What the truth file says about clocks."""
    return {"clocks": {"kind": kind, "hosts": {host: each._asdict() for host, each in clocks.items()}}}


def read_told(found: Mapping[str, Any], where: str) -> dict[str, Injected]:
    """The clocks in a truth file, by host; none where they were true or are not told. Errors: DataError."""
    try:
        return {host: Injected(**each) for host, each in found.get("clocks", {}).get("hosts", {}).items()}
    except (TypeError, AttributeError) as error:
        raise DataError(where, "clocks with hosts, each with the numbers of its clock", repr(error)) from error
