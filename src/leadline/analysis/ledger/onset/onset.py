"""Stragglers among the workers of a synchronous job, and since which iteration each is one.

    log time = the job's (median of workers) + the worker's own level + what is left
                                                                         |
                   change points of what is left  -->  slow spells  -->  checked against peers and own past

A worker that is slower than its peers during the whole run has no onset: it is told as slow since the first iteration.
"""

from __future__ import annotations

import itertools
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from leadline.analysis.columns import Bools, Floats, Ints
from leadline.analysis.ledger.onset.changes import Matrix, block_medians, medians, segments
from leadline.analysis.robust import MAD_TO_SIGMA

WORKERS_MIN = 3  # workers at least, because of two that differ nobody can say which one changed. Source: definition.
# iterations at least: three spells of the shortest length (LENGTH_MIN), and two to spare. Source: judgement.
ITERATIONS_MIN = 20
# Share slower than peers, and than before, at least; less is not worth anybody's morning, and clocks of healthy GPUs
# differ by some percent. Source: judgement.
EFFECT_MIN = 0.05
# values of a spell that lasts: shorter ones are hiccups, and their median rests on three values. Source: judgement.
LENGTH_MIN = 6
# Long-run variances per log(T) that a change must explain: 2 is the textbook's for known variance (Yao 1988), twice
# that is what kept false alarms rare where noise hangs together. Source: measured: docs/analyses/onset.md.
PENALTY = 4.0
# Workers of which one can stand out from what the others differ by, because two or three have no usual difference.
# Source: judgement.
LEVELS_MIN = 5
# Standard deviations of how far spells of that length wander in this job, raised from 4 for random walks;
# docs/analyses/onset.md has the false alarms. Source: measured: docs/analyses/onset.md.
WANDER_SIGMAS = 6.0
# Probability that of a job whose workers differ normally one is told as slow from the start: one job in 200. Source:
# judgement.
FALSE_ALARM = 0.005
# Share of a spell's values that must lie above usual by the least effect, or by half of the spell's rise, because a few
# large values alone are no spell. Source: judgement.
HELD_SHARE = 0.75


@dataclass(frozen=True, slots=True)
class Straggler:
    """One slow spell of one worker.

    `since`: first iteration of the spell; `until`: last one, None if it lasted to the end. `slowdown`: its time over
    that expected of it, less 1. `from_start`: slow when the run began, so `since` is no onset. `sigmas`: the rise
    against what is usual in this job. `lost`: sum of what its iterations took beyond the expected, in units of time.
    """

    worker: int
    since: int
    until: int | None
    slowdown: float
    from_start: bool
    sigmas: float
    lost: float


@dataclass(frozen=True, slots=True)
class Found:
    """Stragglers: those that began within the run first, then by what they lost. `missing`: why none can be named."""

    stragglers: tuple[Straggler, ...]
    missing: str = ""


@dataclass(frozen=True, slots=True)
class _Run:
    """A run as a matrix, W workers by T iterations, NaN where one is missing."""

    worker_W: Ints
    iteration_T: Ints
    log_WT: Matrix  # log of the times
    left_WT: Matrix  # of it, what neither the job's iteration nor the worker's own level explains
    relative_WT: Matrix  # log of the times over the peers' median


def stragglers(
    worker_N: ArrayLike, iteration_N: ArrayLike, time_N: ArrayLike, *, effect_min: float = EFFECT_MIN
) -> Found:
    """Which workers are slower than their peers, since when and until when.

    Inputs: arrays (N,), one row for each worker and iteration: numbers of both (integers), and the time it took (any
    unit, > 0). Rows in any order; what is missing, not finite or not positive is left out; of an iteration that is
    told twice the mean counts. The times must be the workers' own, not those after a barrier, which are all alike.
    Returns: `Found`; with `missing` set where the rows do not suffice.
    Accuracy: docs/analyses/onset.md.
    Errors: ValueError if shapes differ.
    Source: Greyhound (USENIX ATC 2025), sections 4.1 and 4.2: change points of iteration times, each verified before
    it is told. Departures: peers instead of the job's own past tell what is expected, so that what slows all workers
    is no straggler; optimal partitioning (`changes`) instead of Bayesian online detection, because its one penalty can
    be held against noise; verification by what this job's workers do anyway.
    """
    found = _run(np.asarray(worker_N), np.asarray(iteration_N), np.asarray(time_N, np.float64))
    if isinstance(found, str):
        return Found((), found)
    spells: list[Straggler] = []
    slow_WT = np.zeros(found.left_WT.shape, bool)
    for row, places in enumerate(segments(found.left_WT, length_min=LENGTH_MIN, penalty=PENALTY)):
        for spell, columns in _spells(found, row, places, effect_min):
            spells.append(spell)
            slow_WT[row, columns] = True
    spells += _slow_from_start(found, slow_WT, effect_min)
    return Found(tuple(sorted(spells, key=lambda each: (each.from_start, -each.lost, each.worker, each.since))))


