"""The arithmetic of failures, against published figures and by its laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.views.ledger.reliability import best_interval_h, expected_ettr, first_failure_h, mttf, weibull_shape

YEAR_5_H = 5 * 365 * 24


def test_first_failure_of_100_000_parts_that_live_5_years() -> None:
    """The vendor's 26.28 min, and what it hides: 20.3 h and 0.19 min for the same mean with another shape."""
    assert first_failure_h(YEAR_5_H, 100_000) * 60 == pytest.approx(26.28)
    assert first_failure_h(YEAR_5_H, 100_000, 1.5) == pytest.approx(20.3, abs=0.05)
    assert first_failure_h(YEAR_5_H, 100_000, 0.7) * 60 == pytest.approx(0.19, abs=0.01)


@pytest.mark.parametrize(("gpus", "hours"), [(16_384, 1.80), (131_072, 0.225)])
def test_projections_of_a_published_rate(gpus: int, hours: float) -> None:
    """Kokolis et al.: 6.50 failures in 1000 node-days of 8 GPUs."""
    node_mttf_h = 24 * 1000 / 6.50
    assert first_failure_h(node_mttf_h, gpus / 8) == pytest.approx(hours, rel=0.005)


def test_llama_3_was_interrupted_every_three_hours() -> None:
    found = mttf(419, 54 * 24)
    assert found.mean_h == pytest.approx(3.09, abs=0.01)
    assert found.low_h == pytest.approx(2.81, abs=0.01)
    assert found.high_h == pytest.approx(3.41, abs=0.01)


def test_no_failure_gives_a_limit_and_no_mean() -> None:
    found = mttf(0, 300)
    assert (found.mean_h, found.high_h) == (None, None)
    assert found.low_h == pytest.approx(300 / -math.log(0.05))
    assert mttf(3, 0).low_h is None
    with pytest.raises(ValueError, match="must be >= 0"):
        mttf(-1, 5)


@given(st.integers(1, 400), st.floats(0.1, 1e6))
def test_the_interval_holds_the_mean_and_shrinks_with_failures(failures: int, hours: float) -> None:
    found, more = mttf(failures, hours), mttf(4 * failures, 4 * hours)
    assert found.low_h is not None
    assert found.mean_h is not None
    assert found.high_h is not None
    assert more.low_h is not None
    assert more.high_h is not None
    assert found.low_h < found.mean_h < found.high_h
    assert more.high_h / more.low_h < found.high_h / found.low_h


@pytest.mark.parametrize("shape", [0.6, 1.0, 1.8])
def test_the_shape_of_gaps_is_found(shape: float) -> None:
    gaps = np.random.default_rng(3).weibull(shape, 4000) * 3600
    assert weibull_shape(gaps.tolist()) == pytest.approx(shape, rel=0.04)  # three standard errors
    assert weibull_shape((gaps * 1e6).tolist()) == pytest.approx(weibull_shape(gaps.tolist()))


@pytest.mark.parametrize("gaps", [[], [5.0] * 29, [0.0] * 100, [7.0] * 100])
def test_too_few_gaps_or_all_alike_have_no_shape(gaps: list[float]) -> None:
    assert weibull_shape(gaps) is None


def test_expected_ettr_and_the_best_interval() -> None:
    """M = 1.8 h, w = 60 s: Daly's 842 s of the reference; losses on either side of it are larger."""
    best_h = best_interval_h(60 / 3600, 1.8)
    assert best_h * 3600 == pytest.approx(842, abs=1)
    at_best = expected_ettr(1 / 1.8, best_h, 60 / 3600, 0.05)
    assert at_best > expected_ettr(1 / 1.8, best_h / 2, 60 / 3600, 0.05)
    assert at_best > expected_ettr(1 / 1.8, best_h * 2, 60 / 3600, 0.05)
    assert expected_ettr(0, 1, 0, 0) == 1
    assert expected_ettr(100, 1, 0.1, 1) == 0
    assert best_interval_h(5, 2) == 2
