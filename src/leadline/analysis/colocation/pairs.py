"""How likely two clocks are one oscillator: the likelihood of their difference, as noise against as two oscillators.

    same       every mode of the difference is noise of both, perhaps more than was thought
    different  their rates lie apart as those of any two hosts, and each wanders by itself, perhaps less than most

Sums over "perhaps" make both heavy-tailed, so neither a quiet oscillator nor a noise that was measured too small
decides alone. Rates are compared with how dense rates lie around: where a crowd has one rate, it tells nothing.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import logsumexp

from leadline.analysis.colocation.modes import Basis, Energies
from leadline.analysis.columns import Bools, Floats, Ints

MODES_MAX = 32  # slower ones; faster ones are noise
RATE_APART_PPB = 20.0  # hosts whose rates differ by more are not compared
RATE_TIMES = 8.0  # nor those that differ by more than so many standard deviations
NEIGHBOURS_MAX = 64  # of one host, in order of rate
RATES_PPB = 40_000.0  # width over which free oscillators lie, of which nothing else is known: +-20 ppm
MORE_NOISE = (np.array([1.0, 2.0, 4.0, 8.0]), np.log(np.array([0.8, 0.14, 0.05, 0.01])))
WANDERS = (np.array([1e-3, 1e-2, 0.1, 1.0, 10.0]), np.log(np.array([0.001, 0.02, 0.179, 0.5, 0.3])))
"""Variances of wander, in those of most hosts: 2 % wander ten times less than most, 0.1 % thirty times."""


@dataclass(frozen=True, slots=True)
class Pairs:
    """Pairs of hosts with what speaks for one oscillator. Arrays over P."""

    a_P: Ints
    b_P: Ints
    odds_P: Floats  # log odds that they are one
    apart_P: Floats  # difference of their rates, ppb
    spread_P: Floats  # mean square of their difference about its mean, in that of its noise
    crowded_H: Bools  # more neighbours than are compared


def candidates(rate_H: Floats, sd_H: Floats) -> tuple[Ints, Ints, Bools]:
    """Pairs of hosts whose rates (ppb) agree, and hosts that have more neighbours than are compared.

    O(V log V): in order of rate, each host with the next ones.
    """
    order = np.argsort(rate_H, kind="stable")
    rate, sd = rate_H[order], sd_H[order]
    crowded_H = np.zeros(len(rate_H), bool)
    found: list[tuple[Ints, Ints]] = []
    for shift in range(1, min(NEIGHBOURS_MAX, len(rate) - 1) + 1):
        near = np.flatnonzero(rate[shift:] - rate[:-shift] <= np.minimum(RATE_APART_PPB, RATE_TIMES * np.hypot(
            sd[shift:], sd[:-shift])))  # fmt: skip
        if not len(near) and shift > 8:
            break
        found.append((order[near], order[near + shift]))
        if shift == NEIGHBOURS_MAX:
            crowded_H[order[near]] = crowded_H[order[near + shift]] = True
    if not found:
        return np.zeros(0, np.int64), np.zeros(0, np.int64), crowded_H
    a, b = (np.concatenate(each) for each in zip(*found, strict=True))
    return np.minimum(a, b), np.maximum(a, b), crowded_H


def rates(told: Energies) -> tuple[Floats, Floats]:
    """Rate of each host and its standard deviation, ppb (ns/s)."""
    at = told.basis
    return told.mode_HM[:, 0] * at.rate, np.sqrt(told.noise_H * at.noise_M[0]) * at.rate


def log_odds(told: Energies, a_P: Ints, b_P: Ints, dense_P: Floats, prior: float) -> tuple[Floats, Floats]:
    """Log odds that the hosts of each pair are one oscillator, and the spread of their difference in that of noise.

    `dense_P`: how dense other hosts' rates lie around them, per ppb. `prior`: log odds of any pair.
    """
    count = min(MODES_MAX, told.mode_HM.shape[1])
    square_PM = (told.mode_HM[a_P, :count] - told.mode_HM[b_P, :count]) ** 2
    noise_P = told.noise_H[a_P] + told.noise_H[b_P]
    found = prior + _gain(square_PM, noise_P, dense_P, told.wander, told.basis)
    whole_P = ((told.mode_HM[a_P] - told.mode_HM[b_P]) ** 2).sum(axis=1)
    spread_P: Floats = whole_P / (noise_P * told.basis.noise_M.sum())
    return found, spread_P


def best_odds(told: Energies, dense_H: Floats, prior: float) -> Floats:
    """Log odds that each host would reach with a twin whose difference is noise, no more and no less, (H,)."""
    count = min(MODES_MAX, told.mode_HM.shape[1])
    noise_H = 2 * told.noise_H
    square_HM = noise_H[:, None] * told.basis.noise_M[None, :count]
    found: Floats = prior + _gain(square_HM, noise_H, dense_H, told.wander, told.basis)
    return found


def _gain(square_PM: Floats, noise_P: Floats, dense_P: Floats, wander: float, at: Basis) -> Floats:
    count = square_PM.shape[1]
    noise_PM = noise_P[:, None] * at.noise_M[None, :count]
    same_PC = np.stack([_log_normal(square_PM, noise_PM * more).sum(axis=1) for more in MORE_NOISE[0].tolist()], axis=1)
    same_P = logsumexp(same_PC + MORE_NOISE[1], axis=1)
    walks_M = 2 * wander * at.wander_M[1:count]
    other_PG = np.stack(
        [_log_normal(square_PM[:, 1:], noise_PM[:, 1:] + share * walks_M).sum(axis=1) for share in WANDERS[0].tolist()],
        axis=1,
    )
    # Where the rate of another host lies: as dense as rates lie there, per unit of mode 0.
    other_P = logsumexp(other_PG + WANDERS[1], axis=1) + np.log(dense_P * at.rate)
    found: Floats = same_P - other_P
    return found


def _log_normal(square: Floats, variance: Floats) -> Floats:
    found: Floats = -0.5 * (square / variance + np.log(2 * np.pi * variance))
    return found
