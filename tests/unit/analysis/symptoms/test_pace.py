"""The pace of a job that tells no steps: rounds of collectives, not collectives."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import both, tables
from tests.builders.small_job import RANKS, table

from leadline.analysis.symptoms.calls import calls_of
from leadline.analysis.symptoms.pace import Pace, pace_of

TOOK_MS = (60, 60, 60, 120, 120, 120, 240, 240, 240)  # a round: small, larger, large
MS = 10**6


def paced(sizes: tuple[int, ...]) -> Pace:
    rows, at_ns = [], T0
    for seq in range(9 * 30):
        end_ns = at_ns + TOOK_MS[seq % 9] * MS
        for rank in range(RANKS):
            told = both(rank, seq, at_ns, end_ns)
            rows += [{**row, "bytes": sizes[seq % 9]} for row in told]
        at_ns = end_ns
    given = tables([], rows)
    return pace_of(table("step", []), lambda: calls_of(given["collective"], at_ns + S), at_ns + S)


def test_collectives_of_different_sizes_are_taken_by_rounds() -> None:
    pace = paced((1, 1, 1, 4, 4, 4, 16, 16, 16))
    assert set(pace.count_B.tolist()) == {9}
    assert np.ptp(pace.unit_s_B) < 1e-6


def test_without_a_round_they_are_taken_as_they_come() -> None:
    pace = paced((1,) * 9)
    assert np.ptp(pace.unit_s_B) > 0.01  # blocks of half a second: small ones, then large ones


def test_it_is_slower_if_fewer_units_come_in_the_same_time() -> None:
    end_B = np.cumsum([S] * 10 + [S * 11 // 10] * 5)
    pace = Pace(end_B - S, end_B, np.full(15, S), np.ones(15, np.int64), "step")  # longer are the pauses between
    assert pace.is_slower(int(end_B[9]), 0.05)
    assert not pace.is_slower(int(end_B[9]), 0.2)
    assert not pace.is_slower(int(end_B[5]), 0.1)
    assert pace.take(np.arange(15) > 12).is_slower(0, 0.5)  # nothing to hold it against


def test_nothing_has_no_pace() -> None:
    assert len(pace_of(table("step", []), lambda: calls_of(pa.table(tables([], [])["collective"]), T0), T0).end_B) == 0
