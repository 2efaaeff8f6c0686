"""Limits of a sum of weighted Poisson counts: how wrong an estimate from few samples may be.

95 % of what is told holds the truth, also for one sample; docs/analyses/flow-volume.md compares the ways to do it.
"""

from __future__ import annotations

from functools import cache

import numpy as np

from leadline.analysis.columns import Floats

TAIL = 0.025  # on each side
_FEW = 20  # from this count on, never having been seen at all is too unlikely to matter (exp(-10))
_STEPS = 64  # of the table for each whole count


def limits(sum_P: Floats, variance_P: Floats, weight_max_P: Floats) -> tuple[Floats, Floats]:
    """95 % limits of the mean of a sum of weights, one for each of a Poisson number of things.

    Inputs: the sum that was seen, the sum of squared weights (the estimate of its variance), and the largest weight
    that one thing more could have had; all (P,), at least 0.
    Returns: (low, high), low <= sum <= high. Variance 0 with a sum: nothing was left to chance, low is the sum.
    Accuracy: at least 95 % for any weights up to the largest. Equal weights give Garwood's exact limits; the lower one
    is conditioned on something having been seen, since otherwise nothing is told: so it falls to 0 for one thing.
    Source: Garwood 1936, Biometrika 28; Fay and Feuer 1997, Statistics in Medicine 16, eq. 5 to 7 (gamma intervals);
    the condition: the zero-truncated Poisson distribution (our addition).
    """
    chance_P = (variance_P > 0) & (sum_P > 0)
    scale_P = np.where(chance_P, variance_P / np.where(chance_P, sum_P, 1.0), 0.0)
    count_P = np.where(chance_P, sum_P / np.where(chance_P, scale_P, 1.0), 1.0)
    low_P = np.where(chance_P, np.minimum(scale_P * _low(count_P), sum_P), sum_P)
    sum_more_P, variance_more_P = sum_P + weight_max_P, variance_P + weight_max_P**2
    there_P = variance_more_P > 0
    scale_P = np.where(there_P, variance_more_P / np.where(there_P, sum_more_P, 1.0), 0.0)
    count_P = np.where(there_P, sum_more_P / np.where(there_P, scale_P, 1.0), 1.0)
    high_P = np.where(there_P, np.maximum(scale_P * _mean(count_P, 1 - TAIL), sum_P), sum_P)
    return low_P, high_P


def _low(count_P: Floats) -> Floats:
    """Smallest mean at which so many things or more are seen with 2.5 %, given that any are."""
    counts, means = _few()
    few_P = count_P < counts[-1]
    found = np.empty(len(count_P))
    found[few_P] = np.interp(count_P[few_P], counts, means)
    found[~few_P] = _mean(count_P[~few_P], TAIL)
    return found


def _mean(count_P: Floats, share: Floats | float) -> Floats:
    """Mean at which so many things or more are seen with the probability `share` (quantile of a gamma distribution)."""
    from scipy.special import gammaincinv  # here: it takes half a second to load, which a server need not wait for

    mean_P: Floats = gammaincinv(count_P, share)
    return mean_P


@cache
def _few() -> tuple[Floats, Floats]:
    """Counts and their lowest means; between whole counts by the gamma distribution."""
    counts = np.arange(1.0, _FEW + 1 / _STEPS, 1 / _STEPS)
    means = _mean(counts, TAIL)
    for _ in range(200):  # P(count or more) = TAIL P(any): each step comes closer by half at the least
        means = _mean(counts, TAIL * -np.expm1(-means))
    means[0] = 0.0
    return counts, means
