"""Slow ranks of a job: by their own times, without what they wait for others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pytest
from evals.stored import append, asked

from leadline.cli.words.slow_workers import slow_worker_lines
from leadline.model.principal import DEFAULT_CLUSTER, Principal, Role
from leadline.model.tables.training import COLLECTIVE, STEP
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.compare.sides import Reader
from leadline.views.compare.slow_workers import slow_workers
from leadline.views.incidents.diagnosis import diagnosis_answer

END_NS = 1_750_000_000 * 10**9
S = 10**9
STEPS, RANKS, SINCE, STEP_NS = 200, 6, 120, S


def own_times() -> np.ndarray:
    """What each rank takes itself (RANKS, STEPS), ns: rank 4 takes a third longer from step 120."""
    own = 400e6 * np.exp(0.02 * np.random.default_rng(3).normal(size=(RANKS, STEPS)))
    own[4, SINCE:] *= 1.33
    return own


def steps_of(job: str, took: np.ndarray) -> pa.Table:
    rank, step = (each.ravel() for each in np.indices(took.shape))
    start = END_NS - (STEPS - step) * STEP_NS
    return pa.table(
        {"job": [job] * len(rank), "rank": rank, "step": step, "start_ns": start,
         "end_ns": start + took.ravel().astype(np.int64),
         "metrics": pa.array([[]] * len(rank), pa.map_(pa.string(), pa.float64()))}
    )  # fmt: skip


def collectives_of(job: str, own: np.ndarray, ends: Sequence[float]) -> pa.Table:
    """Two collectives in each step, one inside the other: from when a rank has done its part to the common end."""
    rank, step = (each.ravel() for each in np.indices(own.shape))
    begin = END_NS - (STEPS - step) * STEP_NS
    asked_for, done = begin + own.ravel().astype(np.int64), begin + np.array(ends).astype(np.int64)[step]
    count = 2 * len(rank)
    both = np.tile(rank, 2)
    return pa.table(
        {"job": [job] * count, "comm": ["c"] * count, "ranks": [RANKS] * count, "rank": both,
         "seq": np.concatenate([2 * step, 2 * step + 1]), "op": ["all_reduce"] * count, "bytes": [8] * count,
         "dtype": ["f32"] * count, "enqueued_ns": np.concatenate([asked_for, asked_for + 1000]),
         "finished_ns": np.concatenate([done, done]), "state": ["finished"] * count, "source": ["torch-hook"] * count}
    )  # fmt: skip


@pytest.fixture(scope="module")
def reader(store: Store) -> Reader:
    """alone-1: ranks that do not wait; barrier-1: all steps end together, when the slowest rank has done its part."""
    own = own_times()
    append(store, STEP, steps_of("alone-1", own))
    whole = own.max(axis=0) + 20e6
    append(store, STEP, steps_of("barrier-1", np.tile(whole, (RANKS, 1))))
    append(store, COLLECTIVE, collectives_of("barrier-1", own, whole.tolist()))
    append(store, STEP, steps_of("hidden-1", np.tile(whole, (RANKS, 1))))
    return Reader(store, asked(END_NS))


@pytest.mark.parametrize(("job", "measure"), [("alone-1", "whole step"), ("barrier-1", "step less its collectives")])
def test_a_slow_rank_is_named_with_the_step_since_when(reader: Reader, job: str, measure: str) -> None:
    found = slow_workers(reader, job, 0, END_NS)
    assert (found["measure"], found["missing"]) == (measure, "")
    (slow,) = found["workers"]
    assert (slow["rank"], slow["until_step"], slow["from_start"]) == (4, None, False)
    assert abs(slow["since_step"] - SINCE) <= 1
    assert slow["since_ns"] == END_NS - (STEPS - slow["since_step"]) * STEP_NS
    assert slow["slowdown"] == pytest.approx(0.33, abs=0.05)


def test_behind_a_barrier_without_collectives_nobody_is_blamed(reader: Reader) -> None:
    assert slow_workers(reader, "hidden-1", 0, END_NS)["workers"] == []


def test_what_is_missing_is_said(reader: Reader) -> None:
    found = slow_workers(reader, "none-1", 0, END_NS)
    assert found["workers"] == []
    assert slow_worker_lines(found, show_missing=True) == ["unknown: it needs 3 workers (there are 0)"]
    assert slow_worker_lines(found) == []


def test_other_tenants_rows_are_not_looked_at(reader: Reader) -> None:
    other = Asked(Principal("acme", DEFAULT_CLUSTER, Role.TENANT_READ), DEFAULT_CLUSTER, END_NS)
    assert "there are 0" in slow_workers(Reader(reader.store, other), "barrier-1", 0, END_NS)["missing"]


def test_diagnose_says_it_of_the_job_that_is_asked_for(reader: Reader) -> None:
    (told,) = diagnosis_answer(reader.store, asked(END_NS), "alone-1")["slow_workers"]
    assert (told["job"], told["workers"][0]["rank"]) == ("alone-1", 4)
    assert slow_worker_lines(told)[0].startswith("rank 4: slow since step 1")
    assert diagnosis_answer(reader.store, asked(END_NS))["slow_workers"] == [], "of all jobs it would cost too much"
