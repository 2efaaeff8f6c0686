"""What a window can have lost against the usual at most."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.small_job import JOB, MS, RANKS, step, table

from leadline.analysis.ledger.excess import excess_ns, within
from leadline.analysis.ledger.pieces import COMM, RANK, Pieces
from leadline.analysis.ledger.pieces import JOB as OF_JOB
from leadline.analysis.ledger.segments import PLACE_OF
from leadline.analysis.spec import Window
from leadline.model.accounts import Category

WINDOW = Window(T0, T0 + 10 * S, job=JOB)


def steps_of(*lengths_ms: int, begin_ns: int = T0) -> Any:
    rows = []
    for number, length in enumerate(lengths_ms):
        rows += [step(rank, number, begin_ns, length * MS) for rank in range(RANKS)]
        begin_ns += length * MS
    return table("step", rows)


def test_shorter_steps_count_against_longer_ones() -> None:
    assert excess_ns(steps_of(2500, 1500, 3000, 3000), 2000 * MS, WINDOW) == pytest.approx(2000 * MS)
    assert excess_ns(steps_of(2500, 1500, 3000, 1000, 2000), 2000 * MS, WINDOW) == pytest.approx(0)


def test_time_that_no_step_covers_may_all_be_lost() -> None:
    assert excess_ns(steps_of(2000, 2000), 2000 * MS, WINDOW) == pytest.approx(6 * S)


def test_of_a_step_that_reaches_beyond_the_window_its_share_counts() -> None:
    longer = steps_of(20_000, begin_ns=T0 - 10 * S)
    assert excess_ns(longer, 2000 * MS, WINDOW) == pytest.approx(9 * S)


def test_without_steps_or_a_baseline_one_there_is_no_bound() -> None:
    assert excess_ns(steps_of(), 2000 * MS, WINDOW) == np.inf
    assert excess_ns(steps_of(2000), np.nan, WINDOW) == np.inf


def pieces() -> Pieces:
    """Three seconds each of communication, compute, lateness, lost whole."""
    kinds = ((Category.COMMUNICATION, COMM), (Category.COMPUTE, OF_JOB), (Category.STRAGGLER, RANK))
    return Pieces.joined(
        [
            Pieces.one(T0 + at * 3 * S, T0 + (at + 1) * 3 * S, PLACE_OF[category], whose, 0, 3.0 * S, 1.0)
            for at, (category, whose) in enumerate(kinds)
        ]
    )


@pytest.mark.parametrize(("most_s", "lost_s"), [(np.inf, [3, 3, 3]), (8, [3, 2, 3]), (5, [2, 0, 3]), (1, [0, 0, 3])])
def test_lateness_stands_and_compute_yields_first(most_s: float, lost_s: list[float]) -> None:
    assert within(pieces(), most_s * S, WINDOW).lost_K / S == pytest.approx(lost_s)
