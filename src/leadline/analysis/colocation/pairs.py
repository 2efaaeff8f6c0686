"""How likely two clocks are one oscillator: what both wander alike, as one walk with noise against as two walks.

    same       one walk; what differs is noise of both, perhaps more than was thought
    different  two walks, each as large as its own clock shows; rates lie apart as those of any two hosts

How much an oscillator wanders is learnt from the clock itself, bend by bend: a quiet one that agrees with another quiet
one says little, two that go fifty times their noise and still agree say much. Heat moves the slowest bends by more than
a walk does, so their size is free of that of the others. Rates are compared with how dense rates lie around: where a
crowd has one rate, it tells nothing.
"""

from __future__ import annotations

import numpy as np

from leadline.analysis.colocation.modes import Energies
from leadline.analysis.columns import Bools, Floats, Ints

MODES_MAX = 32  # slower ones; faster ones are noise
RATE_APART_PPB = 20.0  # hosts whose rates differ by more are not compared
RATE_TIMES = 8.0  # nor those that differ by more than so many standard deviations
NEIGHBOURS_MAX = 64  # of one host, in order of rate
RATES_PPB = 40_000.0  # width over which free oscillators lie, of which nothing else is known: +-20 ppm
MORE_NOISE = (np.array([1.0, 2.0, 4.0, 8.0]), np.log(np.array([0.8, 0.14, 0.05, 0.01])))
SIZES = np.geomspace(1e-4, 1e4, 9)  # variances of an oscillator's walk, in those of most
SIZES_LOG = -0.25 * np.abs(np.log(SIZES))
SIZES_LOG -= np.logaddexp.reduce(SIZES_LOG)
ALONE = 2  # slowest bends whose size is each its own
PAIRS_AT_ONCE = 100_000


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


def log_odds(told: Energies, alone_H: Floats, a_P: Ints, b_P: Ints, dense_P: Floats, prior: float) -> Floats:
    """Log odds that the hosts of each pair are one oscillator, (P,).

    `alone_H`: as `alone` gives it. `dense_P`: how dense other hosts' rates lie around them, per ppb. `prior`: log odds
    of any pair.
    """
    found = np.zeros(len(a_P))
    for at in range(0, len(a_P), PAIRS_AT_ONCE):
        a, b = a_P[at : at + PAIRS_AT_ONCE], b_P[at : at + PAIRS_AT_ONCE]
        one, other = told.mode_HM[a, : _count(told)], told.mode_HM[b, : _count(told)]
        noise_a, noise_b = told.noise_H[a], told.noise_H[b]
        whole = noise_a + noise_b
        mean = (noise_b[:, None] * one + noise_a[:, None] * other) / whole[:, None]
        same = _noise(told, (one - other) ** 2, whole) + _walks(told, mean, noise_a * noise_b / whole)
        found[at : at + PAIRS_AT_ONCE] = same - alone_H[a] - alone_H[b]
    return prior + found - np.log(dense_P * told.basis.rate)


def alone(told: Energies) -> Floats:
    """Log likelihood of each clock by itself, (H,)."""
    return _walks(told, told.mode_HM[:, : _count(told)], told.noise_H)


def best_odds(told: Energies, alone_H: Floats, dense_H: Floats, prior: float) -> Floats:
    """Log odds that each host would reach with a twin whose difference is noise, no more and no less, (H,)."""
    mode_HM = told.mode_HM[:, : _count(told)]
    square_HM = 2 * told.noise_H[:, None] * told.basis.noise_M[None, : _count(told)]
    same_H = _noise(told, square_HM, 2 * told.noise_H) + _walks(told, mode_HM, told.noise_H / 2)
    found: Floats = prior + same_H - 2 * alone_H - np.log(dense_H * told.basis.rate)
    return found


def _count(told: Energies) -> int:
    return min(MODES_MAX, int(told.mode_HM.shape[1]))


def _noise(told: Energies, square_PM: Floats, noise_P: Floats) -> Floats:
    """Log likelihood of differences that are noise, the line's with them, (P,)."""
    from scipy.special import logsumexp  # here: it takes half a second to load, which a server need not wait for

    noise_PM = noise_P[:, None] * told.basis.noise_M[None, : square_PM.shape[1]]
    by_PC = [_log_normal(square_PM, noise_PM * more).sum(axis=1) for more in MORE_NOISE[0].tolist()]
    found: Floats = logsumexp(np.stack(by_PC, axis=1) + MORE_NOISE[1], axis=1)
    return found


def _walks(told: Energies, mode_PM: Floats, noise_P: Floats) -> Floats:
    """Log likelihood of bends as walks of any size and noise, without the line, (P,)."""
    from scipy.special import logsumexp  # as above

    square_PM = mode_PM[:, 1:] ** 2
    noise_PM = noise_P[:, None] * told.basis.noise_M[None, 1 : mode_PM.shape[1]]
    usual_M = told.wander * told.basis.wander_M[1 : mode_PM.shape[1]]
    by_size = [_log_normal(square_PM, noise_PM + size * usual_M) for size in SIZES.tolist()]
    found = np.zeros(len(mode_PM))
    for part in (*(slice(each, each + 1) for each in range(ALONE)), slice(ALONE, None)):
        found += logsumexp(np.stack([each[:, part].sum(axis=1) for each in by_size], axis=1) + SIZES_LOG, axis=1)
    return found


def _log_normal(square: Floats, variance: Floats) -> Floats:
    found: Floats = -0.5 * (square / variance + np.log(2 * np.pi * variance))
    return found
