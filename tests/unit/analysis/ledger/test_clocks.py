"""Clocks without a fit: what the collectives tell of them. Times in ms."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from tests.builders.collectives import JOB, MS, T0, Call, collectives, empty

from leadline.analysis.columns import Floats
from leadline.analysis.ledger.collectives.arrivals import arrivals
from leadline.analysis.ledger.collectives.clocks import UNKNOWN_NS, Clocks, clocks, set_right
from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.segments import CATEGORIES
from leadline.analysis.spec import Window

RANKS = 6
COUNT = 40


def calls(ahead_R: Floats, late: int = -1, late_ms: float = 0.0) -> list[Call]:
    """Blocking all-reduces of ranks whose clocks are ahead, ends within 0.2 ms of each other."""
    rng = np.random.default_rng(5)
    found, free = [], 1000.0
    for seq in range(COUNT):
        arrived_R = free + 50 + rng.normal(0, 1, RANKS)
        if late >= 0:
            arrived_R[late] += late_ms
        ended_R = arrived_R.max() + 3 + rng.uniform(0, 0.2, RANKS)
        found += [
            Call(rank, seq, arrived_R[rank] + ahead_R[rank], ended_R[rank] + ahead_R[rank], ranks=RANKS)
            for rank in range(RANKS)
        ]
        free = ended_R.max()
    return found


def judged(rows: list[Call]) -> Clocks:
    """What the clocks are worth, without fits."""
    table = collectives(rows, bound_ns=None)
    arrived = arrivals(table)
    assert arrived is not None
    return clocks(table, arrived)


def test_clocks_that_may_agree_are_taken_as_they_are() -> None:
    found = judged(calls(np.zeros(RANKS)))
    assert not found.ahead_R.any()
    assert found.bound_R.max() < 1 * MS


@pytest.mark.parametrize("offset_ms", [8.0, 300.0, -5_000.0, 60_000.0])
def test_planted_offsets_are_found(offset_ms: float) -> None:
    ahead_R = np.zeros(RANKS)
    ahead_R[1], ahead_R[4] = offset_ms, -offset_ms / 3
    found = judged(calls(ahead_R))
    assert found.ahead_R / MS == pytest.approx(ahead_R, abs=0.3)
    assert found.bound_R.max() < 1 * MS


@pytest.mark.parametrize("offset_ms", [0.0, 300.0])
def test_a_rank_that_is_always_late_is_late_not_wrong(offset_ms: float) -> None:
    ahead_R = np.zeros(RANKS)
    ahead_R[1] = offset_ms
    rows = calls(ahead_R, late=2, late_ms=40)
    found = judged(rows)
    assert abs(int(found.ahead_R[2])) < 0.3 * MS
    window = Window(T0, T0 + 10_000 * MS, job=JOB)
    told, _ = from_collectives(collectives(rows, None), empty("step"), empty("edge"), empty("baseline"), window=window)
    lost: dict[str, float] = {}
    for place in range(len(told)):
        if CATEGORIES[told.category_N[place]] == "straggler":
            owner = told.owners[told.owner_N[place]]
            lost[owner] = lost.get(owner, 0.0) + told.lost_N[place] / MS
    assert lost.pop(f"rank:{JOB}/2") == pytest.approx(40 * (COUNT - 1), rel=0.05)
    assert sum(lost.values()) < 10


def test_few_collectives_tell_nothing() -> None:
    assert (judged(calls(np.zeros(RANKS))[: 3 * RANKS]).bound_R == UNKNOWN_NS).all()


def test_bounds_of_fits_are_believed() -> None:
    table = collectives(calls(np.zeros(RANKS)), bound_ns=77)
    arrived = arrivals(table)
    assert arrived is not None
    found = clocks(table, arrived)
    assert found.fitted
    assert found.bound_R.tolist() == [77] * RANKS


def test_a_communicator_of_which_no_row_is_left_is_passed_by() -> None:
    """Rows of one job of many keep the names of all communicators."""
    ahead_R = np.zeros(RANKS)
    ahead_R[1] = 300.0
    both = [*calls(ahead_R), Call(0, 0, 1, 2, comm="other/0x1", ranks=2)]
    table = collectives(both, bound_ns=None)
    names = table["comm"].combine_chunks().dictionary_encode()
    table = table.set_column(table.column_names.index("comm"), "comm", names)
    table = table.filter(pc.not_equal(table["comm"].cast(pa.string()), "other/0x1"))
    arrived = arrivals(table)
    assert arrived is not None
    assert len(arrived.cells.kind_C) == 2
    found = clocks(table, arrived)
    right = set_right(arrived.cells, found.ahead_R)
    assert right.arrival_X.shape == arrived.cells.arrival_X.shape
