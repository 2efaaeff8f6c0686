"""The line of an edge: no bound is violated, the truth is within; shift, scale, direction and order do not matter."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.analysis.clock.edge import LONG_NS, WINDOW_NS, Lines, Points, fitted, shifts, stepped, windows_ns
from leadline.analysis.columns import Floats, Ints

S = 10**9
EPOCH = 1_767_225_600 * S
seeds = st.integers(0, 2**32 - 1)


def ints(values: Floats | list[int]) -> Ints:
    return np.array(values, np.int64) if isinstance(values, list) else np.rint(values).astype(np.int64)


def one(at_N: Ints, bound_N: Ints) -> Points:
    return Points(ints([0, len(at_N)]), at_N, bound_N)


class Edge:
    """Probes both ways within 2 s: j is `offset + rate * t` ahead of i."""

    def __init__(self, seed: int, count: int = 100, scale: float = 2_000.0, late_ratio: float = 0.0) -> None:
        rng = np.random.default_rng(seed)
        self.rate = rng.uniform(-1e-4, 1e-4)
        self.offset = int(rng.integers(-(10**13), 10**13))
        self.end = EPOCH + int(rng.integers(0, 10**15))
        sent, replied = np.sort(rng.uniform(-2 * S, 0, (2, count)), axis=1)
        delay = 2_100 + rng.exponential(scale, (2, count))
        late = np.where(rng.random((2, count)) < late_ratio, rng.exponential(300, (2, count)), 0)
        got = replied + delay[1]
        self.upper = one(self.end + ints(sent + late[0]), self._ahead(sent + delay[0]) + ints(delay[0] - late[0]))
        self.lower = one(self.end + ints(got), self._ahead(replied + late[1]) - ints(delay[1] - late[1]))

    def _ahead(self, t: Floats) -> Ints:
        return self.offset + ints(self.rate * t)

    def line(self, soft_ratio: float = 0.0) -> Lines:
        return fitted(self.upper, self.lower, ints([self.end]), 2 * S, soft_ratio)


def offset(line: Lines) -> float:
    """As a float: only for differences of lines with one base."""
    return float(line.base_E[0] + line.offset_E[0])


@given(seeds)
def test_the_line_violates_no_bound_and_the_truth_is_within(seed: int) -> None:
    edge = Edge(seed)
    line = edge.line()
    for points, sign in ((edge.upper, 1), (edge.lower, -1)):
        at_line = line.offset_E[0] + line.rate_E[0] * (points.at_N - line.at_E[0])
        assert (sign * ((points.bound_N - line.base_E[0]) - at_line) >= line.half_E[0] - 1e-3).all()
    truth = edge.offset - line.base_E[0]
    assert line.low_E[0] - 4 <= truth <= line.high_E[0] + 4  # stamps are whole ns
    assert abs(truth - line.offset_E[0]) <= line.certain_E[0] + 4


@given(seeds, st.integers(-(10**15), 10**15), st.integers(-(10**15), 10**15))
def test_shifts_move_the_offset_and_nothing_else(seed: int, up: int, later: int) -> None:
    edge = Edge(seed)
    before = edge.line(0.02)
    edge.upper = one(edge.upper.at_N + later, edge.upper.bound_N + up)
    edge.lower = one(edge.lower.at_N + later, edge.lower.bound_N + up)
    edge.end += later
    after = edge.line(0.02)
    assert after.base_E[0] == before.base_E[0] + up
    assert after.offset_E[0] == before.offset_E[0]
    assert (after.rate_E[0], after.half_E[0]) == (before.rate_E[0], before.half_E[0])


@given(seeds, st.integers(2, 50))
def test_scale(seed: int, times: int) -> None:
    edge = Edge(seed)
    before = edge.line()
    edge.upper, edge.lower = (one(each.at_N, each.bound_N * times) for each in (edge.upper, edge.lower))
    after = edge.line()
    assert after.half_E[0] == pytest.approx(times * before.half_E[0], rel=1e-9, abs=1e-3)
    assert after.offset_E[0] == pytest.approx(times * before.offset_E[0], rel=1e-9, abs=1e-3)


@given(seeds)
def test_time_reversed_and_ends_exchanged(seed: int) -> None:
    """Backwards in time rates change sign; seen from the other sign of offsets, bounds change places."""
    edge = Edge(seed)
    before = edge.line()
    middle = 2 * before.mid_at_E[0]
    back = fitted(
        one(middle - edge.upper.at_N, edge.upper.bound_N), one(middle - edge.lower.at_N, edge.lower.bound_N),
        ints([edge.end]), 2 * S, 0.0,
    )  # fmt: skip
    assert back.half_E[0] == pytest.approx(before.half_E[0], abs=1e-3)
    assert back.rate_E[0] == pytest.approx(-before.rate_E[0], abs=1e-12)
    swapped = fitted(
        one(edge.lower.at_N, -edge.lower.bound_N),
        one(edge.upper.at_N, -edge.upper.bound_N),
        ints([edge.end]),
        2 * S,
        0.0,
    )
    assert swapped.half_E[0] == pytest.approx(before.half_E[0], abs=1e-3)
    assert swapped.rate_E[0] == pytest.approx(-before.rate_E[0], abs=1e-12)


@given(seeds, st.sampled_from([0.0, 0.02]))
def test_the_order_of_points_does_not_matter(seed: int, soft: float) -> None:
    edge, rng = Edge(seed), np.random.default_rng(seed)
    before = edge.line(soft)
    p, q = rng.permutation(100), rng.permutation(100)
    edge.upper = one(edge.upper.at_N[p], edge.upper.bound_N[p])
    edge.lower = one(edge.lower.at_N[q], edge.lower.bound_N[q])
    after = edge.line(soft)
    assert offset(after) == pytest.approx(offset(before), abs=0.01)
    assert after.half_E[0] == pytest.approx(before.half_E[0], abs=1e-6)


def test_edges_at_once_are_edges_one_by_one() -> None:
    edges = [Edge(seed, count=40 + 10 * seed) for seed in range(5)]
    begin = np.concatenate([[0], np.cumsum([len(each.upper.at_N) for each in edges])]).astype(np.int64)
    upper = Points(
        begin, *(np.concatenate([getattr(each.upper, name) for each in edges]) for name in ("at_N", "bound_N"))
    )
    lower = Points(
        begin, *(np.concatenate([getattr(each.lower, name) for each in edges]) for name in ("at_N", "bound_N"))
    )
    together = fitted(upper, lower, ints([each.end for each in edges]), 2 * S)
    for place, each in enumerate(edges):
        alone = each.line(0.02)
        assert together.offset_E[place] == alone.offset_E[0]
        assert together.valid_E[place] == alone.valid_E[0]


def test_late_stamps_cost_the_soft_margin_little() -> None:
    def error(soft: float, late_ratio: float) -> float:
        lines = [(Edge(seed, late_ratio=late_ratio), seed) for seed in range(200)]
        found = [(each.line(soft), each) for each, _ in lines]
        return float(np.sqrt(np.mean([_middle_error(line, each) ** 2 for line, each in found])))

    assert error(0.02, 0.0) < 1.3 * error(0.0, 0.0)
    assert error(0.02, 0.01) < 0.6 * error(0.0, 0.01)


def _middle_error(line: Lines, edge: Edge) -> float:
    truth = edge.offset - line.base_E[0] + edge.rate * (line.mid_at_E[0] - edge.end)
    return float(line.mid_E[0] - truth)


@pytest.mark.parametrize(("upper", "lower"), [(0, 0), (100, 0), (1, 100), (2, 2), (29, 100)])
def test_without_enough_points_no_line_is_valid(upper: int, lower: int) -> None:
    edge = Edge(1)
    edge.upper = one(edge.upper.at_N[:upper], edge.upper.bound_N[:upper])
    edge.lower = one(edge.lower.at_N[:lower], edge.lower.bound_N[:lower])
    assert not edge.line(0.02).valid_E[0]


def test_points_must_span_half_of_the_window() -> None:
    edge = Edge(1, count=200)
    late = edge.upper.at_N > edge.end - int(0.9 * S)
    edge.upper = one(edge.upper.at_N[late], edge.upper.bound_N[late])
    assert len(edge.upper.at_N) > 30
    assert not edge.line().valid_E[0]
    shorter = fitted(edge.upper, edge.lower, ints([edge.end]), S)
    assert shorter.valid_E[0]


@pytest.mark.parametrize("by", [50_000, -50_000, 3_600 * S, -3_600 * S])
def test_a_step_contradicts_the_last_line_and_crosses_the_bounds(by: int) -> None:
    edge = Edge(3)
    line, newest = edge.line(), edge.end - int(0.25 * S)
    assert not stepped(line, edge.upper, edge.lower).any()
    moved = [one(each.at_N, each.bound_N + by * (each.at_N > newest)) for each in (edge.upper, edge.lower)]
    assert stepped(line, *moved).all()
    assert fitted(*moved, ints([edge.end]), 2 * S).crossed_E.all()


def test_sparse_edges_are_watched_for_longer() -> None:
    assert windows_ns(Edge(1, scale=500.0).line(0.02))[0] == WINDOW_NS
    assert windows_ns(Edge(1, scale=200_000.0).line(0.02))[0] == LONG_NS


def test_a_wrong_number_of_edges_is_told() -> None:
    edge = Edge(1)
    with pytest.raises(ValueError, match="give as many"):
        fitted(edge.upper, edge.lower, ints([0, 0]), 2 * S)


@pytest.mark.parametrize("by", [2_000, -2_000])
def test_a_small_step_shifts_the_newest_points_and_a_queue_does_not(by: int) -> None:
    edge, newest = Edge(3, count=200), int(0.3 * S)
    line = edge.line(0.02)
    recent = [each.at_N > edge.end - newest for each in (edge.upper, edge.lower)]
    sides = [
        one(each.at_N[some], each.bound_N[some]) for each, some in zip((edge.upper, edge.lower), recent, strict=True)
    ]
    assert np.isnan(shifts(line, *sides)).all()
    moved = [one(each.at_N, each.bound_N + by) for each in sides]
    assert shifts(line, *moved)[0] == pytest.approx(by, abs=700)
    queued = [one(sides[0].at_N, sides[0].bound_N + 50_000), sides[1]]
    assert np.isnan(shifts(line, *queued)).all()
    nothing = np.zeros(0, np.int64)
    assert np.isnan(shifts(line, one(nothing, nothing), sides[1])).all()
