"""Stragglers since an iteration: found where they are, and not where only noise is."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest
from tests.builders.straggler_runs import SHAPES, Noise, judged, uneven, white

from leadline.analysis.ledger.onset.onset import medians_of_others, scale_of_differences, stragglers

GOLDEN = Path(__file__).resolve().parents[3] / "golden" / "alibaba_minibatch" / "job_1_norm.csv"
JOBS = 34  # of each shape: 204 in all


@pytest.mark.parametrize("shape", SHAPES, ids=lambda shape: shape.__name__)
def test_at_most_one_job_of_a_shape_without_a_straggler_has_one(shape: Noise) -> None:
    alarms = [seed for seed in range(JOBS) if judged(shape(np.random.default_rng([seed, 1]), 8, 160)).stragglers]
    assert len(alarms) <= (1 if shape.__name__ == "hanging_together" else 0), alarms


@pytest.mark.parametrize("slowdown", [0.15, 0.2, 0.5, 3.0])
def test_a_worker_that_becomes_slow_is_named_with_its_iteration(slowdown: float) -> None:
    off = []
    for seed in range(8):
        rng = np.random.default_rng([seed, 2])
        log_WT, at = uneven(rng, 8, 200) * 0.5, int(rng.integers(40, 160))
        log_WT[3, at:] += np.log1p(slowdown)
        first = judged(log_WT).stragglers[0]
        assert (first.worker, first.from_start, first.until) == (3, False, None)
        off.append(abs(first.since - (at + 1)))
    assert np.median(off) <= 2


def test_it_takes_a_dozen_iterations_until_a_fifth_more_is_told() -> None:
    delays = []
    for seed in range(6):
        log_WT = white(np.random.default_rng([seed, 3]), 8, 160)
        log_WT[2, 100:] += np.log(1.2)
        told = (seen for seen in range(102, 160, 2) if judged(log_WT[:, :seen]).stragglers)
        delays.append(next(told) - 100)
    assert max(delays) <= 16, delays


def test_a_spell_ends() -> None:
    log_WT = white(np.random.default_rng(4), 8, 200)
    log_WT[5, 80:120] += 0.4
    (only,) = judged(log_WT).stragglers
    assert (only.worker, only.since, only.until, only.from_start) == (5, 81, 120, False)
    assert only.slowdown == pytest.approx(np.expm1(0.4), rel=0.05)
    assert only.lost == pytest.approx(40 * 100 * np.expm1(0.4), rel=0.1)


def test_slow_from_the_first_iteration_is_no_onset() -> None:
    log_WT = white(np.random.default_rng(5), 8, 200)
    log_WT[1] += 0.3
    (only,) = judged(log_WT).stragglers
    assert (only.worker, only.since, only.until, only.from_start) == (1, 1, None, True)


def test_a_worker_that_is_slow_for_most_of_the_run_still_has_its_onset() -> None:
    log_WT = white(np.random.default_rng(6), 8, 200)
    log_WT[1, 50:] += 0.4
    (only,) = judged(log_WT).stragglers
    assert (only.worker, only.since, only.from_start) == (1, 51, False)


def test_several_stragglers_are_several() -> None:
    log_WT = white(np.random.default_rng(7), 10, 200)
    log_WT[2, 100:] += 0.2
    log_WT[6, 150:] += 0.3
    log_WT[9, 60:90] += 0.5
    found = judged(log_WT).stragglers
    assert {(each.worker, each.since) for each in found} == {(2, 101), (6, 151), (9, 61)}


def test_missing_iterations_and_doubled_rows_change_nothing_much() -> None:
    rng = np.random.default_rng(8)
    log_WT = white(rng, 8, 300)
    log_WT[4, 150:] += 0.3
    log_WT[rng.random(log_WT.shape) < 0.3] = np.nan
    log_WT[7, :100] = np.nan  # it joined late
    first = judged(log_WT).stragglers[0]
    assert first.worker == 4
    assert abs(first.since - 151) <= 4


def test_a_long_run_is_taken_in_blocks_and_the_iteration_is_found_again() -> None:
    log_WT = white(np.random.default_rng(9), 6, 4000)
    log_WT[2, 2345:] += 0.2
    (only,) = judged(log_WT).stragglers
    assert only.worker == 2
    assert abs(only.since - 2346) <= 2


@pytest.mark.parametrize(
    ("workers", "iterations", "missing"),
    [(2, 100, "3 workers (there are 2)"), (8, 10, "20 iterations (there are 10)"), (0, 0, "3 workers (there are 0)")],
)
def test_too_little_is_said(workers: int, iterations: int, missing: str) -> None:
    found = judged(np.zeros((workers, iterations)))
    assert (found.stragglers, found.missing) == ((), missing)


def test_nonsense_is_left_out() -> None:
    log_WT = white(np.random.default_rng(10), 8, 100)
    worker_N, iteration_N = (each.ravel() for each in np.mgrid[:8, :100])
    time_N = np.exp(log_WT).ravel()
    time_N[::7], time_N[1::11], time_N[2::13] = np.nan, -1.0, np.inf
    assert stragglers(worker_N, iteration_N, time_N).stragglers == ()


def test_columns_of_different_length_are_a_mistake() -> None:
    with pytest.raises(ValueError, match="one worker, iteration and time per row"):
        stragglers([1, 2], [1], [1.0])


def test_the_real_straggler_of_a_real_job_is_named() -> None:
    with GOLDEN.open(newline="") as file:
        rows = [(int(row["worker"]), int(row["time"]), float(row["batch_time_norm"])) for row in csv.DictReader(file)]
    found = stragglers(*(list(column) for column in zip(*rows, strict=True)))
    (only,) = [each for each in found.stragglers if not each.from_start]
    assert (only.worker, only.since, only.until) == (6, 1811, 1941)


def test_medians_of_others_are_those_without_each() -> None:
    value_WT = np.random.default_rng(11).normal(size=(7, 9))
    value_WT[2, 3] = value_WT[5, 3] = value_WT[:6, 4] = np.nan
    found = medians_of_others(value_WT)
    for at in range(9):
        for row in range(7):
            others = np.delete(value_WT[:, at], row)
            others = others[np.isfinite(others)]
            expected = np.median(others) if len(others) and np.isfinite(value_WT[row, at]) else np.nan
            np.testing.assert_allclose(found[row, at], expected)


def test_the_scale_of_differences_is_a_standard_deviation_and_bears_outliers() -> None:
    values = np.random.default_rng(12).normal(scale=2.0, size=400)
    assert scale_of_differences(values) == pytest.approx(2.0, rel=0.1)
    values[:120] = 1e6
    assert scale_of_differences(values) < 5
