"""Who explains a symptom: on graphs of calls whose answer is plain."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.rootcause.propagation import Calls, Explained, explained, own_losses, passing

NAMES = ("front", "a", "b", "c", "beside")
CHAIN = Calls.of(NAMES, [("front", "a"), ("a", "b"), ("b", "c"), ("front", "beside")])


def lost(**of: float | list[float]) -> np.ndarray:
    """What components lose in two intervals; those not named lose nothing."""
    return np.array([np.broadcast_to(np.asarray(of.get(name, 0.0), float), 2) for name in NAMES]).T


def judged(calls: Calls = CHAIN, **of: float | list[float]) -> Explained:
    lost_TN = lost(**of)
    return explained(lost_TN, lost_TN[:, 0], calls, 0)


def named(found: Explained) -> list[str]:
    return [NAMES[n] for n in found.ranked()]


def test_the_last_of_a_chain_that_loses_is_the_cause() -> None:
    found = judged(front=8.0, a=7.0, b=6.5)
    assert named(found) == ["b", "a"]
    assert found.share_N.tolist() == pytest.approx([1 / 8, 0.5 / 8, 6.5 / 8, 0.0, 0.0])
    assert found.most == pytest.approx(13.0)  # in two intervals


def test_a_callee_that_loses_a_part_explains_a_part() -> None:
    found = judged(front=8.0, a=8.0, b=2.0)
    assert named(found) == ["a", "b"]
    assert found.share_N[1] == pytest.approx(0.75)


def test_what_loses_at_other_times_explains_nothing() -> None:
    found = judged(front=[8.0, 0.0], a=[7.0, 0.0], beside=[0.0, 9.0])
    assert named(found) == ["a"]


def test_no_more_passes_than_the_callers_lose() -> None:
    found = judged(front=8.0, a=1.0, b=50.0)
    assert found.share_N[2] == pytest.approx(1 / 8)


def test_nothing_passes_a_caller_that_is_as_baseline() -> None:
    assert named(judged(front=8.0, b=50.0)) == []


def test_an_unknown_caller_lets_pass() -> None:
    assert named(judged(front=8.0, a=np.nan, b=8.0))[0] == "b"


def test_of_two_that_explain_all_the_one_that_fits_goes_first() -> None:
    found = judged(front=8.0, a=400.0, beside=9.0)
    assert found.share_N[1] == found.share_N[4] == 1.0
    assert named(found) == ["beside", "a"]


def test_the_symptom_is_no_witness_of_its_own_cause() -> None:
    found = judged(front=8.0)
    assert found.share_N[0] == 1.0
    assert named(found) == []
    assert found.most == 0.0


def test_who_is_not_called_from_the_symptom_explains_nothing() -> None:
    other = Calls.of(NAMES, [("front", "a"), ("beside", "front")])
    assert named(judged(other, front=8.0, a=8.0, beside=8.0, c=8.0)) == ["a"]


def test_of_an_unknown_callee_a_part_is_inferred_and_it_is_missing() -> None:
    found = judged(front=8.0, a=8.0, b=np.nan, c=np.nan)
    assert found.missing == (2, 3)
    assert named(found) == ["a", "b"]
    assert found.inferred_N.tolist() == [False, False, True, True, False]
    assert found.share_N[2] == pytest.approx(0.5)


def test_nothing_is_inferred_of_those_that_nobody_called_nor_of_the_symptom_alone() -> None:
    lost_TN = lost(front=8.0, a=8.0, b=np.nan)
    silent_N = np.array([name == "b" for name in NAMES])
    found = explained(lost_TN, lost_TN[:, 0], CHAIN, 0, silent_N=silent_N)
    assert [NAMES[n] for n in found.ranked()] == ["a"]
    assert found.missing == ()
    assert named(judged(front=8.0, beside=np.nan)) == []


def test_nothing_lost_is_nothing_explained() -> None:
    found = judged(a=8.0)
    assert found.lost == 0.0
    assert named(found) == []
    empty = explained(np.empty((0, 5)), np.empty(0), CHAIN, 0)
    assert empty.share_N.tolist() == [0.0] * 5


def test_a_symptom_with_gaps_is_told_by_what_is_known_of_it() -> None:
    lost_TN = lost(a=4.0)
    found = explained(lost_TN, np.array([4.0, np.nan]), CHAIN, 0)
    assert found.lost == 4.0
    assert found.share_N[1] == 1.0


def test_calls_in_a_circle_come_to_an_end() -> None:
    circle = Calls.of(NAMES, [("front", "a"), ("a", "b"), ("b", "a"), ("b", "c"), ("c", "front")])
    assert named(judged(circle, front=8.0, a=8.0, b=8.0, c=8.0)) == ["c"]
    assert circle.reached(0).tolist() == [True, True, True, True, False]


def test_calls_of_strangers_and_of_oneself_are_left_out() -> None:
    calls = Calls.of(("x", "y"), [("x", "y"), ("x", "y"), ("x", "x"), ("x", "z")])
    assert (calls.caller_E.tolist(), calls.callee_E.tolist()) == ([0], [1])
    assert Calls.of((), []).count == 0


def test_a_wider_way_is_taken() -> None:
    two = Calls.of(NAMES, [("front", "a"), ("front", "b"), ("a", "c"), ("b", "c")])
    lost_TN = lost(front=8.0, a=1.0, b=5.0, c=6.0)
    assert passing(lost_TN, lost_TN[:, 0], two, 0)[0].tolist() == [8.0, 1.0, 5.0, 5.0, 0.0]
    assert own_losses(lost_TN, two)[0].tolist() == [2.0, 0.0, 0.0, 6.0, 0.0]
