"""Groups of equal rows."""

from __future__ import annotations

import numpy as np

from leadline.analysis.messages.group_kernels import grouped, listed, sorted_within


def test_rows_are_grouped_as_a_dict_would() -> None:
    rng = np.random.default_rng(3)
    key_NK = rng.integers(-3, 3, (5000, 4)) * 2**40
    group_N, first_G = grouped(key_NK)
    number: dict[tuple[int, ...], int] = {}
    wanted = [number.setdefault(tuple(row), len(number)) for row in key_NK.tolist()]
    assert group_N.tolist() == wanted
    assert [tuple(row) for row in key_NK[first_G].tolist()] == list(number)


def test_rows_that_share_most_of_their_bits_are_told_apart() -> None:
    key_NK = np.arange(4096, dtype=np.int64)[:, None] * np.array([[1, 2**33]])
    assert len(grouped(key_NK)[1]) == 4096


def test_nothing_has_no_groups() -> None:
    group_N, first_G = grouped(np.zeros((0, 3), np.int64))
    assert (len(group_N), len(first_G)) == (0, 0)
    assert listed(group_N, 0)[0].tolist() == [0]


def test_rows_of_groups_are_listed_and_sorted() -> None:
    group_N, value_N = np.array([1, 0, 1, 3, 1]), np.array([5, 9, 3, 1, 4])
    begin_G, order_N = listed(group_N, 4)
    assert (begin_G.tolist(), order_N.tolist()) == ([0, 1, 4, 4, 5], [1, 0, 2, 4, 3])
    assert sorted_within(begin_G, value_N[order_N]).tolist() == [9, 3, 4, 5, 1]
