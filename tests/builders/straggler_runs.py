"""Runs of workers with and without a straggler, for the tests of `onset`."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from leadline.analysis.ledger.onset.onset import Found, stragglers

Matrix = NDArray[np.float64]
Noise = Callable[[np.random.Generator, int, int], Matrix]


def white(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    return 0.03 * rng.normal(size=(workers, iterations))


def heavy(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    return 0.02 * rng.standard_t(2.5, size=(workers, iterations))


def hanging_together(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    """AR(1) with 0.8: spells of some iterations are ordinary."""
    found = np.zeros((workers, iterations))
    fresh = 0.02 * rng.normal(size=(workers, iterations))
    for at in range(1, iterations):
        found[:, at] = 0.8 * found[:, at - 1] + fresh[:, at]
    return found


def spiky(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    """One iteration in 33 of each worker takes up to several times as long."""
    spikes = np.where(rng.random((workers, iterations)) < 0.03, rng.exponential(1, size=(workers, iterations)), 0)
    return np.asarray(0.02 * rng.normal(size=(workers, iterations)) + spikes)


def uneven(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    """Workers that differ: in level, and up to tenfold in noise."""
    noise = 0.03 * rng.normal(size=(workers, iterations)) * rng.uniform(0.3, 3, size=(workers, 1))
    return np.asarray(noise + 0.03 * rng.normal(size=(workers, 1)))


def all_slower(rng: np.random.Generator, workers: int, iterations: int) -> Matrix:
    """From the middle on every worker takes a third longer: nobody is a straggler."""
    return white(rng, workers, iterations) + np.where(np.arange(iterations) > iterations // 2, 0.3, 0)


SHAPES: tuple[Noise, ...] = (white, heavy, hanging_together, spiky, uneven, all_slower)


def judged(log_WT: Matrix) -> Found:
    """What is told of times whose logarithms these are; workers from 0, iterations from 1; NaN is missing."""
    worker_WT, iteration_WT = np.mgrid[: log_WT.shape[0], 1 : log_WT.shape[1] + 1]
    return stragglers(worker_WT.ravel(), iteration_WT.ravel(), 100 * np.exp(log_WT).ravel())
