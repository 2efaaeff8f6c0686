"""The two-sided fit, in C and in Python: against brute force, and laws that hold whatever the points are."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import combinations

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from tests.unit.host.mesh.native import Native

from leadline.host.mesh.fit import RATE_MAX, Fitted, fit_edge

END_NS = 1_795_869_243_327_682_352
WINDOW_NS = 2_000_000_000
Points = list[tuple[int, int]]
Fit = Callable[[Sequence[tuple[int, int]], Sequence[tuple[int, int]], int, int, float], Fitted]


@pytest.fixture(scope="module", params=["C", "Python"])
def fit(request: pytest.FixtureRequest) -> Fit:
    if request.param == "Python":
        return fit_edge
    native: Native = request.getfixturevalue("native")
    return native.fit


def clouds(seed: int, count: int, offset_ns: int, rate_ppb: float, delay_ns: float = 1500) -> tuple[Points, Points]:
    """Points of a true line, never across it; the line at END_NS is `offset_ns`."""
    rnd = random.Random(seed)

    def one(sign: int) -> Points:
        times = sorted(rnd.randrange(END_NS - WINDOW_NS, END_NS) for _ in range(count))
        line = [offset_ns + Fraction(rate_ppb) * (t - END_NS) / 10**9 for t in times]
        queued = [round(rnd.expovariate(1 / delay_ns)) for _ in times]
        return [(t, sign * (-((-sign * d) // 1) + 2000 + more)) for t, d, more in zip(times, line, queued, strict=True)]

    return one(1), one(-1)


def small_points() -> st.SearchStrategy[Points]:
    point = st.tuples(st.integers(0, WINDOW_NS // 10**6).map(lambda ms: END_NS - ms * 10**6), st.integers(-3000, 3000))
    return st.lists(point, min_size=1, max_size=9).map(sorted)


def widest_by_force(upper: Points, lower: Points) -> Fraction | None:
    """The greatest half width over all slopes at which a corner can change; None: none of them is within RATE_MAX."""
    upper, lower = [[(t - END_NS, d) for t, d in points] for points in (upper, lower)]
    limit = Fraction(RATE_MAX)
    slopes = {
        Fraction(d1 - d0, t1 - t0)
        for points in (upper, lower)
        for (t0, d0), (t1, d1) in combinations(points, 2)
        if t0 != t1
    }
    widths = [
        (min(d - slope * t for t, d in upper) - max(d - slope * t for t, d in lower)) / 2
        for slope in {*(slope for slope in slopes if abs(slope) < limit), limit, -limit}
    ]
    return max(widths)


@given(upper=small_points(), lower=small_points())
@settings(deadline=None, max_examples=300)
def test_no_strip_is_wider(fit: Fit, upper: Points, lower: Points) -> None:
    found = fit(upper, lower, END_NS, WINDOW_NS, 0.0)
    if found.state == "no-overlap":
        return
    best = widest_by_force(upper, lower)
    assert found.width_ns == pytest.approx(float(best), abs=1e-3)


@given(upper=small_points(), lower=small_points(), soft=st.sampled_from([0.0, 0.1, 0.3]))
@settings(deadline=None, max_examples=300)
def test_both_find_the_same(native: Native, upper: Points, lower: Points, soft: float) -> None:
    in_c, in_python = (each(upper, lower, END_NS, WINDOW_NS, soft) for each in (native.fit, fit_edge))
    assert in_c[:3] == in_python[:3]
    assert in_c.width_ns == pytest.approx(in_python.width_ns, abs=1e-3)


@given(
    seed=st.integers(0, 1 << 30),
    count=st.integers(2, 120),
    offset_ns=st.integers(-(10**10), 10**10),
    rate_ppb=st.floats(-2e5, 2e5),
    soft=st.sampled_from([0.0, 0.02, 0.1]),
)
@settings(deadline=None)
def test_no_feasible_line_is_outside_the_bound(
    fit: Fit, seed: int, count: int, offset_ns: int, rate_ppb: float, soft: float
) -> None:
    """The line that made the points is one that they allow."""
    upper, lower = clouds(seed, count, offset_ns, rate_ppb)
    found = fit(upper, lower, END_NS, WINDOW_NS, soft)
    assume(found.state != "no-overlap")
    assert found.state != "torn"
    assert abs(found.offset_ns - offset_ns) <= found.bound_ns + 1


@given(upper=small_points(), lower=small_points(), at_end=st.integers(-3000, 3000), rate_ppm=st.integers(-9, 9))
@settings(deadline=None, max_examples=300)
def test_any_line_that_the_points_allow_is_within_the_bound(
    fit: Fit, upper: Points, lower: Points, at_end: int, rate_ppm: int
) -> None:
    """Points on both sides of a line, and on it: it is one that they allow."""
    sides = [
        [(t, at_end + rate_ppm * (t - END_NS) // 10**6 + sign * abs(d)) for t, d in points]
        for points, sign in ((upper, 1), (lower, -1))
    ]
    found = fit(*sides, END_NS, WINDOW_NS, 0.0)
    assume(found.state != "no-overlap")
    assert abs(found.offset_ns - at_end) <= found.bound_ns + 1e-3


@given(seed=st.integers(0, 1 << 30), later_ns=st.integers(-(10**15), 10**15), more_ns=st.integers(-(10**12), 10**12))
@settings(deadline=None)
def test_shift(fit: Fit, seed: int, later_ns: int, more_ns: int) -> None:
    """Later by a time, ahead by more: the line moves along, and nothing else changes."""
    upper, lower = clouds(seed, 60, 0, 3000.0)
    moved = [[(t + later_ns, d + more_ns) for t, d in points] for points in (upper, lower)]
    before = fit(upper, lower, END_NS, WINDOW_NS, 0.02)
    after = fit(*moved, END_NS + later_ns, WINDOW_NS, 0.02)
    assert after == before._replace(offset_ns=before.offset_ns + more_ns)


@given(upper=small_points(), lower=small_points(), factor=st.sampled_from([2, 4, 8]))
@settings(deadline=None)
def test_scale(fit: Fit, upper: Points, lower: Points, factor: int) -> None:
    scaled = [[(t, d * factor) for t, d in points] for points in (upper, lower)]
    before, after = fit(upper, lower, END_NS, WINDOW_NS, 0.0), fit(*scaled, END_NS, WINDOW_NS, 0.0)
    assume("no-overlap" not in (before.state, after.state))
    assume(abs(before.rate_ppb * factor) < RATE_MAX * 1e9)
    assert after.width_ns == pytest.approx(before.width_ns * factor)
    assert after.offset_ns == pytest.approx(before.offset_ns * factor, abs=factor)
    assert after.rate_ppb == pytest.approx(before.rate_ppb * factor, abs=1e-6)


@given(upper=small_points(), lower=small_points())
@settings(deadline=None)
def test_time_reversal(fit: Fit, upper: Points, lower: Points) -> None:
    """A film run backwards: the rate changes its sign, and the line stands where it stood in the middle."""
    back = [sorted((2 * END_NS - WINDOW_NS - t, d) for t, d in points) for points in (upper, lower)]
    before, after = fit(upper, lower, END_NS, WINDOW_NS, 0.0), fit(*back, END_NS, WINDOW_NS, 0.0)
    assert (before.state == "no-overlap") == (after.state == "no-overlap")
    if before.state == "no-overlap":
        return
    assert after.width_ns == pytest.approx(before.width_ns, abs=1e-3)
    assert after.rate_ppb == pytest.approx(-before.rate_ppb, abs=1e-3)
    middles = [each.offset_ns - each.rate_ppb * WINDOW_NS / 2e9 for each in (before, after)]
    assert middles[0] == pytest.approx(middles[1], abs=2)


@pytest.mark.parametrize(("count", "error_ns"), [(100, 150), (200, 80), (1000, 20)])
def test_it_finds_the_line(fit: Fit, count: int, error_ns: int) -> None:
    """At delays of 1.5 us; the median of twenty windows."""
    errors = []
    for seed in range(20):
        upper, lower = clouds(seed, count, 123_456_789, -17_000.0)
        found = fit(upper, lower, END_NS, WINDOW_NS, 0.02)
        assert found.state == "valid"
        errors.append(abs(found.offset_ns - 123_456_789))
    assert sorted(errors)[10] < error_ns


def test_a_late_stamp_does_not_decide(fit: Fit) -> None:
    """One of a hundred transmit stamps is taken 1 us late: its points lie across the line by as much."""
    hard, soft = [], []
    for seed in range(20):
        upper, lower = clouds(seed, 200, 0, 0.0, delay_ns=300)
        upper = [(t, d - 1000 if index % 100 == 50 else d) for index, (t, d) in enumerate(upper)]
        hard.append(abs(fit(upper, lower, END_NS, WINDOW_NS, 0.0).offset_ns))
        soft.append(abs(fit(upper, lower, END_NS, WINDOW_NS, 0.02).offset_ns))
    assert sorted(hard)[10] > 5 * sorted(soft)[10]


def test_what_does_not_pin_a_line_is_not_valid(fit: Fit) -> None:
    upper, lower = clouds(1, 200, 0, 0.0)
    assert fit([], lower, END_NS, WINDOW_NS, 0.02).state == "few-points"
    assert fit(upper[:29], lower, END_NS, WINDOW_NS, 0.02).state in ("few-points", "no-overlap")
    short = [[each for each in points if each[0] > END_NS - WINDOW_NS // 3] for points in (upper, lower)]
    assert fit(*short, END_NS, WINDOW_NS, 0.02).state == "few-corners"
    stepped = [[(t, d + (5000 if t > END_NS - 10**9 else 0)) for t, d in points] for points in (upper, lower)]
    assert fit([(t, d - 40_000) for t, d in stepped[0]], stepped[1], END_NS, WINDOW_NS, 0.02).state == "torn"