def _run(worker_N: NDArray[np.generic], iteration_N: NDArray[np.generic], time_N: Floats) -> _Run | str:
    """The run as a matrix, or what is missing. Errors: ValueError."""
    if not worker_N.shape == iteration_N.shape == time_N.shape or time_N.ndim != 1:
        raise ValueError(
            f"one worker, iteration and time per row; got {worker_N.shape, iteration_N.shape, time_N.shape}"
        )
    usable = np.isfinite(time_N) & (time_N > 0)
    worker_W, row_N = np.unique(worker_N[usable].astype(np.int64), return_inverse=True)
    iteration_T, column_N = np.unique(iteration_N[usable].astype(np.int64), return_inverse=True)
    if len(worker_W) < WORKERS_MIN:
        return f"{WORKERS_MIN} workers (there are {len(worker_W)})"
    if len(iteration_T) < ITERATIONS_MIN:
        return f"{ITERATIONS_MIN} iterations (there are {len(iteration_T)})"
    log_WT = _matrix(row_N, column_N, np.log(time_N[usable]), (len(worker_W), len(iteration_T)))
    own_W = medians(log_WT - medians(log_WT, 0), 1)
    common_T = medians(log_WT - own_W[:, None], 0)
    left_WT = log_WT - own_W[:, None] - common_T
    return _Run(worker_W, iteration_T, log_WT, left_WT, log_WT - medians_of_others(log_WT))


def _matrix(row_N: Ints, column_N: Ints, value_N: Floats, shape: tuple[int, int]) -> Matrix:
    place_N = row_N * shape[1] + column_N
    order_N = np.lexsort((value_N, place_N))  # one order of summation, whatever that of the rows
    count = np.bincount(place_N, minlength=shape[0] * shape[1])
    total = np.bincount(place_N[order_N], value_N[order_N], shape[0] * shape[1])
    mean = np.divide(total, count, out=np.full(shape[0] * shape[1], np.nan), where=count > 0)
    return np.asarray(mean.reshape(shape))


def medians_of_others(value_WT: Matrix) -> Matrix:
    """For each value the median of the others of its column; NaN do not count, and have NaN."""
    count_T = np.isfinite(value_WT).sum(axis=0)
    order_WT = np.argsort(value_WT, axis=0)  # NaN last
    sorted_WT = np.take_along_axis(value_WT, order_WT, axis=0)
    rank_WT = np.argsort(order_WT, axis=0)
    rest_T = count_T - 1
    low_T, high_T = (rest_T - 1) // 2, rest_T // 2
    # Without the value of rank r, whatever ranks at or above it moves down by one.
    low_WT, high_WT = (np.clip(place_T + (place_T >= rank_WT), 0, len(value_WT) - 1) for place_T in (low_T, high_T))
    middle = (np.take_along_axis(sorted_WT, low_WT, axis=0) + np.take_along_axis(sorted_WT, high_WT, axis=0)) / 2
    return np.where(np.isfinite(value_WT) & (count_T >= 2), middle, np.nan)


# --- slow from the start ---


def _slow_from_start(run: _Run, slow_WT: Bools, effect_min: float) -> list[Straggler]:
    """Workers that stand out, outside of their slow spells, from what workers of this job differ by."""
    level_W = np.nan_to_num(medians(np.where(slow_WT, np.nan, run.relative_WT), 1))
    if len(level_W) < LEVELS_MIN:
        return []
    from scipy.special import stdtrit  # here: it takes half a second to load, which a server need not wait for

    spread = max(scale_of_differences(level_W), 1e-9)
    # Qn of normal values scatters as a standard deviation of 0.8 of its degrees of freedom; one test for each worker.
    sigmas = -float(stdtrit(0.8 * (len(level_W) - 1), FALSE_ALARM / len(level_W)))  # of Student's t
    rows = np.flatnonzero((level_W >= np.log1p(effect_min)) & (level_W >= sigmas * spread))
    return [_constant(run, int(row), float(level_W[row]), float(level_W[row] / spread)) for row in rows]


def _constant(run: _Run, row: int, level: float, sigmas: float) -> Straggler:
    seen_T = np.isfinite(run.log_WT[row])
    lost = float(np.sum(np.exp(run.log_WT[row][seen_T])) * -np.expm1(-level))
    since = int(run.iteration_T[seen_T][0])
    return Straggler(int(run.worker_W[row]), since, None, float(np.expm1(level)), True, sigmas, lost)


