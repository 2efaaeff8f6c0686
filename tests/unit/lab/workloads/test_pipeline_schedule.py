"""The 1F1B schedule, carried out: every micro-batch passes every stage, and nobody waits for ever."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.faults.application.imbalanced_stage import compared
from leadline.lab.workloads.pipeline.job import Pipeline, StageStep, steps_in
from leadline.lab.workloads.pipeline.schedule import (
    Work,
    bubble_ratio,
    layers_of,
    one_forward_one_backward,
    peers_of,
    place_of,
)
from leadline.model.errors import UsageError

STAGES = st.integers(1, 9)
MICRO_BATCHES = st.integers(1, 20)


def ends_of(
    stages: int, micro_batches: int, seconds: list[float], backward: float = 2.0
) -> dict[tuple[int, Work], float]:
    """Carry the schedules of all stages out; when each pass ends.

    `seconds` is each stage's forward pass; messages take no time. A pass waits for the stage before it (forward) or
    after it (backward), and for what its own stage does before. Fails if nobody can go on.
    """
    todo = [one_forward_one_backward(stages, stage, micro_batches) for stage in range(stages)]
    free, ends = [0.0] * stages, dict[tuple[int, Work], float]()
    while any(todo):
        ready = []
        for stage, works in enumerate(todo):
            if works:
                other = stage + (-1 if works[0].kind == "forward" else 1)
                if not 0 <= other < stages or (other, works[0]) in ends:
                    ready.append((stage, ends.get((other, works[0]), 0.0)))
        assert ready, f"all stages wait for each other: {[works[:1] for works in todo]}"
        for stage, arrived in ready:
            work = todo[stage].pop(0)
            took = seconds[stage] * (backward if work.kind == "backward" else 1.0)
            ends[stage, work] = free[stage] = max(free[stage], arrived) + took
    return ends


@given(STAGES, MICRO_BATCHES)
def test_every_stage_does_every_pass_once_and_in_order(stages: int, micro_batches: int) -> None:
    for stage in range(stages):
        works = one_forward_one_backward(stages, stage, micro_batches)
        for kind in ("forward", "backward"):
            assert [work.micro_batch for work in works if work.kind == kind] == list(range(micro_batches))


@given(STAGES, MICRO_BATCHES)
def test_a_stage_holds_no_more_than_it_must(stages: int, micro_batches: int) -> None:
    for stage in range(stages):
        held, most = 0, 0
        for work in one_forward_one_backward(stages, stage, micro_batches):
            held += 1 if work.kind == "forward" else -1
            most = max(most, held)
            assert held >= 0, "no gradient without a forward pass"
        assert most == min(stages - stage, micro_batches)


@given(STAGES, MICRO_BATCHES, st.data())
def test_nobody_waits_for_ever_however_long_each_stage_takes(
    stages: int, micro_batches: int, data: st.DataObject
) -> None:
    seconds = data.draw(st.lists(st.floats(0.01, 10.0), min_size=stages, max_size=stages))
    ends = ends_of(stages, micro_batches, seconds)
    assert len(ends) == 2 * stages * micro_batches
    slowest = max(seconds) * 3.0 * micro_batches
    assert max(ends.values()) >= slowest * (1 - 1e-9)


@given(STAGES, MICRO_BATCHES)
def test_even_stages_take_as_long_as_the_paper_says(stages: int, micro_batches: int) -> None:
    ends = ends_of(stages, micro_batches, [1.0] * stages)
    step = max(ends.values())
    assert step == 3.0 * (micro_batches + stages - 1)
    assert 1 - 3.0 * micro_batches / step == pytest.approx(bubble_ratio(stages, micro_batches))


@given(STAGES, MICRO_BATCHES, st.data())
def test_what_is_sent_is_received_in_the_same_order(stages: int, micro_batches: int, data: st.DataObject) -> None:
    """Messages of one direction are matched by their order alone."""
    if stages < 2:
        return
    stage = data.draw(st.integers(0, stages - 2))
    here, there = (one_forward_one_backward(stages, each, micro_batches) for each in (stage, stage + 1))
    for kind in ("forward", "backward"):
        assert [w for w in here if w.kind == kind] == [w for w in there if w.kind == kind]


@given(st.integers(0, 40), STAGES)
def test_every_layer_is_in_one_stage(layers: int, stages: int) -> None:
    cut = [layers_of(layers, stages, stage) for stage in range(stages)]
    assert [layer for each in cut for layer in each] == list(range(layers))
    assert max(map(len, cut)) - min(map(len, cut)) <= 1


@given(STAGES, st.integers(1, 5), st.data())
def test_neighbours_know_each_other(stages: int, replicas: int, data: st.DataObject) -> None:
    rank = data.draw(st.integers(0, stages * replicas - 1))
    place = place_of(rank, stages, replicas)
    assert (place.before is None, place.after is None) == (place.stage == 0, place.stage == stages - 1)
    if place.after is not None:
        after = place_of(place.after, stages, replicas)
        assert (after.stage, after.replica, after.before) == (place.stage + 1, place.replica, rank)
    peers = peers_of(place.stage, stages, replicas)
    assert rank in peers
    assert {place_of(peer, stages, replicas).stage for peer in peers} == {place.stage}
    assert len(peers) == replicas


def line(number: int, compute_s: float, stage: int = 0) -> str:
    told = {"rank": 0, "event": "step", "number": number, "stage": stage, "replica": 0, "seconds": 1.0}
    return json.dumps({**told, "compute_seconds": compute_s, "waiting_seconds": 0.25, "end_ns": 7}) + "\n"


def test_steps_are_read_off_a_log_that_was_cut() -> None:
    text = 'nds": 0.5}\n' + line(3, 0.5) + "something else\n" + line(4, 0.75) + line(5, 0.5)[:-9]
    assert steps_in(text) == [StageStep(3, 0, 0, 1.0, 0.5, 0.25, 7), StageStep(4, 0, 0, 1.0, 0.75, 0.25, 7)]


def test_an_imbalance_is_seen_in_what_the_ranks_wrote_down() -> None:
    steps = {
        rank: steps_in("".join(line(n, 0.6 if rank == 1 and n > 5 else 0.2) for n in range(12))) for rank in range(4)
    }
    assert compared(steps, [1]) == {"compute_ms": 600.0, "others_compute_ms": 200.0, "ratio": 3.0}
    assert compared(steps, [2])["ratio"] == 1.0
    assert compared({0: [], 1: []}, [1]) == {"compute_ms": None, "others_compute_ms": None, "ratio": None}


@pytest.mark.parametrize("wrong", [{"replicas": 0}, {"stages": -1}, {"micro_batches": 0}])
def test_an_impossible_pipeline_is_refused(wrong: dict[str, int]) -> None:
    with pytest.raises(UsageError, match="pipeline-1 needs"):
        Pipeline(**wrong)
