"""Slowdowns: since when, how much, to whom; and what is none."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.builders.fabrics import T0, S
from tests.builders.slow_jobs import blamed, both, slow_job, symptom, tables, window, working
from tests.builders.slow_jobs import told as told_by
from tests.builders.small_job import COMM, JOB, RANKS, collective, event, relations, step, table

from leadline.analysis.spec import Window
from leadline.analysis.symptoms.excursions import excursion, jump, level_of
from leadline.analysis.symptoms.slowdowns import slowdowns, writers


def told(given: Mapping[str, pa.Table], of: Window) -> list[dict[str, Any]]:
    return told_by(slowdowns, given, of)


def test_who_comes_last_is_blamed_within_ten_seconds() -> None:
    (row,) = told(slow_job(), window(10, 5))
    assert (row["symptom"], row["end_ns"]) == ("slow", None)
    assert row["start_ns"] == T0 + S  # when the first long step should have been over
    assert blamed(row)[0] == (f"rank:{JOB}/1", "straggler", "collectives")
    assert row["lost_gpu_seconds"] == pytest.approx(5 * 0.8 * RANKS)
    assert "+80 %" in row["evidence"][0]["text"]


def test_a_rank_that_waits_for_data_is_blamed_for_its_input() -> None:
    given = slow_job()
    rows = given["step"].to_pylist()
    for row in rows:
        if row["rank"] == 1 and row["start_ns"] >= T0:
            row["data_ns"], row["forward_ns"] = S, 10**8
    (row,) = told({**given, "step": table("step", rows)}, window(10, 5))
    assert blamed(row)[0] == (f"rank:{JOB}/1", "input", "collectives")


def test_collectives_that_take_longer_are_of_their_communicator() -> None:
    steps, calls = working(-30, 0)
    for at in range(6):
        begin_ns = T0 + at * 18 * S // 10
        for rank in range(RANKS):
            steps.append(step(rank, 30 + at, begin_ns, 18 * S // 10, backward=1550))
            calls += both(rank, 60 + at, begin_ns + 210 * 10**6, begin_ns + 15 * S // 10)
    (row,) = told(tables(steps, calls), window(10, 5))
    assert blamed(row) == [(f"comm:{COMM}", "communication", "collectives")]


def test_a_job_as_ever_is_not_slow() -> None:
    assert told(tables(*working(-30, 12)), window(10, 5)) == []


def test_one_long_step_is_no_slowdown() -> None:
    before, calls = working(-30, 0)
    long, more = working(0, 6, length_s=6.0, number=30, seq=60)
    after, last = working(6, 12, number=31, seq=62)
    assert told(tables(before + long + after, calls + more + last), window(10, 5)) == []


def test_what_a_debugger_holds_is_not_slow() -> None:
    """Rank 1 is held for three seconds in each of four steps; without the events that say so the job became slow."""
    before, calls = working(-30, 0)
    held, more = working(0, 14, length_s=3.5, number=30, seq=60, late={1: 3.0})
    given = tables(before + held, calls + more)
    assert told(given, window(14, 2)) != []
    events = [
        event(T0 + round((3.5 * number + at_s) * S), 1, kind)
        for number in range(4)
        for at_s, kind in ((0.2, "debugger-begin"), (3.2, "debugger-end"))
    ]
    assert told(tables(before + held, calls + more, events), window(14, 2)) == []
    assert told(tables(before + held, calls + more, events[:1]), window(14, 2)) == []  # it still is


def ledger_window(end_s: float, lost_share: float) -> dict[str, Any]:
    """Ten seconds of the ledger of the job that lost so much, to nobody in particular."""
    gpu_s = 10.0 * RANKS
    return {
        "job": JOB, "end_ns": T0 + round(end_s * S), "window_ns": 10 * S, "category": "unknown", "owner": "x",
        "gpu_seconds": gpu_s, "lost_gpu_seconds": lost_share * gpu_s, "depth": "steps", "seconds": 10.0,
        "lost_seconds": 10.0 * lost_share, "confidence": 1.0,
    }  # fmt: skip


@pytest.mark.parametrize(("long_steps", "slow"), [([5], False), ([1, 5, 9, 13], True)])
def test_one_pause_is_no_slowdown_by_the_ledger(long_steps: list[int], slow: bool) -> None:
    """An evaluation that nobody marked, across the edge of two windows of the ledger; pauses again and again are."""
    steps, calls = working(-40, 0)
    at = 0.0
    for number in range(18):
        length_s = 4.0 if number in long_steps else 1.0
        more, called = working(at, at + length_s, length_s=length_s, number=40 + number, seq=80 + 2 * number)
        steps, calls, at = steps + more, calls + called, at + length_s
    calm = [ledger_window(end_s, 0.0) for end_s in (-20, -10, 0)]
    given = tables(steps, calls, ledger=[*calm, ledger_window(10, 0.45), ledger_window(20, 0.45)])
    assert bool(told(given, window(22, 2))) == slow


def test_a_pause_on_a_restless_machine_is_no_slowdown() -> None:
    """Rank 0 writes for four seconds, unmarked, and then others use the machine: a tenth slower for ten seconds."""
    before, calls = working(-30, 0)
    pause, waited = working(0, 5, length_s=1.0, number=30, seq=60, late={0: 4.0})
    after, more = working(5, 16, length_s=1.12, number=31, seq=62)
    given = tables(before + pause + after, calls + waited + more)
    for end_s in (8, 10, 12, 14, 16):
        assert told(given, window(end_s, 2)) == [], end_s


def test_evaluations_that_a_job_has_made_from_its_begin_on_are_no_slowdown() -> None:
    """Every 20 s, for 4 s: each window of the ledger has some of one, and the job is too young to know them."""
    steps, calls, at = [], [], 0.0
    for number in range(36):
        length_s = 4.9 if number % 18 == 17 else 0.9
        more, called = working(at, at + length_s, length_s=length_s, number=number, seq=2 * number)
        steps, calls, at = steps + more, calls + called, at + length_s
    lost = {10: 0.0, 20: 0.32, 30: 0.08, 40: 0.3}
    missing = "collectives: steps alone do not say who made them long"
    ledger = [{**ledger_window(end_s, share), "owner": missing} for end_s, share in lost.items()]
    given = tables(steps, calls, ledger=ledger)
    for end_s in (24, 32, 40):
        assert told(given, window(end_s, 2)) == [], end_s


def test_a_few_seconds_that_nobody_makes_slow_are_no_slowdown() -> None:
    """As a machine that others use, too: all ranks alike, by a fifth, for eight seconds."""
    before, calls = working(-30, 0)
    slow, more = working(0, 8.4, length_s=1.2, number=30, seq=60)
    after, last = working(8.4, 12, number=37, seq=80)
    assert told(tables(before + slow + after, calls + more + last), window(10, 5)) == []


def test_a_checkpoint_is_taken_off_its_step() -> None:
    steps, calls = working(-30, 0)
    steps += [step(rank, 30 + at, T0 + at * 3 * S, 3 * S, checkpoint=2000) for at in range(3) for rank in range(RANKS)]
    assert told(tables(steps, calls), window(10, 5)) == []


def checkpoints(rank: int, seconds: tuple[float, ...]) -> dict[str, pa.Table]:
    """A job in which a rank writes a checkpoint after each five steps of a second, from its begin on; others wait for
    it in their next step, and the ledger calls that lost."""
    steps, calls, at, number = [], [], 0.0, 0
    ledger = []
    for took_s in seconds:
        for _ in range(4):
            more, called = working(at, at + 1.0, number=number, seq=2 * number)
            steps, calls, at, number = steps + more, calls + called, at + 1.0, number + 1
        more, called = working(at, at + 1.0 + took_s, 1.0, number=number, seq=2 * number, late={rank: took_s})
        for row in more:
            if row["rank"] == rank:
                row["checkpoint_ns"] = round(took_s * S)
        steps, calls, at, number = steps + more, calls + called, at + 1.0 + took_s, number + 1
    share = sum(seconds) / at
    for end_s in range(10, int(at) + 1, 10):
        ledger.append({**ledger_window(end_s, share), "category": "checkpoint", "owner": f"rank:{JOB}/{rank}"})
    return tables(steps, calls, ledger=ledger)


def test_checkpoints_that_the_same_rank_has_written_from_the_begin_on_are_no_slowdown() -> None:
    given = checkpoints(0, (0.6,) * 8)
    for end_s in range(20, 46, 2):
        assert told(given, window(end_s, 2)) == [], end_s


def test_checkpoints_that_take_twice_as_long_as_they_did_are_lost_time() -> None:
    given = checkpoints(0, (0.6, 0.6, 2.0, 2.0, 2.0, 2.0))
    assert writers(given["step"], window(40, 2)) == frozenset()
    assert writers(given["step"], window(10, 2)) == {f"rank:{JOB}/0"}


def test_a_job_without_steps_is_judged_by_its_collectives() -> None:
    given = slow_job()
    (row,) = told({**given, "step": table("step", [])}, window(10, 5))
    assert blamed(row)[0] == (f"rank:{JOB}/1", "straggler", "collectives")
    assert "one collective to the next" in row["evidence"][0]["text"]


def test_it_is_over_when_it_was_as_baseline_for_ten_seconds() -> None:
    before, calls = working(-30, 0)
    slow, more = working(0, 9, number=30, seq=60, late={1: 0.8})
    after, last = working(9, 21, number=35, seq=70)
    given = tables(before + slow + after, calls + more + last, symptom=[symptom(1.0, "slow", analysis="slowdowns")])
    assert told(given, window(15, 5))[0]["end_ns"] is None
    (row,) = told(given, window(20, 5))
    assert row["end_ns"] == T0 + 9 * S


def test_the_ledger_tells_whose_it_is_once_it_has_its_window() -> None:
    lost = {"job": JOB, "end_ns": T0 + 10 * S, "window_ns": 10 * S, "category": "communication", "seconds": 4.0}
    lost |= {"owner": f"rank:{JOB}/0>rank:{JOB}/1", "gpu_seconds": 16.0, "lost_seconds": 4.0, "lost_gpu_seconds": 16.0}
    given = {**slow_job(), "ledger": table("ledger", [{**lost, "confidence": 0.9, "depth": "collectives"}])}
    (row,) = told(given, window(15, 5))
    assert blamed(row)[0] == (f"rank:{JOB}/0>rank:{JOB}/1", "communication", "collectives")


def chained(*parts: tuple[float, float, float, Mapping[int, float]], **more: Any) -> dict[str, pa.Table]:
    """A job part by part: from when until when, the length of its steps, who comes late by how much; s."""
    steps, calls, number = list[dict[str, Any]](), list[dict[str, Any]](), 0
    for from_s, to_s, length_s, late in parts:
        found = working(from_s, to_s, length_s=length_s, number=number, seq=2 * number, late=late)
        steps, calls, number = steps + found[0], calls + found[1], number + len(found[0]) // RANKS
    return tables(steps, calls, **more)


# Rank 1 made it slow, and since it does so no more the job goes evenly, by a fifth slower than it did.
BEFORE = ((-70.0, -40.0, 1.0, {}), (-40.0, -30.0, 1.0, {1: 1.0}), (-30.0, 0.0, 1.2, {}))


def test_a_slowdown_ends_where_somebody_else_makes_the_job_much_slower() -> None:
    given = chained(*BEFORE, (0.0, 8.0, 1.2, {2: 1.5}), symptom=[symptom(-39.0, "slow", analysis="slowdowns")])
    ended, new = told(given, window(8, 2))
    assert (ended["start_ns"], new["end_ns"]) == (T0 - 39 * S, None)
    assert ended["end_ns"] == new["start_ns"] == T0 + round(1.2 * S)
    assert f"rank:{JOB}/2" not in {owner for owner, *_ in blamed(ended)}
    assert blamed(new)[0][0] == f"rank:{JOB}/2"
    assert new["lost_gpu_seconds"] == pytest.approx(2 * 1.5 * RANKS)  # beyond what it had lost before, too


def test_what_another_made_slower_is_over_when_it_is_as_slow_as_before() -> None:
    rows = [{**symptom(-39.0, "slow"), "end_ns": T0 + round(1.2 * S)}, symptom(1.2, "slow")]
    given = chained(*BEFORE, (0.0, 6.0, 1.2, {2: 1.5}), (5.4, 20.0, 1.2, {}), symptom=rows)
    (row,) = told(given, window(20, 2))
    assert (row["start_ns"], row["end_ns"]) == (T0 + round(1.2 * S), T0 + round(5.4 * S))


@pytest.mark.parametrize(
    ("before", "late"),
    [
        pytest.param((*BEFORE[:1], (-40.0, 0.0, 1.0, {1: 0.6})), {1: 2.0}, id="the-same-rank"),
        pytest.param(BEFORE, {2: 0.3}, id="by-little"),
        pytest.param((*BEFORE[:1], (-40.0, -12.0, 1.0, {1: 1.0}), (-12.0, 0.0, 1.2, {})), {2: 1.5}, id="soon"),
    ],
)
def test_what_grows_is_the_same_slowdown(before: Any, late: Mapping[int, float]) -> None:
    given = chained(*before, (0.0, 8.0, 1.2, late), symptom=[symptom(-39.0, "slow", analysis="slowdowns")])
    (row,) = told(given, window(8, 2))
    assert row["end_ns"] is None


def lost_by_the_ledger() -> list[dict[str, Any]]:
    rows = []
    for at in (0, 10, 20):
        kept = {"job": JOB, "end_ns": T0 + at * S, "window_ns": 10 * S, "category": "compute", "owner": None}
        kept |= {"seconds": 9.0, "gpu_seconds": 36.0, "lost_seconds": 0.0, "lost_gpu_seconds": 0.0}
        more = {"category": "straggler", "owner": f"rank:{JOB}/3", "seconds": 1.0, "gpu_seconds": 4.0}
        more |= {"lost_seconds": 1.0, "lost_gpu_seconds": 4.0} if at else {}
        rows += [{**each, "confidence": 0.9, "depth": "collectives"} for each in (kept, {**kept, **more})]
    return rows


def test_windows_of_the_ledger_that_lost_time_between_steps_are_a_slowdown() -> None:
    steps, calls = working(-30, 0)
    for at in range(21):  # steps as long as ever, and a pause after each
        more = working(1.12 * at, 1.12 * at + 1.0001, number=30 + at, seq=60 + 2 * at)
        steps, calls = steps + more[0], calls + more[1]
    (row,) = told(tables(steps, calls, ledger=lost_by_the_ledger()), window(25, 5))
    assert blamed(row)[0][:2] == (f"rank:{JOB}/3", "straggler")
    assert "by the ledger" in row["evidence"][0]["text"]


@pytest.mark.parametrize(
    ("late", "slow"),
    [
        ((2, 3, 2, 3, 2, 3, 2, 3, 1), True),  # those of one host, in turn
        ((0, 1, 2, 3), False),  # each in its turn: of two hosts one always has half
    ],
)
def test_ranks_of_one_host_that_are_late_in_turn_are_as_one(late: tuple[int, ...], slow: bool) -> None:
    steps, calls = working(-12, 0)
    for at in range(9):
        begin_s = 1.3 * at
        more = working(begin_s, begin_s + 1.31, late={late[at % len(late)]: 0.3}, number=12 + at, seq=24 + 2 * at)
        steps, calls = steps + more[0], calls + more[1]
    places = [
        {**each, "parent": f"host:h{int(str(each['child'])[-1]) // 2}"}
        if str(each["parent"]).startswith("host:")
        else each
        for each in relations(T0 - 600 * S)
    ]
    assert bool(told(tables(steps, calls, places=places), window(12, 2))) == slow


def owned_window(end_s: float, owner: int, share: float = 0.035) -> list[dict[str, Any]]:
    late = {"category": "straggler", "owner": f"rank:{JOB}/{owner}"}
    return [ledger_window(end_s, 0.0), {**ledger_window(end_s, share), **late, "gpu_seconds": 0.0}]


@pytest.mark.parametrize(
    ("owners", "calm_windows", "longer_s", "slow"),
    [
        ((3, 3, 3), 3, 1.06, True),
        ((3, 2, 3), 3, 1.06, False),  # chance blames now one, now another
        ((3, 3), 3, 1.06, False),
        ((3, 3, 3), 1, 1.06, False),  # it may always have been so
        ((3, 3, 3), 3, 1.02, False),  # steps are as short as ever
    ],
)
def test_a_little_that_the_same_rank_loses_again_and_again_is_a_slowdown(
    owners: tuple[int, ...], calm_windows: int, longer_s: float, slow: bool
) -> None:
    """Six per cent, which no single window and no sum of steps tells from noise."""
    steps, calls = working(-40, 0)
    more, called = working(0, 31, length_s=longer_s, number=40, seq=80)
    before = [ledger_window(-10.0 * number, 0.0) for number in range(calm_windows)]
    lost = [row for number, owner in enumerate(owners, 1) for row in owned_window(10.0 * number, owner)]
    rows = told(tables(steps + more, calls + called, ledger=[*before, *lost]), window(10.0 * len(owners) + 2, 2))
    assert bool(rows) == slow
    if slow:
        assert f"rank:{JOB}/3" in [owner for owner, *_ in blamed(rows[0])]


def test_what_the_ledger_calls_lost_while_work_goes_as_fast_is_no_slowdown() -> None:
    assert told(tables(*working(-30, 24), ledger=lost_by_the_ledger()), window(25, 5)) == []


def test_a_job_that_crashed_is_not_slow() -> None:
    given = {**slow_job(), "symptom": table("symptom", [symptom(-1, "crash")])}
    assert told(given, window(10, 5)) == []


def test_who_blames_nobody_says_what_is_missing() -> None:
    steps, _ = working(-30, 0)
    steps += working(0, 12, length_s=2.0, number=30)[0]
    (row,) = told(tables(steps), window(10, 5))
    assert (row["blamed"], row["missing"]) == ([], "collectives")


def test_the_level_of_blocks_is_their_median() -> None:
    level = level_of(np.array([1.0, 1.1, 0.9, 1.0, 1.0, 1.0, 5.0]))
    assert level is not None
    assert level.unit_s == 1.0
    assert level_of(np.array([1.0, 1.0])) is None


def test_a_jump_is_found_behind_trouble_of_any_kind() -> None:
    even = [3.5, 3.4, 3.5, 3.6, 3.4, 3.5, 3.6]
    found = jump(np.array([6.4, 5.8, 7.0, *even, 9.2, 9.4]))
    assert found is not None
    assert (found.even, found.first, found.level.unit_s) == (3, 10, 3.5)


@pytest.mark.parametrize(
    "blocks",
    [
        [3.5] * 7 + [9.2],  # one block
        [3.5] * 7 + [9.2, 3.5],  # it passed
        [3.5] * 7 + [4.5, 4.5],  # by little
        [3.5, 3.5, 6.0, 3.5, 3.5, 6.0, 3.5, 3.5, 9.2, 9.2],  # not even before
        [3.5] * 5 + [9.2, 9.2],
        [],
    ],
)
def test_what_is_no_jump(blocks: list[float]) -> None:
    assert jump(np.array(blocks)) is None


def test_an_excursion_that_passed_is_none() -> None:
    calm = [1.0, 1.02, 0.98, 1.01, 1.0, 0.99, 1.0, 1.0, 1.02, 1.0]
    assert excursion(np.array([*calm, 1.5, 1.5, 1.5, *calm])) is None
    found = excursion(np.array([*calm, 1.5, 1.5, 1.5]))
    assert found is not None
    assert found.first == len(calm)


def test_the_onset_is_not_drawn_to_a_pause_before_it() -> None:
    found = excursion(np.array([1.0, 1.02, 0.98, 1.01, 1.0, 0.99, 1.0, 1.0, 1.3, 1.0, 1.5, 1.5, 1.5, 1.5]))
    assert found is not None
    assert found.first == 10


def test_rows_of_json_that_is_none_are_survived() -> None:
    known = symptom(1.0, "slow", blamed="[{", evidence=json.dumps([{"table": 1}]))
    (row,) = told({**slow_job(), "symptom": table("symptom", [known])}, window(10, 5))
    assert row["start_ns"] == T0 + S


def test_calls_that_nobody_else_told_of_blame_nobody() -> None:
    steps, _ = working(-30, 0)
    steps += working(0, 12, length_s=2.0, number=30)[0]
    alone = [collective(0, at, T0 + at * S, T0 + at * S + 10**8) for at in range(-20, 10)]
    alone = [each for each in alone if each["seq"] >= 0]
    (row,) = told(tables(steps, alone), window(10, 5))
    assert row["blamed"] == []
