"""What was heard, from rows in any order: distinct numbers, and times by name."""

from __future__ import annotations

import numpy as np
import pytest

from leadline.analysis.failures.heard import COUNTED_MAX, distinct, times_of


@pytest.mark.parametrize("odd", [[], [-1], [COUNTED_MAX], [2**62, -(2**62)]])
def test_distinct_numbers_are_the_same_counted_and_sorted(odd: list[int]) -> None:
    number_N = np.array([*np.random.default_rng(1).integers(0, 50, 200).tolist(), *odd], np.int64)
    number_U, place_N = distinct(number_N)
    assert number_U.tolist() == sorted(set(number_N.tolist()))
    assert (number_U[place_N] == number_N).all()


def test_no_numbers_have_no_distinct_ones() -> None:
    number_U, place_N = distinct(np.zeros(0, np.int64))
    assert place_N.size == 0
    assert number_U.size == 0


@pytest.mark.parametrize("names", [3, 70_000])
def test_times_of_a_name_do_not_depend_on_the_order_of_rows(names: int) -> None:
    rng = np.random.default_rng(2)
    code_N, time_N = rng.integers(-1, names, 500), rng.integers(0, 1000, 500)
    code_N[:5] = names - 1
    listed = [f"n{place}" for place in range(names)]
    told = times_of(listed, code_N, time_N)
    for place in (0, 1, names - 1):
        mine = sorted(time_N[code_N == place].tolist())
        assert told.of(listed[place]).tolist() == mine
        assert told.after(listed[place], 400) == next((each for each in mine if each > 400), None)
    assert told.last(listed[-1]) == max(time_N[code_N == names - 1].tolist())
    assert told.of("nobody").tolist() == []
    assert told.after("nobody", 0) is None


def test_back_is_who_pauses_whatever_the_order() -> None:
    told = times_of(["a"], np.zeros(4, np.int64), np.array([200, 10, 110, 20]))
    assert told.after_pause("a", 15, 80) == 110
    assert told.after_pause("a", 15, 500) is None
