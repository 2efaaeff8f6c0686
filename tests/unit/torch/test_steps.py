"""Steps and their phases, said by the loop or shown by loader and optimiser."""

from __future__ import annotations

import itertools
import math
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import torch
from tests.unit.torch.job import rows_of

from leadline.torch.identity import identity_from
from leadline.torch.rings import Rings
from leadline.torch.steps import Steps

Rows = Callable[[], list[dict[str, Any]]]
IDENTITY = identity_from({"LEADLINE_JOB": "loop-1", "RANK": "3", "WORLD_SIZE": "4"}, "n1")
SLEEP_S = 0.002
SLEEP_NS = 2_000_000


@pytest.fixture
def errors() -> Counter[str]:
    return Counter()


@pytest.fixture
def rings(tmp_path: Path) -> Iterator[Rings]:
    opened = Rings(tmp_path, IDENTITY)
    yield opened
    opened.close()


@pytest.fixture
def steps(rings: Rings, errors: Counter[str]) -> Steps:
    return Steps(rings, lambda reason: errors.update([reason]))


@pytest.fixture
def rows(tmp_path: Path) -> Rows:
    return lambda: rows_of(tmp_path)["step"]


def test_a_step_with_every_phase(steps: Steps, rows: Rows) -> None:
    before = time.time_ns()
    with steps.step(7) as step:
        for phase in (step.data, step.forward, step.backward, step.optimizer, step.checkpoint):
            with phase():
                time.sleep(SLEEP_S)
        step.samples, step.tokens, step.loss = 8, 512, torch.tensor(2.5, requires_grad=True)
        step.metrics({"accuracy": torch.tensor(0.5), "perplexity": 12, "confusion": torch.ones(2, 2), "none": None})
    (row,) = rows()
    assert (row["job"], row["rank"], row["step"], row["host"]) == ("loop-1", 3, 7, "n1")
    assert (row["samples"], row["tokens"], row["loss"]) == (8.0, 512.0, 2.5)
    assert {name: float(value) for name, value in row["metrics"]} == {"accuracy": 0.5, "perplexity": 12.0}
    phases = [row[f"{name}_ns"] for name in ("data", "forward", "backward", "optimizer", "checkpoint")]
    assert all(phase >= SLEEP_NS for phase in phases)
    assert before <= row["start_ns"]
    assert row["end_ns"] - row["start_ns"] >= sum(phases)


def test_a_phase_in_pieces_adds_up_and_one_that_did_not_happen_is_not_known(steps: Steps, rows: Rows) -> None:
    with steps.step() as step:
        for _ in range(3):
            with step.forward():
                time.sleep(SLEEP_S)
    (row,) = rows()
    assert row["forward_ns"] >= 3 * SLEEP_NS
    assert row["backward_ns"] is None
    assert row["loss"] is None


def test_steps_without_a_number_are_counted(steps: Steps, rows: Rows) -> None:
    for given in (None, None, 10, None):
        with steps.step(given):
            pass
    assert [row["step"] for row in rows()] == [0, 1, 10, 11]


def test_the_users_exception_passes_and_its_step_has_no_end(steps: Steps, rows: Rows) -> None:
    with pytest.raises(ZeroDivisionError), steps.step() as step, step.forward():
        1 / 0  # noqa: B018
    assert rows() == []
    with steps.step():
        pass
    assert [row["step"] for row in rows()] == [1]


def slow(count: int) -> Iterator[int]:
    for number in range(count):
        time.sleep(SLEEP_S)
        yield number


def test_a_watched_loader_fills_the_data_phase_of_the_step_that_follows(steps: Steps, rows: Rows) -> None:
    seen = []
    for batch in steps.watched(slow(3)):
        with steps.step():
            seen.append(batch)
    assert seen == [0, 1, 2]
    found = rows()
    assert len(found) == 3
    for row in found:
        assert row["data_ns"] >= SLEEP_NS
        assert row["end_ns"] - row["start_ns"] >= row["data_ns"]  # the step began with the fetch
    assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(found))


def test_a_watched_loader_read_inside_the_step(steps: Steps, rows: Rows) -> None:
    batches = steps.watched(slow(2))
    for _ in range(2):
        with steps.step():
            next(batches)
    assert [row["data_ns"] >= SLEEP_NS for row in rows()] == [True, True]


def test_a_loop_that_says_nothing_is_cut_at_the_optimiser(steps: Steps, rows: Rows) -> None:
    for _ in steps.watched(slow(3)):
        steps.optimizer_begins()
        time.sleep(SLEEP_S)
        steps.optimizer_ended()
    found = rows()
    assert [row["step"] for row in found] == [0, 1, 2]
    assert all(row["data_ns"] >= SLEEP_NS and row["optimizer_ns"] >= SLEEP_NS for row in found)
    assert all(a["end_ns"] <= b["start_ns"] for a, b in itertools.pairwise(found))


def test_accumulated_batches_are_one_step(steps: Steps, rows: Rows) -> None:
    for number in steps.watched(slow(4)):
        if number % 2:
            steps.optimizer_begins()
            steps.optimizer_ended()
    found = rows()
    assert len(found) == 2
    assert all(row["data_ns"] >= 2 * SLEEP_NS for row in found)


def test_only_an_optimiser_its_first_step_began_nobody_knows_when(steps: Steps, rows: Rows) -> None:
    for _ in range(3):
        steps.optimizer_begins()
        steps.optimizer_ended()
    assert len(rows()) == 2


def test_values_that_are_no_numbers_are_counted(steps: Steps, errors: Counter[str]) -> None:
    assert steps.number_of("12.5") == 12.5
    assert math.isnan(steps.number_of(float("nan")) or 0.0)  # kept: it is what one looks for
    assert steps.number_of(torch.ones(2)) is None
    assert steps.number_of(torch.ones(1, device="meta")) is None
    assert errors == {"not_a_number": 1, "device_value": 1}


def test_an_error_of_ours_stays_here(steps: Steps, errors: Counter[str], monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: object, **__: object) -> None:
        raise OSError("ours")

    monkeypatch.setattr(Rings, "of_thread", broken)
    with steps.step() as step, step.forward():
        pass
    assert errors["hook_error"] == 2
