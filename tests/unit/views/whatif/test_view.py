"""What a what-if says of stored operations: whole traces, those that cannot be replayed, and none."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from evals.stored import append, asked
from tests.builders.operation_traces import Planted, trace

from leadline.model.tables.training import OPERATION
from leadline.store import Store
from leadline.views.whatif.gpu_time import gpu_time
from leadline.views.whatif.types import WhatIfAnswer
from leadline.views.whatif.view import ROWS_MAX, what_if_answer
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import operation_rows

GOLDEN = Path(__file__).parents[3] / "golden"
END_NS = 1_750_000_000 * 10**9
S = 10**9


@pytest.fixture(scope="module")
def filled(store: Store) -> Store:
    """Three jobs: one with a slow worker, one of the PyTorch profiler, one that is half a step."""
    append(store, OPERATION, trace(Planted(slow_worker=(1, 2, 1.5)), END_NS - 1000 * S, "slow-1"))
    kineto = read_trace_file("k", (GOLDEN / "kineto_traces" / "ranks2_cut.json.gz").read_bytes())
    append(store, OPERATION, operation_rows([kineto], "kineto-1", END_NS))
    return store


def test_a_slow_worker_is_found_with_what_it_costs(filled: Store) -> None:
    answer = what_if_answer(filled, asked(END_NS), "job:slow-1")
    WhatIfAnswer.model_validate(answer)
    assert answer["cause"] == "slow-worker"
    assert (answer["place"]["dp_rank"], answer["place"]["stage"]) == (1, 2)
    worst = answer["workers"][0]
    assert (worst["dp_rank"], worst["stage"]) == (1, 2)
    assert worst["costs_s"] == pytest.approx((worst["slowdown"] - 1) * answer["ideal_s"])
    assert answer["causes"][0]["saves_s"] == pytest.approx(
        answer["causes"][0]["share"] * (answer["step_s"] - answer["ideal_s"])
    )
    assert (answer["steps"], answer["replicas"], answer["stages"], answer["why"]) == (4, 2, 4, "")
    assert answer["gpu_time"] == []


def test_a_span_keeps_to_its_steps(filled: Store) -> None:
    whole = what_if_answer(filled, asked(END_NS), "slow-1")
    half = what_if_answer(filled, asked((whole["from_ns"] + whole["to_ns"]) // 2), "slow-1")
    assert 0 < half["steps"] < whole["steps"]


def test_a_trace_without_a_schedule_says_what_is_missing_and_what_the_gpus_did(filled: Store) -> None:
    answer = what_if_answer(filled, asked(END_NS), "kineto-1")
    WhatIfAnswer.model_validate(answer)
    assert answer["slowdown"] is None
    assert "57 compute" in answer["why"]
    (rank,) = answer["gpu_time"]
    assert rank["compute_s"] + rank["exposed_s"] + rank["idle_s"] == pytest.approx(rank["whole_s"])
    assert rank["exposed_s"] > 0


def test_a_job_without_operations_says_how_to_import_them(filled: Store) -> None:
    answer = what_if_answer(filled, asked(END_NS), "slow-2")
    assert (answer["operations"], answer["slowdown"]) == (0, None)
    assert "leadline import trace FILE --job slow-2" in answer["why"]
    assert "did you mean slow-1" in answer["why"]


def test_the_newest_steps_are_taken_where_there_are_too_many(filled: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = what_if_answer(filled, asked(END_NS), "slow-1")
    assert whole["operations"] < ROWS_MAX
    monkeypatch.setattr("leadline.views.whatif.view.ROWS_MAX", whole["operations"] // 2)
    assert what_if_answer(filled, asked(END_NS), "slow-1")["steps"] == 2


def test_moments_of_a_gpu_count_once() -> None:
    rows = pa.table(
        {"rank": [0, 0, 0, 0], "kind": ["compute", "compute", "all-reduce", "host"], "start_ns": [0, 5, 8, 0],
         "duration_ns": [10, 10, 12, 900]}
    )  # fmt: skip
    (found,) = gpu_time(rows)
    assert {name: round(value * 1e9) for name, value in found.items() if name != "rank"} == {
        "whole_s": 20, "compute_s": 15, "exposed_s": 5, "idle_s": 0,
    }  # fmt: skip
