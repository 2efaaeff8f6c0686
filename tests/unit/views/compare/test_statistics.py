"""Differences beyond noise: found where they are, and not in noise."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.views.compare.statistics import against_peers, difference, independent, quantile, strength


def test_the_interval_of_a_median_holds_it_in_95_of_100_samples() -> None:
    rng = np.random.default_rng(1)
    held = 0
    for _ in range(400):
        found = quantile(rng.exponential(size=60), 0.5)
        assert found.low is not None and found.high is not None  # noqa: PT018 - for the type
        held += found.low <= np.log(2) <= found.high
    assert held >= 0.95 * 400


def test_noise_that_hangs_together_counts_for_less() -> None:
    rng = np.random.default_rng(2)
    white = rng.normal(size=400)
    slow = np.convolve(rng.normal(size=430), np.ones(30) / 30, "valid")[:400]
    assert independent(white) > 150
    assert independent(slow) < 60


def test_a_tenth_more_is_more_and_the_same_is_the_same() -> None:
    rng = np.random.default_rng(3)
    verdicts = []
    for _ in range(60):
        a, b = (quantile(1 + 0.05 * rng.normal(size=80), 0.5) for _ in range(2))
        verdicts.append(difference(a, b)["verdict"])
        more = quantile(1.1 * (1 + 0.05 * rng.normal(size=80)), 0.5)
        assert difference(a, more)["verdict"] == "more"
        assert difference(more, a)["verdict"] == "less"
    assert verdicts.count("same") >= 58


def test_too_little_is_unknown_and_says_of_which_side() -> None:
    values = np.random.default_rng(5).uniform(1, 2, size=50)
    many, few, none = (quantile(values[:n], 0.5) for n in (50, 4, 0))
    assert difference(many, few)["why"] == "too few independent values of B for an interval"
    assert difference(none, many)["why"] == "no values of A"
    assert difference(few, many)["verdict"] == "unknown"


@given(st.dictionaries(st.integers(0, 9).map(str), st.sampled_from("abc"), min_size=1),
       st.dictionaries(st.integers(0, 9).map(str), st.sampled_from("abc"), min_size=1))  # fmt: skip
def test_strength_is_a_distance(a: dict[str, str], b: dict[str, str]) -> None:
    assert strength(a, a) == 0
    assert strength(a, b) == pytest.approx(strength(b, a))
    assert 0 <= strength(a, b) <= 1 + 1e-12
    if not set(a.values()) & set(b.values()):
        assert strength(a, b) == pytest.approx(1)


def test_what_all_members_share_is_stronger_than_what_one_has() -> None:
    old = {f"h{n}": "535" for n in range(4)}
    assert strength(old, {f"h{n}": "550" for n in range(4)}) > strength(old, {**old, "h0": "550"})


def test_who_is_like_some_of_its_peers_does_not_stand_out() -> None:
    assert against_peers(100.0, [1.0, 1.1, 0.9, 1.0, 99.0, 101.0], 0.0, 1) is None
    told = against_peers(100.0, [1.0, 1.1, 0.9, 1.0, 1.05, 0.95], 0.0, 1)
    assert told is not None
    assert told[1] == pytest.approx(1.0)


def test_two_peers_are_too_few_and_noise_is_no_difference() -> None:
    assert against_peers(5.0, [1.0, 1.0], 0.0, 1) is None
    rng = np.random.default_rng(4)
    alarms = sum(
        any(against_peers(float(x[0]), x[1:].tolist(), 0.0, 50) is not None for x in 10 + rng.normal(size=(50, 8)))
        for _ in range(100)
    )
    assert alarms <= 15
