"""The detector: what is odd, how odd, and by which metric."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.anomaly.detector import CUT, SAMPLES_MIN, fit, score
from leadline.analysis.columns import Floats

ODD = 6.0


def calm(samples: int = 200, metrics: int = 5, seed: int = 1) -> Floats:
    return 100 + np.random.default_rng(seed).normal(size=(samples, metrics)) * np.arange(2, 2 + metrics)


def test_what_leaves_its_range_is_odd_and_it_is_said_by_which_metric() -> None:
    past_TM, now_NM = calm(), calm(20, seed=2)
    now_NM[7, 3] += 60
    told = score(fit(past_TM), now_NM, past_TM)
    assert told.score[7] > ODD
    assert np.delete(told.score, [7, 8, 9, 10]).max() < ODD
    assert told.share[7].argmax() == 3
    assert told.share[7, 3] > 0.8
    assert told.z[7, 3] == pytest.approx(12, abs=3)
    assert told.expected[7, 3] == pytest.approx(100, abs=2)
    np.testing.assert_allclose(told.share.sum(1), 1.0)


def test_what_does_not_fit_together_is_odd_though_each_is_in_range() -> None:
    rng = np.random.default_rng(3)
    common_T = rng.normal(size=301)
    past_TM = 50 + common_T[:, None] * 5 + 0.2 * rng.normal(size=(301, 6))
    fits, odd = np.full((1, 6), 56.0), np.array([[56.0, 44.0, 56.0, 44.0, 56.0, 44.0]])
    model = fit(past_TM)
    assert score(model, odd).score[0] > score(model, fits).score[0] + 2


def test_what_moves_though_it_never_did_is_odd_within_its_range() -> None:
    past_TM = np.concatenate([np.full((100, 2), 40.0), np.full((100, 2), 60.0)])
    past_TM = past_TM + 0.1 * np.random.default_rng(4).normal(size=past_TM.shape)
    now_NM = past_TM[100:110].copy()
    now_NM[5] = 50  # between the two levels at which it always was
    told = score(fit(past_TM), now_NM, past_TM)
    assert told.score[5] > told.score[:5].max() + 3


def test_few_samples_tell_nothing_and_a_few_more_do() -> None:
    told = score(fit(calm(SAMPLES_MIN - 1)), calm(3))
    assert np.isnan(told.score).all()
    assert not told.share.any()
    now_NM = calm(3, seed=8)
    now_NM[1] += 90
    told = score(fit(calm(SAMPLES_MIN)), now_NM, calm(SAMPLES_MIN))
    assert np.isfinite(told.score).all()
    assert told.score[1] > ODD > told.score[0]


def test_missing_values_are_neither_odd_nor_baseline() -> None:
    past_TM, now_NM = calm(), calm(4, seed=2)
    past_TM[::3, 1] = np.nan
    past_TM[:, 2] = np.nan
    now_NM[1:3, 0] = [np.nan, np.inf]
    now_NM[3, 4] += 100
    told = score(fit(past_TM), now_NM, past_TM)
    assert np.isfinite(told.score).all()
    assert np.isnan(told.z[:, 2]).all()
    assert np.isnan(told.z[1:3, 0]).all()
    assert not told.share[:, 2].any()
    assert not told.share[1:3, 0].any()
    assert told.score[3] > ODD > told.score[:3].max()


def test_a_metric_that_never_moved_is_odd_when_it_does_and_not_all_there_is() -> None:
    past_TM = calm()
    past_TM[:, 0] = 7.0
    now_NM = calm(3, seed=2)
    now_NM[:, 0] = [7.0, 7.01, 9.0]
    told = score(fit(past_TM), now_NM, past_TM)
    assert told.score[:2].max() < ODD < told.score[2]
    assert abs(told.z[2, 0]) <= CUT
    still = score(fit(np.zeros((100, 3))), np.zeros((5, 3)))
    assert still.score.tolist() == [0.0] * 5


def test_an_anomaly_in_the_past_does_not_hide_the_next() -> None:
    past_TM = calm()
    past_TM[50:80, 1] += 40
    now_NM = calm(2, seed=2)
    now_NM[1, 1] += 40
    told = score(fit(past_TM), now_NM, past_TM)
    assert told.score[1] > told.score[0] + 2


@pytest.mark.parametrize("metrics", [2, 8, 20])
@pytest.mark.parametrize("samples", [60, 400])
def test_entities_of_any_shape_are_out_of_their_range_about_equally_often(metrics: int, samples: int) -> None:
    rng = np.random.default_rng(6)
    past_ETM, now_ENM = rng.normal(size=(40, samples, metrics)), rng.normal(size=(40, 50, metrics))
    told = score(fit(past_ETM), now_ENM, past_ETM).score
    assert 0.01 < (told > 1.645).mean() < 0.16  # 0.05 of the past is; less is known of the past the shorter it is
    assert (told > 8).mean() < 0.001


def test_entities_are_judged_each_by_its_own_past() -> None:
    past_ETM = np.stack([calm(seed=1), calm(seed=2) * 50, calm(seed=3) - 1000])
    now_ENM = np.stack([calm(6, seed=seed) for seed in (4, 5, 6)])
    together = score(fit(past_ETM), now_ENM, past_ETM)
    for entity in range(3):
        alone = score(fit(past_ETM[entity]), now_ENM[entity], past_ETM[entity])
        assert (alone.score == together.score[entity]).all()
        assert (alone.share == together.share[entity]).all()


def test_nothing_in_nothing_out() -> None:
    assert score(fit(np.zeros((0, 3))), np.zeros((0, 3))).score.shape == (0,)
    assert score(fit(np.zeros((50, 0))), np.zeros((2, 0))).share.shape == (2, 0)
    assert score(fit(np.zeros((0, 50, 3))), np.zeros((0, 5, 3))).score.shape == (0, 5)
