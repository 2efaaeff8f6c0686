"""Arithmetic of failures: mean time to failure with its interval, first failure of a fleet, shape, expected ETTR.

Sources: Meeker and Escobar, "Statistical Methods for Reliability Data" (1998), chapters 7 and 8, for the chi-square
limits and the Weibull likelihood; Kokolis et al., "Revisiting Reliability in Large-Scale Machine Learning Research
Clusters" (HPCA'25) for ETTR and the series model; Young (1974) and Daly (2006) for the interval of checkpoints.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

CONFIDENCE = 0.95
GAPS_MIN = 30  # fewer do not tell a shape: its standard error is about 0.78 k / sqrt(gaps), 14 % at 30


@dataclass(frozen=True, slots=True)
class Mttf:
    """Mean time to failure, hours. `mean_h` and `high_h` are None where no failure was seen; `low_h` is then the
    one-sided limit: above it with 95 % confidence. All are None where no time was observed."""

    failures: int
    hours: float
    mean_h: float | None
    low_h: float | None
    high_h: float | None


def mttf(failures: int, hours: float) -> Mttf:
    """Mean time to failure of what was watched for `hours` in all, with its 95 % interval.

    Limits: 2 T / chi2(0.975; 2 n + 2) and 2 T / chi2(0.025; 2 n), for a span of time that ends without regard to
    failures and a constant hazard; without one, 2 T / chi2(0.95; 2) = T / 3.0.
    Errors: ValueError for a negative number or time.
    """
    if failures < 0 or hours < 0:
        raise ValueError(f"failures and hours must be >= 0, got {failures} and {hours}")
    if hours == 0:
        return Mttf(failures, hours, None, None, None)
    if failures == 0:
        return Mttf(0, hours, None, float(2 * hours / _chi2(CONFIDENCE, 2)), None)
    tail = (1 - CONFIDENCE) / 2
    low_h = float(2 * hours / _chi2(1 - tail, 2 * failures + 2))
    return Mttf(failures, hours, hours / failures, low_h, float(2 * hours / _chi2(tail, 2 * failures)))


def _chi2(share: float, freedom: float) -> float:
    """Quantile of the chi-square distribution."""
    from scipy.special import gammaincinv  # here: it takes long to load, and most servers never ask

    return float(2 * gammaincinv(freedom / 2, share))


def first_failure_h(part_mttf_h: float, parts: float, shape: float = 1.0) -> float:
    """Mean time to the first failure among `parts` new and equal parts, hours: MTTF N^(-1/k).

    1 / (N r) for shape 1, the constant hazard. The shape is that of the lives of parts: with 0.7 the first of many
    comes much sooner than with 1, with 1.5 much later, for the same mean.
    Errors: ValueError unless all are > 0.
    """
    if not (part_mttf_h > 0 and parts > 0 and shape > 0):
        raise ValueError(f"MTTF, parts and shape must be > 0, got {part_mttf_h}, {parts}, {shape}")
    return float(part_mttf_h * parts ** (-1 / shape))


def weibull_shape(gaps_s: Sequence[float]) -> float | None:
    """Shape k of a Weibull distribution of gaps, by maximum likelihood; None for fewer than GAPS_MIN positive gaps.

    Below 1: a failure is more likely soon after another, and the hazard falls with time. Gaps of 0 are left out, as the
    likelihood has no place for them. Accuracy: standard error about 0.78 k / sqrt(n).
    """
    gaps_N = np.array([gap for gap in gaps_s if gap > 0], float)
    if len(gaps_N) < GAPS_MIN:
        return None
    log_N = np.log(gaps_N / gaps_N.max())
    if np.ptp(log_N) < 1e-9:
        return None  # all alike: the likelihood grows with k without end

    from scipy.optimize import brentq  # as above

    def slope(k: float) -> float:
        power_N = np.exp(k * log_N)
        return float((power_N @ log_N) / power_N.sum() - 1 / k - log_N.mean())

    low, high = 1e-3, 1.0
    while slope(high) < 0 and high < 1e6:
        high *= 2
    return float(brentq(slope, low, high)) if slope(low) < 0 < slope(high) else None


def expected_ettr(rate_per_h: float, interval_h: float, write_h: float, restart_h: float) -> float:
    """ETTR to expect, first order: D / (D + w) (1 - L (R + (D + w) / 2)), not below 0.

    L failures an hour, D hours of work between checkpoints, w to write one (the job waits), R until the job runs again.
    Good while L (R + D) is small. Errors: ValueError for a negative number or D = 0.
    """
    if min(rate_per_h, write_h, restart_h) < 0 or interval_h <= 0:
        raise ValueError(f"expected D > 0 and others >= 0, got {rate_per_h}, {interval_h}, {write_h}, {restart_h}")
    whole_h = interval_h + write_h
    return max(0.0, interval_h / whole_h * (1 - rate_per_h * (restart_h + whole_h / 2)))


def best_interval_h(write_h: float, mttf_h: float) -> float:
    """Hours between checkpoints that cost least: Daly's higher-order estimate; MTTF where writing takes too long."""
    if write_h >= 2 * mttf_h:
        return mttf_h
    part = write_h / (2 * mttf_h)
    return math.sqrt(2 * write_h * mttf_h) * (1 + math.sqrt(part) / 3 + part / 9) - write_h
