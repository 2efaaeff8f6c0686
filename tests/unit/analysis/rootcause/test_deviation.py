"""What is usual, and how far beyond it a reading is."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.rootcause.deviation import LEAST, baseline, excess, headroom_eaten, rise

RNG = np.random.default_rng(7)


def column(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float64)[:, None]


def test_the_spread_is_that_of_a_normal_distribution() -> None:
    of = baseline(RNG.normal(100.0, 5.0, size=(4000, 1)), floor_ratio=0.0)
    assert of.middle_N[0] == pytest.approx(100.0, abs=0.4)
    assert of.spread_N[0] == pytest.approx(5.0, rel=0.06)


def test_incidents_among_what_was_learned_move_nothing() -> None:
    learned_TN = RNG.normal(100.0, 5.0, size=(400, 1))
    clean = baseline(learned_TN, floor_ratio=0.0)
    learned_TN[:12] = 1e6  # 3 %
    foul = baseline(learned_TN, floor_ratio=0.0)
    assert foul.middle_N[0] == pytest.approx(clean.middle_N[0], abs=1.0)
    assert foul.baseline_N[0] < 2 * clean.baseline_N[0]
    assert rise(column(150.0), foul)[0, 0] == pytest.approx(50.0, abs=1.5)


def test_a_series_that_stands_still_gets_the_floor() -> None:
    still_TN = np.full((50, 1), 10.0)
    assert baseline(still_TN, floor_ratio=0.1).spread_N[0] == pytest.approx(1.0)
    assert baseline(still_TN, floor_ratio=0.0, floor=2.0).spread_N[0] == pytest.approx(2.0)
    bare = baseline(still_TN, floor_ratio=0.0)
    assert rise(column(11.0), bare)[0, 0] == pytest.approx(1.0)


def test_more_than_half_equal_still_has_a_spread() -> None:
    """Then the median deviation is zero, and the quartiles are not."""
    values = np.concatenate([np.zeros(52), np.linspace(1.0, 20.0, 48)])[:, None]
    assert baseline(values, floor_ratio=0.0).spread_N[0] > 1.0


def test_a_rise_is_told_from_the_middle_and_an_excess_from_the_highest_baseline_reading() -> None:
    of = baseline(np.tile([1.0, 2.0, 3.0], 40)[:, None], floor_ratio=0.0)
    values_TN = column(2.0, of.middle_N[0] + of.baseline_N[0], 50.0, np.nan)
    np.testing.assert_allclose(rise(values_TN, of)[:, 0], [0.0, 0.0, 48.0, np.nan])
    np.testing.assert_allclose(excess(values_TN, of)[:, 0], [0.0, 0.0, 48.0 - of.baseline_N[0], np.nan])


def test_the_upper_of_two_baseline_levels_is_no_deviation() -> None:
    of = baseline(np.tile([1.0, 1.0, 1.0, 9.0], 40)[:, None])
    np.testing.assert_array_equal(rise(column(9.0), of), [[0.0]])


def test_of_too_few_readings_nothing_is_known() -> None:
    learned_TN = np.full((LEAST + 2, 2), 5.0)
    learned_TN[3:, 1] = np.nan
    of = baseline(learned_TN)
    assert np.isfinite(of.middle_N[0])
    assert np.isnan(of.middle_N[1])
    found_TN = rise(np.array([[90.0, 90.0]]), of)
    assert found_TN[0, 0] == 85.0
    assert np.isnan(found_TN[0, 1])
    assert baseline(np.empty((0, 3))).count_N.tolist() == [0, 0, 0]


def test_headroom_is_a_share_of_what_is_free() -> None:
    of = baseline(np.full((40, 1), 20.0), floor_ratio=0.0)
    np.testing.assert_allclose(headroom_eaten(column(20.0, 60.0, 100.0, 130.0, np.nan), of, 100.0)[:, 0],
                               [0.0, 0.5, 1.0, 1.0, np.nan])  # fmt: skip


def test_what_was_always_nearly_full_does_not_become_the_whole() -> None:
    of = baseline(np.full((40, 1), 98.0), floor_ratio=0.0)
    assert headroom_eaten(column(99.0), of, 100.0)[0, 0] == pytest.approx(0.1)
