"""Queues that grow at once: a weak witness that two hosts share a card."""

from __future__ import annotations

import numpy as np

from leadline.analysis.colocation.queueing import NATS_MAX, queueing_odds


def test_shared_queues_speak_for_a_pair_and_others_hardly_against_it() -> None:
    rng = np.random.default_rng(0)
    queue_HT = rng.exponential(1000, (20, 200))
    shared = rng.exponential(3000, 200)
    queue_HT[0] += shared
    queue_HT[1] += shared
    odds = queueing_odds(queue_HT, np.array([0, 2]), np.array([1, 3]))
    assert odds[0] == NATS_MAX
    assert -1 <= odds[1] <= 0.5


def test_what_the_whole_fleet_has_in_common_says_nothing() -> None:
    rng = np.random.default_rng(1)
    queue_HT = rng.exponential(300, (20, 200)) + rng.exponential(3000, 200)
    assert (queueing_odds(queue_HT, np.arange(19), np.arange(1, 20)) <= 0.5).all()


def test_too_little_says_nothing() -> None:
    few = queueing_odds(np.ones((5, 10)), np.array([0]), np.array([1]))
    lacking = queueing_odds(np.full((5, 100), np.nan), np.array([0]), np.array([1]))
    assert few.tolist() == lacking.tolist() == [0.0]
