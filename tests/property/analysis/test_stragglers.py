"""Laws of stragglers: order, numbering and units do not matter, and what slows everybody names nobody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.analysis.columns import Floats, Ints
from leadline.analysis.ledger.onset.onset import Found, stragglers

seeds = st.integers(0, 2**32 - 1)


def a_run(seed: int) -> tuple[Ints, Ints, Floats]:
    """6 workers, 80 iterations, one of them slow for a while."""
    rng = np.random.default_rng(seed)
    log_WT = 0.03 * rng.normal(size=(6, 80))
    begin, length = rng.integers(0, 60), rng.integers(5, 60)
    log_WT[rng.integers(6), begin : begin + length] += rng.uniform(0.1, 1.0)
    worker_N, iteration_N = (each.ravel() for each in np.mgrid[:6, 1:81])
    return worker_N, iteration_N, np.exp(log_WT).ravel()


@given(seeds, seeds)
@settings(max_examples=20, deadline=None)
def test_the_order_of_rows_does_not_matter(seed: int, order: int) -> None:
    rows = a_run(seed)
    shuffled = np.random.default_rng(order).permutation(len(rows[0]))
    assert stragglers(*rows) == stragglers(*(column[shuffled] for column in rows))


@given(seeds, st.integers(-1000, 1000), st.integers(-1000, 1000))
@settings(max_examples=15, deadline=None)
def test_other_numbers_are_other_numbers(seed: int, workers: int, iterations: int) -> None:
    worker_N, iteration_N, time_N = a_run(seed)
    moved = tuple(
        replace(
            each,
            worker=each.worker + workers,
            since=each.since + iterations,
            until=None if each.until is None else each.until + iterations,
        )
        for each in stragglers(worker_N, iteration_N, time_N).stragglers
    )
    assert stragglers(worker_N + workers, iteration_N + iterations, time_N) == Found(moved)


@given(seeds, seeds)
@settings(max_examples=15, deadline=None)
def test_what_slows_all_workers_alike_changes_nobody(seed: int, more: int) -> None:
    worker_N, iteration_N, time_N = a_run(seed)
    factor_T = np.exp(np.random.default_rng(more).uniform(-1, 2, size=80))
    before = stragglers(worker_N, iteration_N, time_N).stragglers
    after = stragglers(worker_N, iteration_N, time_N * factor_T[iteration_N - 1]).stragglers
    assert {(each.worker, each.since, each.until) for each in before} == {
        (each.worker, each.since, each.until) for each in after
    }


@given(
    st.lists(
        st.tuples(st.integers(0, 4), st.integers(0, 40), st.floats(allow_nan=True, allow_infinity=True)), max_size=300
    )
)
@settings(max_examples=40, deadline=None)
def test_anything_is_judged_or_told_to_be_too_little(rows: list[tuple[int, int, float]]) -> None:
    columns = [np.array(column) for column in zip(*rows, strict=True)] or [np.zeros(0)] * 3
    found = stragglers(*columns)
    for each in found.stragglers:
        assert np.isfinite([each.slowdown, each.sigmas, each.lost]).all()
        assert each.until is None or each.since <= each.until
