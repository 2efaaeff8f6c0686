"""The what-if replay: what was published is found, and planted causes are told from each other, in place too."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from tests.builders.operation_traces import Planted, trace

from leadline.analysis.ledger.operations.cause import Cause, finding
from leadline.analysis.ledger.operations.trace import Trace, read_trace
from leadline.analysis.ledger.operations.whatif import WhatIf, what_if
from leadline.wire.traces.read import read_trace_file
from leadline.wire.traces.trace_file import operation_rows

GOLDEN = Path(__file__).parents[3] / "golden" / "straggler_whatif"


def answers_of(planted: Planted) -> WhatIf:
    found, left = read_trace(trace(planted))
    assert found is not None
    assert not left.steps
    return what_if(found)


@pytest.fixture(scope="module")
def published() -> WhatIf:
    file = read_trace_file("ST", (GOLDEN / "trace-ST.csv.gz").read_bytes())
    found, _ = read_trace(operation_rows([file], "ST", 1_750_000_000 * 10**9))
    assert isinstance(found, Trace)
    return what_if(found)


def told(name: str) -> dict[str, dict[str, float]]:
    found: dict[str, dict[str, float]] = json.loads((GOLDEN / name).read_text())
    return found


@pytest.mark.parametrize(
    ("part", "key"),
    [("by_dp_rank", "dp_rank"), ("by_stage", "stage"), ("by_kind", "optype")],
)
def test_slowdown_left_by_each_part_is_the_published_one(published: WhatIf, part: str, key: str) -> None:
    wanted = told("result-ST.json")[f"blocking_decompose_by_{key}"]
    found = {str(name): value for name, value in getattr(published, part).items()}
    assert found == pytest.approx(wanted, rel=1e-5)


def test_slowdown_and_shares_are_the_published_ones(published: WhatIf) -> None:
    result = json.loads((GOLDEN / "result-ST.json").read_text())
    assert published.slowdown == pytest.approx(result["blocking_slowdown"], rel=1e-5)
    assert published.mended_by_workers == pytest.approx(told("mw-ST.json")["Mw"], rel=1e-3)
    assert published.mended_by_last_stage == pytest.approx(told("ms-ST.json")["Ms"], rel=1e-5)


def test_steps_take_what_was_published_with_and_without_delays_and_ideally(published: WhatIf) -> None:
    result, replay = told("result-ST.json"), published.replay
    every, none = replay.everything_DO, ~replay.everything_DO
    for key, lengths_T in (
        ("step_t_base", replay.lengths_T(every, delays=True)),
        ("step_t_nodelay", replay.lengths_T(every)),
        ("step_t_noblk", replay.lengths_T(none)),
    ):
        wanted = [result[key][str(step)] for step in published.trace.step_T]
        assert lengths_T / 1e9 == pytest.approx(wanted, rel=1e-5)


CAUSES = {
    "nothing": (Planted(), Cause.NONE, None),
    "nothing but launch delays": (Planted(launch_s=0.002), Cause.NONE, None),
    "slow worker": (Planted(slow_worker=(1, 2, 1.8)), Cause.WORKER, (1, 2)),
    "slow worker in the last stage": (Planted(dp=4, slow_worker=(2, 3, 1.6)), Cause.WORKER, (2, 3)),
    "slow worker, virtual stages": (Planted(vpp=2, slow_worker=(0, 1, 1.8), no_ops=True), Cause.WORKER, (0, 1)),
    "slow worker, no pipeline": (Planted(pp=1, dp=4, slow_worker=(2, 0, 1.5)), Cause.WORKER, (2, 0)),
    "long last stage": (Planted(long_stage=(3, 1.6)), Cause.STAGE, (-1, 3)),
    "long last stage, virtual stages": (Planted(vpp=2, long_stage=(3, 1.6)), Cause.STAGE, (-1, 3)),
    "long first stage": (Planted(long_stage=(0, 1.6)), Cause.STAGE, (-1, 0)),
    "long last stage of one replica": (Planted(dp=1, long_stage=(3, 1.6)), Cause.STAGE, (-1, 3)),
    "sequences": (Planted(dp=4, lengths=0.5, steps=8), Cause.SEQUENCE, (-1, -1)),
    "sequences, virtual stages": (Planted(dp=4, vpp=2, lengths=0.5, no_ops=True), Cause.SEQUENCE, (-1, -1)),
    "sequences, eight stages": (Planted(pp=8, micro_batches=16, lengths=0.5), Cause.SEQUENCE, (-1, -1)),
    "sequences, so few that replicas differ": (
        Planted(dp=4, pp=2, micro_batches=4, lengths=0.7, seed=273542),
        Cause.SEQUENCE,
        (-1, -1),
    ),
    "sequences, no pipeline": (Planted(pp=1, dp=4, lengths=0.4, steps=6), Cause.SEQUENCE, (-1, -1)),
    "sequences, and a stage a little long": (Planted(dp=4, lengths=0.5, long_stage=(3, 1.25)), Cause.SEQUENCE, None),
    "a stage very long, and sequences a little": (Planted(lengths=0.05, long_stage=(3, 1.8)), Cause.STAGE, (-1, 3)),
    "slow link": (Planted(slow_link=(1, 1, 0.15)), Cause.COMMUNICATION, (1, 1)),
    "slow link, virtual stages": (Planted(vpp=2, slow_link=(1, 1, 0.1)), Cause.COMMUNICATION, (1, 1)),
    "stalls of the forward": (Planted(dp=4, stalls=(0.08, 0.4), steps=8), Cause.GARBAGE, (-1, -1)),
}


@pytest.mark.parametrize("name", CAUSES)
def test_a_planted_cause_is_found_where_it_was_planted(name: str) -> None:
    planted, cause, place = CAUSES[name]
    found = finding(answers_of(planted))
    assert found.cause is cause, found.share
    assert place is None or (found.dp_rank, found.stage) == place


def test_a_slow_link_is_named_by_its_ranks_sender_first() -> None:
    assert finding(answers_of(Planted(slow_link=(1, 1, 0.15)))).link == (3, 5)


def test_the_slowest_worker_is_the_planted_one_and_ideal_mends_all() -> None:
    answers = answers_of(Planted(dp=4, slow_worker=(2, 1, 2.0)))
    assert answers.slowest[0] == answers.top_worker == (2, 1)
    assert answers.mended_by_workers > 0.9
    assert abs(answers.mended_by_last_stage) < 0.1


def test_of_more_than_a_hundred_workers_the_slowest_four_are_mended() -> None:
    """3 % of 104 workers, rounded up: two slow ones are mended among them."""
    answers = answers_of(Planted(dp=52, pp=2, micro_batches=2, steps=2, slow_worker=(7, 0, 2.0)))
    assert answers.slowest[0] == (7, 0)
    assert answers.mended_by_workers > 0.9


@pytest.mark.parametrize("no_ops", [False, True])
def test_virtual_stages_replay_as_they_ran_whether_no_ops_are_recorded_or_not(no_ops: bool) -> None:
    answers = answers_of(Planted(vpp=3, pp=2, lengths=0.3, no_ops=no_ops))
    replay = answers.replay
    observed_T = answers.trace.end_TDO.max((1, 2))
    np.testing.assert_allclose(replay.lengths_T(replay.everything_DO), observed_T, atol=10)


def test_where_replicas_differ_more_than_stages_the_top_worker_is_of_the_slowest_replica() -> None:
    """All workers of the slowest stage have the same S_w then: it is the lesser of its replica's and its stage's."""
    answers = answers_of(Planted(dp=4, lengths=0.5))
    dp_rank, stage = answers.top_worker
    assert answers.by_dp_rank[dp_rank] == max(answers.by_dp_rank.values())
    assert answers.by_stage[stage] == max(answers.by_stage.values())
    assert answers.by_worker[dp_rank, stage] == max(answers.by_worker.values())
