"""The ledger from collectives, on timelines whose answer is known. Times in ms; `=` is the collective."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.collectives import JOB, MS, T0, Call, baseline, collectives, edges, empty, steps

from leadline.analysis.ledger.collectives.collectives import from_collectives
from leadline.analysis.ledger.collectives.edges import slow_rank
from leadline.analysis.ledger.segments import CATEGORIES
from leadline.analysis.spec import Window

COMM = f"comm:{JOB}/0x1"
WHAT = f"all_reduce 1024 B on 3 of {JOB}/0x1"


def told(
    calls: Sequence[Call],
    step: pa.Table | None = None,
    edge: pa.Table | None = None,
    known: pa.Table | None = None,
    to: float = 1000,
    bound_ns: int | None = 0,
) -> tuple[list[tuple[str, str, float, float, float]], dict[str, int]]:
    """Spans as (category, owner, begin, end, lost), ms, and what is missing."""
    found, missing = from_collectives(
        collectives(calls, bound_ns),
        empty("step") if step is None else step,
        empty("edge") if edge is None else edge,
        empty("baseline") if known is None else known,
        window=Window(T0, T0 + round(to * MS), job=JOB),
    )
    spans = [
        (
            str(CATEGORIES[found.category_N[place]]), found.owners[found.owner_N[place]],
            (found.begin_N[place] - T0) / MS, (found.end_N[place] - T0) / MS, found.lost_N[place] / MS,
        )
        for place in range(len(found))
    ]  # fmt: skip
    return spans, missing


def met(seq: int, arrived: Sequence[float], end: float, **more: object) -> list[Call]:
    """One collective of all ranks, with one end."""
    return [Call(rank, seq, at, end, **more) for rank, at in enumerate(arrived)]  # type: ignore[arg-type]


def test_the_late_arrival_is_blamed_beyond_what_its_peers_took() -> None:
    # 0 |====|.....40.....|wait wait|====|
    # 1 |====|.....40.....|wait wait|====|
    # 2 |====|........100...........|====|
    spans, missing = told([*met(0, (0, 0, 0), 10), *met(1, (50, 50, 110), 120)], to=120)
    assert spans == [
        ("communication", COMM, 0, 10, 0),
        ("compute", f"job:{JOB}", 10, 50, 0),
        ("straggler", f"rank:{JOB}/2", 50, 110, 60),
        ("communication", COMM, 110, 120, 0),
    ]
    assert not missing


def test_ranks_that_are_slow_alike_are_compute() -> None:
    spans, _ = told([*met(0, (0, 0, 0), 10), *met(1, (110, 110, 110), 120)], to=120)
    assert spans[1] == ("compute", f"job:{JOB}", 10, 110, 0)


def test_the_last_of_ranks_that_differ_by_chance_is_no_straggler() -> None:
    spans, _ = told([*met(0, (0, 0, 0), 10), *met(1, (40, 50, 54), 60)], to=60)
    assert [span[:2] for span in spans] == [
        ("communication", COMM), ("compute", f"job:{JOB}"), ("communication", COMM)
    ]  # fmt: skip


def test_lateness_below_the_bounds_of_the_clocks_is_not_told() -> None:
    calls = [*met(0, (0, 0, 0), 10), *met(1, (50, 50, 60), 70)]
    assert ("straggler", f"rank:{JOB}/2", 50, 60, 10) in told(calls, to=70, bound_ns=9 * MS)[0]
    assert ("compute", f"job:{JOB}", 10, 60, 0) in told(calls, to=70, bound_ns=11 * MS)[0]


def test_a_wait_for_input_of_one_rank_is_its_input() -> None:
    # 2 waits 70 ms for input, then works for 30 as the others do for 40
    step = steps([(0, 0, 10, 120, 1, 30, 79), (1, 0, 10, 120, 1, 30, 79), (2, 0, 10, 120, 70, 10, 30)])
    spans, _ = told([*met(0, (0, 0, 0), 10), *met(1, (50, 50, 110), 120)], step=step, to=120)
    assert spans[1:4] == [
        ("input", f"job:{JOB}", 10, 11, 0),
        ("input", f"rank:{JOB}/2", 11, 80, 60),
        ("compute", f"job:{JOB}", 80, 110, 0),
    ]


def test_communication_beyond_the_baseline_is_lost() -> None:
    spans, _ = told(met(0, (0, 0, 0), 50), known=baseline({WHAT: 20}), to=50)
    assert spans == [("communication", COMM, 0, 50, 30)]


def test_what_is_lost_goes_to_the_edge_that_held_more_than_the_median() -> None:
    edge = edges({(0, 1): 0.01, (1, 2): 0.04, (2, 0): 0.01})
    spans, _ = told(met(0, (0, 0, 0), 60), edge=edge, known=baseline({WHAT: 30}), to=60)
    by_owner: dict[str, list[float]] = {}
    for _, owner, begin, end, lost in spans:
        sums = by_owner.setdefault(owner, [0.0, 0.0])
        sums[0] += end - begin
        sums[1] += lost
    assert by_owner == {
        f"rank:{JOB}/0>rank:{JOB}/1": pytest.approx([10, 0]),
        f"rank:{JOB}/1>rank:{JOB}/2": pytest.approx([40, 30]),
        f"rank:{JOB}/2>rank:{JOB}/0": pytest.approx([10, 0]),
    }


@pytest.mark.parametrize(
    ("into", "out", "owner"),
    [
        (0.10, 0.34, ("straggler", f"rank:{JOB}/1")),  # it neither takes nor gives
        (0.69, 0.01, ("communication", f"rank:{JOB}/0>rank:{JOB}/1")),  # full one way
    ],
)
def test_edges_of_one_rank_that_hold_both_ways_are_the_ranks_lateness(
    into: float, out: float, owner: tuple[str, str]
) -> None:
    edge = edges({(0, 1): into, (1, 2): out, (2, 0): 0.01})
    spans, _ = told(met(0, (0, 0, 0), 60), edge=edge, known=baseline({WHAT: 30}), to=60)
    lost: dict[tuple[str, str], float] = {}
    for category, whose, _, _, each in spans:
        lost[category, whose] = lost.get((category, whose), 0.0) + each
    assert max(lost, key=lambda key: lost[key]) == owner
    assert sum(lost.values()) == pytest.approx(30)


def test_slow_rank_is_none_of_two_and_none_where_all_hold() -> None:
    pairs = np.array([[0, 1], [1, 0]])
    assert slow_rank(pairs, np.ones(2)) is None  # either of the two
    ring = np.array([[0, 1], [1, 2], [2, 3], [3, 0]])
    assert slow_rank(ring, np.ones(4)) is None
    assert slow_rank(ring, np.array([0.3, 0.4, 0.01, 0.01])) == 1
    assert slow_rank(np.zeros((0, 2), np.int64), np.zeros(0)) is None


def test_collectives_that_are_as_often_shorter_than_baseline_lose_nothing() -> None:
    rows, at = [], 0
    for number in range(20):
        length = 30 if number % 2 else 10
        rows += met(number, (at, at, at), at + length)
        at += length + 10
    spans, _ = told(rows, known=baseline({WHAT: 20}), to=at)
    assert sum(lost for category, _, _, _, lost in spans if category == "communication") == pytest.approx(0, abs=1)


def test_a_bucket_that_is_hidden_behind_the_backward_pass_is_not_communication() -> None:
    # bucket 1 is asked for at 40 and over at 50, the backward pass goes on until bucket 2 at 90
    #   ==== 0 |.......40(1)===50.........90(2)====100|
    calls = [*met(0, (0, 0, 0), 10), *met(1, (40, 40, 40), 50), *met(2, (90, 90, 90), 100)]
    step = steps([(rank, 0, 10, 105, 0, 20, 71) for rank in range(3)])
    spans, _ = told(calls, step=step, to=100)
    assert spans == [
        ("communication", COMM, 0, 10, 0),
        ("compute", f"job:{JOB}", 10, 90, 0),
        ("communication", COMM, 90, 100, 0),
    ]
    bare, _ = told(calls, to=100)  # without phases nobody can know that the ranks did not wait
    assert ("communication", COMM, 40, 50, 0) in bare


def test_who_comes_last_and_waits_for_nobody_asked_within_its_backward_pass_too() -> None:
    # as above, but rank 2 asks for bucket 2 as that is over: its pass ends then; bucket 1 is hidden as to the others
    calls = [*met(0, (0, 0, 0), 10), *met(1, (40, 40, 40), 50), *met(2, (90, 90, 100), 100)]
    spans, _ = told(calls, step=steps([(rank, 0, 10, 105, 0, 20, 70) for rank in range(3)]), to=100)
    assert ("communication", COMM, 40, 50, 0) not in spans
    assert [each for each in spans if each[0] == "straggler"] == [("straggler", f"rank:{JOB}/2", 90, 100, 10)]


def test_a_bucket_that_is_overtaken_is_hidden_without_phases() -> None:
    calls = [*met(0, (0, 0, 0), 10), *met(1, (40, 40, 40), 95), *met(2, (90, 90, 90), 100)]
    spans, _ = told(calls, to=100)
    # 2 queues behind 1, and 1 was asked for after 30 ms of own work: the exposed part begins with it
    assert spans[-2:] == [("communication", COMM, 40, 95, 0), ("communication", COMM, 95, 100, 0)]


def test_the_path_goes_through_the_communicator_that_let_the_last_one_go() -> None:
    # tensor pairs (0,1) and (2,3), data pairs (0,2) and (1,3): 3 is slow in its pair, 2 comes late to 0 for it
    pair = {"ranks": 2}
    calls = [
        Call(0, 0, 10, 12, comm="j/t0", **pair), Call(1, 0, 10, 12, comm="j/t0", **pair),
        Call(2, 0, 10, 62, comm="j/t1", **pair), Call(3, 0, 60, 62, comm="j/t1", **pair),
        Call(0, 0, 22, 75, comm="j/d0", **pair), Call(2, 0, 72, 75, comm="j/d0", **pair),
    ]  # fmt: skip
    step = steps([(rank, 0, 0, 80, 0, 5, 0) for rank in range(4)])
    spans, _ = told(calls, step=step, to=75)
    assert ("straggler", "rank:j/3", 10, 60, 50) in spans
    assert [span for span in spans if span[0] == "straggler"] == [("straggler", "rank:j/3", 10, 60, 50)]


def test_a_receive_waits_for_its_send() -> None:
    # stage 0 works until 50 and sends, stage 1 has waited since 5
    calls = [
        Call(0, 0, 0, 2, comm="j/p", ranks=2, op="all_reduce"), Call(1, 0, 0, 2, comm="j/p", ranks=2, op="all_reduce"),
        Call(0, 0, 50, 51, comm="j/p", ranks=2, op="send"), Call(1, 0, 5, 60, comm="j/p", ranks=2, op="recv"),
    ]  # fmt: skip
    spans, _ = told(calls, to=60)
    assert spans[1:] == [
        ("compute", "job:j", 2, 50, 0),
        ("communication", "rank:j/0>rank:j/1", 50, 60, 0),
    ]


def test_who_never_came_to_a_failed_collective_is_late() -> None:
    calls = [*met(0, (0, 0, 0), 10), *(Call(rank, 1, 50, 500, failed=True) for rank in (0, 1))]
    spans, _ = told(calls, to=500)
    assert spans[-1] == ("straggler", "rank:j/2", 50, 500, 450)


def test_who_has_not_come_by_the_end_is_late_beyond_what_the_others_took() -> None:
    calls = [*met(0, (0, 0, 0), 10), Call(0, 1, 50), Call(1, 1, 50)]
    spans, _ = told(calls, to=400)
    assert spans[1:] == [("compute", "job:j", 10, 50, 0), ("straggler", "rank:j/2", 50, 400, 350)]


def test_a_collective_that_all_came_to_and_nobody_leaves_is_communication() -> None:
    spans, _ = told([*met(0, (0, 0, 0), 10), *(Call(rank, 1, 50) for rank in range(3))], to=400)
    assert spans[-1] == ("communication", COMM, 50, 400, 0)


def test_ranks_that_nobody_heard_of_leave_a_hole_by_name() -> None:
    # of a communicator of 3 only 2 told: the third may have come last
    calls = [Call(0, 0, 0, 10), Call(1, 0, 0, 10), Call(0, 1, 50, 120), Call(1, 1, 50, 120)]
    spans, missing = told(calls, known=baseline({WHAT: 10}), to=120)
    assert ("communication", COMM, 50, 60, 0) in spans
    assert not [span for span in spans if span[3] > 60]
    assert missing == {"collectives of 1 of 3 ranks": 60 * MS}


def test_a_job_that_began_anew_counts_from_0_again() -> None:
    later = 5_000
    calls = [*met(0, (0, 0, 0), 10), *met(1, (50, 50, 110), 120)]
    again = [Call(call.rank, call.seq, call.arrived + later, (call.ended or 0) + later) for call in calls]
    spans, missing = told([*calls, *again], to=later + 120)
    assert ("straggler", "rank:j/2", later + 50, later + 110, 60) in spans
    assert not missing


def test_without_fits_and_with_few_collectives_nothing_is_told() -> None:
    spans, missing = told(met(0, (0, 0, 0), 10), to=10, bound_ns=None)
    assert not spans
    assert missing == {"clocks without a fit": 10 * MS}


def test_numbers_that_belong_to_nothing_are_refused() -> None:
    calls = [Call(rank, rank * 2**40, 0, 10) for rank in range(3)]
    assert told(calls, to=10) == ([], {"collectives with numbers that belong together": 10 * MS})
