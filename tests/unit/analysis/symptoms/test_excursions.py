"""What a job loses by chance, from its own past; and the peaks of a sum."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.symptoms.excursion_kernels import peaks
from leadline.analysis.symptoms.excursions import chance_s

SHARE = 0.05


def past(scatter: float, count: int = 300, seed: int = 1) -> np.ndarray:
    """Blocks of about a second."""
    return 1 + np.random.default_rng(seed).normal(0, scatter, count)


def test_peaks_of_a_sum_that_starts_anew_at_0() -> None:
    assert peaks(np.array([1.0, 2.0, -5.0, -1.0, 3.0, -1.0, 2.0, -9.0, 1.0])).tolist() == [3.0, 4.0, 1.0]
    assert len(peaks(np.array([-1.0, -2.0]))) == 0


def test_a_job_that_varies_more_loses_more_by_chance() -> None:
    calm, restless = (chance_s(past(scatter), np.ones(300), SHARE) for scatter in (0.04, 0.15))
    assert calm is not None
    assert restless is not None
    assert calm < 1 < restless


@pytest.mark.parametrize("scatter", [0.05, 0.1])
def test_chance_alone_does_not_lose_so_much_in_a_day(scatter: float) -> None:
    limit_s = chance_s(past(scatter, 250), np.ones(250), SHARE)
    day = past(scatter, 86_400, seed=2)
    assert limit_s is not None
    assert peaks(day * (1 - SHARE) - 1).max() < limit_s


def test_a_burst_that_passed_may_come_again() -> None:
    whole = past(0.05)
    whole[100:104] = 1.6
    found = chance_s(whole, np.ones(300), SHARE)
    assert found is not None
    assert found >= 2 * 4 * (1.6 * (1 - SHARE) - 1) * 0.9


def test_a_short_past_tells_nothing() -> None:
    assert chance_s(past(0.05, 20), np.ones(20), SHARE) is None
    assert chance_s(past(0.05) + 0.1, np.ones(300), SHARE) is None  # slow all the time: that is no chance
    assert chance_s(np.ones(100), np.ones(100), SHARE) == pytest.approx(0)