def scale_of_differences(value_N: Floats) -> float:
    """How much values differ, as a standard deviation, up to half of them being anything: Qn.

    Source: Rousseeuw and Croux, Alternatives to the median absolute deviation, JASA 88 (1993), section 3; factors for
    small n from Croux and Rousseeuw, COMPSTAT 1992.
    """
    n = len(value_N)
    differences = np.abs(value_N[:, None] - value_N[None, :])[np.triu_indices(n, 1)]
    half = n // 2 + 1
    place = half * (half - 1) // 2 - 1
    small = {2: 0.399, 3: 0.994, 4: 0.512, 5: 0.844, 6: 0.611, 7: 0.857, 8: 0.669, 9: 0.872}
    factor = small.get(n, n / (n + 1.4) if n % 2 else n / (n + 3.8))
    return float(2.2219 * factor * np.partition(differences, place)[place])


# --- slow since an iteration within the run ---


def _spells(run: _Run, row: int, places: Ints, effect_min: float) -> list[tuple[Straggler, Ints]]:
    """The slow spells of one worker among its segments, with their columns; neighbouring ones are one."""
    columns = np.flatnonzero(np.isfinite(run.left_WT[row]))
    if not len(columns):
        return []
    bounds = [*np.searchsorted(columns, places).tolist(), len(columns)]
    parts = [columns[first:last] for first, last in itertools.pairwise(bounds) if last > first]
    is_slow, baseline = _slow_parts(run, row, parts, effect_min)
    found: list[tuple[Straggler, Ints]] = []
    place = 0
    while place < len(parts):
        last = place
        while is_slow[place] and last + 1 < len(parts) and is_slow[last + 1]:
            last += 1
        if is_slow[place]:
            ends = last == len(parts) - 1
            spell = np.concatenate(parts[place : last + 1])
            found.append((_spell(run, row, spell, baseline[place], place == 0, ends), spell))
        place = last + 1
    return found


def _slow_parts(run: _Run, row: int, parts: list[Ints], effect_min: float) -> tuple[list[bool], list[float]]:
    """Which segments are slow, and what was usual of the worker before each."""
    left_T = run.left_WT[row]
    if len(parts) < 2:
        return [False] * len(parts), [0.0] * len(parts)
    rest = np.concatenate(parts[1:])
    later = float(np.median(left_T[rest]))
    is_slow = [_is_slow(run, row, parts[0], rest, effect_min)]
    baseline = [later]
    healthy = [] if is_slow[0] else [parts[0]]
    for part in parts[1:]:
        known = np.concatenate(healthy) if healthy else rest
        baseline.append(float(np.median(left_T[known])))
        is_slow.append(_is_slow(run, row, part, known, effect_min))
        if not is_slow[-1]:
            healthy.append(part)
    return is_slow, baseline


def _is_slow(run: _Run, row: int, part: Ints, known: Ints, effect_min: float) -> bool:
    """Whether a segment is slower than its worker at the columns `known`, and than its peers, beyond what happens."""
    left = run.left_WT[row, part]
    baseline, effect = float(np.median(run.left_WT[row, known])), np.log1p(effect_min)
    rise = float(np.median(left)) - baseline
    if len(part) < LENGTH_MIN or rise < effect or float(np.median(run.relative_WT[row, part])) < effect:
        return False
    held = float(np.mean(left > baseline + min(rise / 2, effect)))
    # Both ends of a difference wander, and a short past does so the most.
    wander = np.hypot(_wander(run.left_WT, len(part)), _wander(run.left_WT, len(known)))
    return held >= HELD_SHARE and rise >= WANDER_SIGMAS * wander


def _wander(left_WT: Matrix, length: int) -> float:
    """How far spells of that length lie from the level of their worker, usually, as a standard deviation.

    Of the middle worker: a straggler's own spells do not count for more than one of many.
    """
    length = max(1, min(length, left_WT.shape[1] // 4))
    blocks = block_medians(left_WT, length)
    return float(medians(MAD_TO_SIGMA * medians(np.abs(blocks - medians(blocks, 1)[:, None]), 1), 0))


def _spell(run: _Run, row: int, part: Ints, baseline: float, from_start: bool, to_end: bool) -> Straggler:
    rise_T = run.left_WT[row, part] - baseline
    rise = float(np.median(rise_T))
    lost = float(np.sum(np.exp(run.log_WT[row, part]) * -np.expm1(-rise_T)))
    return Straggler(
        worker=int(run.worker_W[row]),
        since=int(run.iteration_T[part[0]]),
        until=None if to_end else int(run.iteration_T[part[-1]]),
        slowdown=float(np.expm1(rise)),
        from_start=from_start,
        sigmas=rise / max(_wander(run.left_WT, len(part)), 1e-9),
        lost=lost,
    )
