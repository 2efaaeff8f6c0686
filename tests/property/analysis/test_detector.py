"""Laws of the detector: one by one is all at once, and units and the order of metrics do not matter."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from leadline.analysis.anomaly.detector import fit, score
from leadline.analysis.columns import Floats

seeds = st.integers(0, 2**32 - 1)


def a_case(seed: int) -> tuple[Floats, Floats]:
    """Past (T, M) and present (N, M), some of it missing, some of it far out."""
    rng = np.random.default_rng(seed)
    metrics, samples = int(rng.integers(1, 6)), int(rng.integers(20, 150))
    value_TM = rng.normal(size=(samples + 12, metrics)) * rng.uniform(0.1, 9, metrics) + rng.uniform(-50, 50, metrics)
    value_TM[rng.random(value_TM.shape) < 0.05] = np.nan
    value_TM[rng.random(value_TM.shape) < 0.02] *= 30
    return value_TM[:samples], value_TM[samples:]


@given(seeds, st.integers(1, 11))
@settings(max_examples=25, deadline=None)
def test_one_by_one_is_all_at_once(seed: int, cut: int) -> None:
    past_TM, now_NM = a_case(seed)
    model = fit(past_TM)
    whole = score(model, now_NM, past_TM)
    first = score(model, now_NM[:cut], past_TM)
    rest = score(model, now_NM[cut:], np.concatenate([past_TM, now_NM[:cut]]))
    for name in ("score", "share", "z", "expected"):
        pieces = np.concatenate([getattr(first, name), getattr(rest, name)])
        np.testing.assert_array_equal(pieces, getattr(whole, name))


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_shares_add_up_and_scores_are_numbers(seed: int) -> None:
    past_TM, now_NM = a_case(seed)
    told = score(fit(past_TM), now_NM, past_TM)
    sum_N = told.share.sum(1)
    assert (told.share >= 0).all()
    assert np.all((np.abs(sum_N - 1) < 1e-9) | (sum_N == 0))
    known = np.isfinite(past_TM).sum(0).max() >= 20
    assert np.isfinite(told.score).all() == known


@given(seeds, st.floats(1e-3, 1e3))
@settings(max_examples=25, deadline=None)
def test_units_do_not_matter(seed: int, factor: float) -> None:
    past_TM, now_NM = a_case(seed)
    told = score(fit(past_TM), now_NM, past_TM)
    scaled = score(fit(past_TM * factor), now_NM * factor, past_TM * factor)
    np.testing.assert_allclose(scaled.score, told.score, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(scaled.share, told.share, atol=1e-6)


@given(seeds)
@settings(max_examples=25, deadline=None)
def test_the_order_of_metrics_does_not_matter(seed: int) -> None:
    past_TM, now_NM = a_case(seed)
    order_M = np.random.default_rng(seed).permutation(past_TM.shape[1])
    told = score(fit(past_TM), now_NM, past_TM)
    moved = score(fit(past_TM[:, order_M]), now_NM[:, order_M], past_TM[:, order_M])
    np.testing.assert_allclose(moved.score, told.score, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(moved.share, told.share[:, order_M], atol=1e-6)
