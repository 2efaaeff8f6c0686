"""Differences between two sides, and whether they are beyond noise. Pure.

Intervals are of order statistics, so nothing is assumed of how values are distributed. Neighbouring steps hang
together: their number is lowered to that of independent values which would scatter as much.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from leadline.analysis.columns import Floats
from leadline.analysis.ledger.onset.onset import scale_of_differences

VALUES_MIN = 8  # independent values for an interval
SURE = 0.95
FALSE_ALARM = 0.1  # of a comparison of equals, that any of its metrics is told as different
PEERS_MIN = 3
ALIKE_MAX = 0.2  # of the peers may be as far out
EFFECT_MIN = 0.1  # of a metric against its peers; less is not told, however sure


@dataclass(frozen=True, slots=True)
class Quantile:
    """A quantile with its 95 % interval; `low` and `high` are None where too few values are there."""

    value: float | None
    low: float | None
    high: float | None
    count: int

    def as_answer(self) -> dict[str, Any]:
        """As JSON."""
        return {"value": self.value, "low": self.low, "high": self.high, "count": self.count}


def independent(value_N: Floats) -> float:
    """How many independent values would tell as much of the middle as these, which stand in order of time.

    Source: Geyer, Practical Markov chain Monte Carlo, Statistical Science 7 (1992), section 3.3: the sum of
    autocorrelations while pairs of them are positive and fall. Of ranks, so that single large values do not hide it.
    """
    n = len(value_N)
    if n < 2 * VALUES_MIN:
        return float(n)
    from scipy.stats import rankdata  # here: it takes a second to load, and few ask for a comparison

    centred = rankdata(value_N) - (n + 1) / 2
    power = np.abs(np.fft.rfft(centred, 2 * n)) ** 2
    covariance = np.fft.irfft(power)[:n]
    if covariance[0] <= 0:  # all values are one
        return float(n)
    correlation = covariance / covariance[0]
    pairs = correlation[: n // 2 * 2].reshape(-1, 2).sum(axis=1)
    last = int(np.argmax(pairs <= 0)) if (pairs <= 0).any() else len(pairs)
    length = 2 * float(np.minimum.accumulate(pairs[:last]).sum()) - 1
    return n / max(1.0, length)


def quantile(value_N: Floats, share: float) -> Quantile:
    """The quantile of values in order of time, with an interval that holds it in at least 95 of 100 cases.

    Source: David and Nagaraja, Order Statistics, section 7.1 (distribution-free intervals for quantiles), with the
    effective number of `independent`.
    """
    ordered = np.sort(value_N[np.isfinite(value_N)])
    n = len(ordered)
    if not n:
        return Quantile(None, None, None, 0)
    value = float(np.quantile(ordered, share))
    effective = math.floor(independent(value_N[np.isfinite(value_N)]))
    from scipy.stats import binom  # as above

    low, high = binom.ppf([(1 - SURE) / 2, (1 + SURE) / 2], max(effective, 1), share)
    first, last = math.floor((low - 1) / max(effective, 1) * n), math.ceil((high + 1) / max(effective, 1) * n)
    if effective < VALUES_MIN or first < 0 or last > n:
        return Quantile(value, None, None, n)
    return Quantile(value, float(ordered[first]), float(ordered[last - 1]), n)


def difference(a: Quantile, b: Quantile) -> dict[str, Any]:
    """B against A: the ratio, how far it may be off, and whether the two differ beyond noise.

    `verdict`: more, less (of B), same (no difference beyond noise) or unknown, then `why`.
    """
    told: dict[str, Any] = {"a": a.as_answer(), "b": b.as_answer(), "ratio": None, "low": None, "high": None}
    if a.value is None or b.value is None:
        return told | {"verdict": "unknown", "why": f"no values of {'A' if a.value is None else 'B'}"}
    told["ratio"] = b.value / a.value if a.value else None
    if a.low is None or a.high is None or b.low is None or b.high is None:
        few = "A" if a.low is None else "B"
        return told | {"verdict": "unknown", "why": f"too few independent values of {few} for an interval"}
    if a.low > 0:
        told |= {"low": b.low / a.high, "high": b.high / a.low}
    if b.low > a.high:
        return told | {"verdict": "more", "why": ""}
    if b.high < a.low:
        return told | {"verdict": "less", "why": ""}
    return told | {"verdict": "same", "why": ""}


def strength(a: Mapping[str, str], b: Mapping[str, str]) -> float:
    """How far a setting tells two sides apart, 0 to 1: 1 where no value of one is found on the other.

    Inputs: value by member. Total variation distance of the two distributions, so what all members of one side share
    and none of the other has is stronger than what a single member has.
    """
    of_a, of_b = Counter(a.values()), Counter(b.values())
    values = of_a.keys() | of_b.keys()
    return sum(abs(of_a[value] / len(a) - of_b[value] / len(b)) for value in values) / 2


def against_peers(value: float, peers: Sequence[float], floor: float, tests: int) -> tuple[float, float] | None:
    """(sigmas, median of peers) of a value that differs from its peers beyond what they differ; else None.

    `floor`: the least standard deviation that is believed. `tests`: how many such questions are asked at once.
    """
    if len(peers) < PEERS_MIN:
        return None
    middle = float(np.median(peers))
    from scipy.special import stdtrit  # here: it takes half a second to load, and few ask for a comparison

    spread = max(scale_of_differences(np.asarray(peers, np.float64)), floor)
    if spread <= 0 or abs(value - middle) < EFFECT_MIN * max(abs(value), abs(middle)):
        return None
    sigmas = (value - middle) / spread
    # Peers of two kinds have a middle that half of them are far from: who is like some of them does not stand out.
    halfway = (value + middle) / 2
    if sum((peer > halfway) == (value > halfway) for peer in peers) > ALIKE_MAX * len(peers):
        return None
    # Few peers: their spread is itself not well known. Half of the degrees of freedom is what simulation asks for.
    limit = -float(stdtrit(max(1.0, 0.5 * (len(peers) - 1)), FALSE_ALARM / (2 * max(tests, 1))))
    return (sigmas, middle) if abs(sigmas) >= limit else None
