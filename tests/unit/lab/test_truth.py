"""The truth file: written before, corrected after, whole at every moment."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from leadline.lab.run import lost_gpu_seconds, with_death
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
    assert lost_gpu_seconds([*usual, *slow, *after], 10 * second, 16 * second, gpus=8) == 2 * 2 * 8
    assert lost_gpu_seconds(usual, 5 * second, 10 * second, gpus=8) == 0
    assert lost_gpu_seconds(usual[:2], 2 * second, 5 * second, gpus=8) is None  # nothing to compare with


def test_a_job_that_died_does_nothing_from_its_last_step_on() -> None:
    second = 10**9
    steps = [(n * second, (n + 1) * second) for n in range(5)]
    assert with_death(steps, {0: None, 1: 0}, 9 * second) == steps
    assert with_death(steps, {0: 0, 1: 0}, 9 * second) == steps
    dead = with_death(steps, {0: 1, 1: -9}, 9 * second)
    assert dead == [*steps, (5 * second, 9 * second)]
    assert lost_gpu_seconds(dead, 5 * second, 9 * second, gpus=2) == (4 - 1) * 2
    assert with_death([], {0: 1}, 9 * second) == []
