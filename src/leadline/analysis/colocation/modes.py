"""A clock's offsets taken apart: its rate, then how it wanders, slow bends first, then mere noise.

The basis diagonalises what an oscillator does by itself (a random walk of its frequency, integrated: offsets) once its
mean and line are taken off. So the energies of two clocks' difference are independent, and each mode says by itself how
unlikely it is that two oscillators agree in it. Slow modes carry wander, fast ones noise: what is measured in the fast
ones is known in the slow ones. Source: Karhunen-Loève expansion of the integrated random walk; clock model of Zucca
and Tavella, "The Clock Model and Its Relationship with the Allan and Related Variances" (IEEE UFFC 2005).
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from leadline.analysis.columns import Floats

BLOCKS_MIN = 10  # 20 s: a rate and some bends
CHI2_MIDDLE = 0.45494  # median of a squared normal deviate
WANDER_LEAST = 1e-3  # ns per s per root of s (1e-12): no oscillator is calmer
NOISE_LEAST_NS = 0.3  # of a block's mean: what is written is whole nanoseconds
NOISE_PRIOR = 20.0  # energies by which the noise of all counts in that of one host


@dataclass(frozen=True, slots=True)
class Basis:
    """Modes of n blocks. Arrays over M = n - 1 modes, slow first; mode 0 is the line."""

    shape_MB: Floats  # orthonormal, each without a mean
    wander_M: Floats  # energy of a walk of frequency of 1 ns/s per root of s; 0 for the line
    noise_M: Floats  # energy of white noise of 1 as it is seen through fits over a span
    rate: float  # ns/s per unit of mode 0


@dataclass(frozen=True, slots=True)
class Energies:
    """Clocks in modes. Arrays over H (hosts), M (modes)."""

    mode_HM: Floats
    noise_H: Floats  # variance of the noise of one block, ns**2
    wander: float  # of most hosts: ns/s per root of s, squared
    basis: Basis


@lru_cache(maxsize=64)
def basis(blocks: int, block_s: float, span_s: float) -> Basis:
    """Modes of so many blocks; offsets are fits over `span_s`, and blocks means of fits."""
    at = np.arange(blocks) * block_s
    early, late = np.minimum(at[:, None], at[None, :]), np.maximum(at[:, None], at[None, :])
    walk = early**2 * (3 * late - early) / 6  # covariance of an integrated random walk that begins at 0
    line = (at - at.mean()) / np.linalg.norm(at - at.mean())
    flat = np.full(blocks, blocks**-0.5)
    off = np.eye(blocks) - np.outer(line, line) - np.outer(flat, flat)
    wander, shape = np.linalg.eigh(off @ walk @ off)
    order = np.argsort(-wander)[: blocks - 2]
    shape_MB = np.vstack((line[None, :], shape[:, order].T))
    seen = _colour(blocks, block_s, span_s)
    noise_M = np.einsum("mb,bc,mc->m", shape_MB, seen, shape_MB)
    return Basis(
        shape_MB, np.r_[0.0, np.maximum(wander[order], 0.0)], noise_M, float(1.0 / np.linalg.norm(at - at.mean()))
    )


def _colour(blocks: int, block_s: float, span_s: float) -> Floats:
    """Covariance of means over blocks of white noise that is itself a mean over a span: slow modes are not lowered."""
    steps = 16
    block, span = np.ones(steps), np.ones(max(1, round(steps * span_s / block_s)))
    weight = np.convolve(block, span) / (len(block) * len(span))
    whole = np.correlate(weight, weight, "full") * steps
    middle = len(weight) - 1
    lag = np.zeros(blocks)
    for each in range(min(blocks, middle // steps + 1)):
        lag[each] = whole[middle + each * steps]
    places = np.arange(blocks)
    found: Floats = lag[np.abs(places[:, None] - places[None, :])]
    return found


def energies(offset_HB: Floats, block_s: float, span_s: float) -> Energies:
    """Modes of each clock, the noise of each, and how much clocks mostly wander.

    Noise: the energy of the faster half of the modes, each host's own drawn to that of all. Wander: by the slow modes
    in which most clocks have more than noise; where none has, the least.
    """
    found = basis(offset_HB.shape[1], block_s, span_s)
    # What all clocks do at once (cluster time that was anchored anew) is nobody's noise, and cancels between any two.
    mode_HM = (offset_HB - offset_HB.mean(axis=0, keepdims=True)) @ found.shape_MB.T
    fast = slice(found.shape_MB.shape[0] // 2, None)
    per_HM = mode_HM[:, fast] ** 2 / found.noise_M[fast]
    count = per_HM.shape[1]
    usual = max(float(np.median(per_HM)) / CHI2_MIDDLE, NOISE_LEAST_NS**2)
    noise_H = np.maximum((per_HM.sum(axis=1) + NOISE_PRIOR * usual) / (count + NOISE_PRIOR), NOISE_LEAST_NS**2)
    slow = slice(1, max(3, found.shape_MB.shape[0] // 2))
    most_M = np.median(mode_HM[:, slow] ** 2, axis=0) / CHI2_MIDDLE
    more_M = most_M - usual * found.noise_M[slow]
    clear_M = more_M > 2 * usual * found.noise_M[slow]
    first = int(np.argmin(clear_M)) if not clear_M.all() else len(clear_M)
    wander = float(np.median((more_M / found.wander_M[slow])[:first])) if first else 0.0
    return Energies(mode_HM, noise_H, max(wander, WANDER_LEAST**2), found)
