"""Who is late beyond what the ranks of a job are late by in their turn."""

from __future__ import annotations

import numpy as np

from leadline.analysis.ledger.collectives.scatter import beyond_scatter

RANKS = 4


def in_turn(times: int, seed: int = 7) -> tuple[np.ndarray, np.ndarray]:
    """Last arrivals of ranks by chance: by how much, ms, with a long tail; whose."""
    random = np.random.default_rng(seed)
    return random.exponential(4.0, times), random.integers(0, RANKS, times)


def told(late: np.ndarray, rank: np.ndarray) -> np.ndarray:
    return beyond_scatter(late, rank, np.full(len(late), RANKS - 1))


def test_of_ranks_that_come_last_in_turn_nearly_none_is_late() -> None:
    late, rank = in_turn(200)
    assert late[told(late, rank)].sum() < 0.1 * late.sum()


def test_a_stall_far_beyond_the_scatter_is_told_and_nothing_else() -> None:
    late, rank = in_turn(60)
    late = np.minimum(late, 10)
    late[30] = 90.0
    assert np.flatnonzero(told(late, rank)).tolist() == [30]


def test_a_rank_that_stalls_now_and_then_is_no_measure_of_itself() -> None:
    late, rank = np.full(40, 4.0), np.arange(40) % RANKS
    late[rank == 2] = 90.0
    assert np.array_equal(told(late, rank), rank == 2)


def test_a_rank_that_comes_last_more_often_than_in_its_turn_is_late_by_however_little() -> None:
    late, rank = in_turn(60)
    rank[::2] = 1
    late[rank == 1] = 2.0
    assert np.array_equal(told(late, rank) & (rank == 1), rank == 1)


def test_two_ranks_that_are_last_by_turns_among_many_are_both_late() -> None:
    late, rank = np.full(40, 20.0), np.tile([3, 5], 20)
    assert beyond_scatter(late, rank, np.full(40, 7)).all()


def test_a_few_arrivals_are_taken_at_their_word() -> None:
    assert told(np.array([3.0, 4.0, 5.0]), np.array([0, 1, 2])).all()
    assert len(told(np.zeros(0), np.zeros(0, np.int64))) == 0
