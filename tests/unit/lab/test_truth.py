"""The truth file: written before, corrected after, whole at every moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from leadline.lab.loss import Loss, Span, losses, until_now
from leadline.lab.truth import Entry, TruthFile, read_truth
from leadline.model.errors import DataError

ENTRY = Entry(
    fault="slow-worker",
    component=("host:h3", "rank:bert-1/2"),
    layer="host",
    fault_class="gray",
    onset_ns=10,
    end_ns=20,
)


def test_it_is_on_disk_when_the_call_returns_and_corrected_later(tmp_path: Path) -> None:
    truth = TruthFile(tmp_path / "a" / "run.truth.json", "demo", 7)
    number = truth.plan(ENTRY)
    planned = json.loads(truth.path.read_text())
    assert planned["seed"] == 7
    assert planned["scenario"] == "demo"
    assert planned["faults"][0] | {} == {
        "fault": "slow-worker",
        "component": ["host:h3", "rank:bert-1/2"],
        "layer": "host",
        "class": "gray",
        "onset_ns": 10,
        "end_ns": 20,
        "lost_gpu_seconds": None,
        "decoy": False,
        "magnitude": None,
        "parameters": None,
        "seen_in": "lab",
        "shared": False,
        "seen": None,
    }
    truth.change(number, onset_ns=12, end_ns=25, seen={"after": {"throttled": 4}}, lost_gpu_seconds=3.5)
    entries, seed, scenario = read_truth(truth.path)
    assert (seed, scenario) == (7, "demo")
    assert entries == list(truth.entries)
    assert (entries[0].onset_ns, entries[0].end_ns, entries[0].lost_gpu_seconds) == (12, 25, 3.5)
    assert not list(tmp_path.glob("a/*.part"))


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"faults": [{}], "seed": 1, "scenario": "x"}', '{"faults": 3}'])
def test_what_is_no_truth_file_is_told(tmp_path: Path, text: str) -> None:
    path = tmp_path / "x.truth.json"
    path.write_text(text)
    with pytest.raises(DataError, match="a truth file with faults, seed and scenario"):
        read_truth(path)


def test_lost_seconds_are_what_steps_took_longer_than_usual() -> None:
    second = 10**9
    usual = [(n * second, (n + 1) * second) for n in range(10)]  # ten steps of 1 s
    slow = [(10 * second, 13 * second), (13 * second, 16 * second)]  # two of 3 s, from the onset on
    after = [(16 * second, 17 * second)]
    fault = Span(10 * second, 16 * second)
    assert losses([*usual, *slow, *after], [fault], gpus=8) == [Loss(2 * 2 * 8, shared=False)]
    assert losses(usual, [Span(5 * second, 10 * second)], gpus=8) == [Loss(0, shared=False)]
    assert losses(usual[:2], [Span(2 * second, 5 * second)], gpus=8) == [None]  # nothing to compare with


def test_what_two_faults_slow_together_is_divided_and_said() -> None:
    second = 10**9
    usual = [(n * second, (n + 1) * second) for n in range(10)]
    slow = [(10 * second, 12 * second), (12 * second, 16 * second), (16 * second, 18 * second)]  # 1, 3 and 1 s too long
    first, second_fault = Span(10 * second, 16 * second), Span(12 * second, 18 * second)
    decoy, late_decoy = Span(10 * second, 18 * second, decoy=True), Span(20 * second, 22 * second, decoy=True)
    steps = [*usual, *slow, (18 * second, 19 * second), (19 * second, 22 * second)]
    found = losses(steps, [first, second_fault, decoy, late_decoy], gpus=2)
    assert found == [
        Loss(2 * (1 + 1.5), shared=True),
        Loss(2 * (1.5 + 1), shared=True),
        Loss(0, shared=True),  # the faults explain all of it
        Loss(2 * 2, shared=False),  # nothing else was there: what it cost is told, though it is no fault
    ]
    assert sum(loss.gpu_seconds for loss in found[:2] if loss) == 2 * (1 + 3 + 1), "never more than was lost"


@given(
    st.lists(st.tuples(st.integers(0, 60), st.integers(1, 30), st.booleans()), max_size=5),
    st.lists(st.integers(1, 9), min_size=5, max_size=30),
)
def test_faults_together_never_cost_more_than_was_lost(spans: list[tuple[int, int, bool]], lengths: list[int]) -> None:
    steps, at = [], 0
    for length in lengths:
        steps.append((at, at + length))
        at += length
    found = losses(steps, [Span(onset, onset + lasts, decoy) for onset, lasts, decoy in spans], gpus=1)
    real = [loss.gpu_seconds for loss, (_, _, decoy) in zip(found, spans, strict=True) if loss and not decoy]
    # Whatever was taken for usual, a step loses at most all of itself, once.
    assert sum(real) * 1e9 <= sum(lengths) + 1e-6
    assert all(loss is None or loss.gpu_seconds >= 0 for loss in found)


def test_places_stand_beside_the_faults(tmp_path: Path) -> None:
    truth = TruthFile(tmp_path / "x.truth.json", "x", 3)
    truth.tell({"machines": {"m1": ["h1", "h2"]}, "placement": {"a": ["h2"]}})
    truth.plan(ENTRY)
    told = json.loads(truth.path.read_text())
    assert told["machines"] == {"m1": ["h1", "h2"]}
    assert told["placement"] == {"a": ["h2"]}
    assert read_truth(truth.path)[1:] == (3, "x")


def test_a_job_that_hangs_or_died_loses_all_from_its_last_step_on() -> None:
    second = 10**9
    steps = [(n * second, (n + 1) * second) for n in range(5)]
    fault = Span(5 * second, 9 * second)
    for codes in ({0: 1, 1: -9}, {0: None, 1: -9}, {0: None, 1: None}):  # died; others still wait for it; all hang
        found = until_now(steps, codes, 9 * second)
        assert found == [*steps, (5 * second, 9 * second)]
        assert losses(found, [fault], gpus=2) == [Loss((4 - 1) * 2, shared=False)]
    at_work = until_now(steps, {0: None}, 5 * second + second // 2)
    assert losses(at_work, [fault], gpus=2) == [Loss(0.0, shared=False)]
    assert until_now(steps, {0: 0, 1: 0}, 9 * second) == steps, "it is done"
    assert until_now(steps, {}, 9 * second) == steps, "it is preempted"
    assert until_now([], {0: 1}, 9 * second) == []


def test_a_step_that_was_long_before_the_fault_began_cost_what_was_left_of_it() -> None:
    second = 10**9
    steps = [(at * second, (at + 1) * second) for at in range(5)] + [(5 * second, 15 * second)]
    (found,) = losses(steps, [Span(14 * second, 20 * second)], 4)
    assert found == Loss(4.0, False), "a checkpoint of nine seconds, and one second of a fault"
