"""Healthy jobs: how old data is, which incidents are false, and whether a silence was told as one."""

from __future__ import annotations

from typing import Any

import pytest
from evals.jobs.healthy_cases import ALWAYS, CASES, programme
from evals.jobs.healthy_scores import (
    CATCH_UP_S,
    LOST,
    Age,
    Silence,
    age_p99_s,
    ages,
    lost_named,
    lost_share,
    of_jobs,
    oldest_s,
)
from evals.jobs.watching import Seen

S = 10**9
RANK = ("own-1", 0)


def ages_s(*given: Any) -> list[float]:
    return [each.age_s for each in ages(*given)]


def of(*ages_s: float) -> list[Age]:
    return [Age(0, RANK, each) for each in ages_s]


def seen(name: str, at_s: float, **row: Any) -> Seen:
    return Seen(name, round(at_s * S), round(at_s * S), {"incident": name, "entity": "host:h1", **row})


def test_age_is_since_the_end_of_the_oldest_step_that_is_not_stored() -> None:
    ends = {RANK: [10 * S, 15 * S, 20 * S]}
    newest = [
        (12 * S, {RANK: 10 * S}),  # all that ended is stored, though the newest is 2 s old
        (16 * S, {RANK: 10 * S}),  # one waits since 1 s
        (22 * S, {RANK: 10 * S}),  # two wait, the older one since 7 s
        (22 * S, {}),  # nothing came yet
        (9 * S, {}),  # before its first step ended
    ]
    assert ages_s(newest, ends, []) == [0.0, 1.0, 7.0, 12.0]


def test_age_is_that_of_the_worst_rank_while_its_job_runs() -> None:
    other = ("own-2", 1)
    ends = {RANK: [10 * S, 11 * S], other: [10 * S, 12 * S]}
    assert ages_s([(14 * S, {RANK: 11 * S, other: 10 * S})], ends, []) == [2.0]
    long_after_ns = round((12 + CATCH_UP_S + 1) * S)
    assert ages_s([(long_after_ns, {RANK: 11 * S, other: 10 * S})], ends, []) == []


def test_silences_of_ours_and_the_time_to_catch_up_are_left_out_of_the_age() -> None:
    ends, cut = {RANK: [10 * S, 100 * S]}, Silence("cut", 20 * S, 40 * S, "h1")
    asked = [(at * S, dict[Any, int]()) for at in (19, 20, 39, 54, 55)]
    assert ages_s(asked, ends, [cut]) == [9.0, 45.0]


def test_percentile_of_ages() -> None:
    assert age_p99_s([]) is None
    assert age_p99_s(of(*[1.0] * 200, 50.0)) == 1.0
    assert age_p99_s(of(*[1.0] * 50, 50.0)) == pytest.approx(25.5)
    assert oldest_s([*of(1.0, 3.04, 2.0), Age(0, ("own-2", 3), 0.5)]) == {"own-1": 3.0, "own-2": 0.5}


def test_only_lost_telemetry_is_no_incident_of_a_job() -> None:
    told = [seen("a", 1, symptom="stall"), seen("b", 1, symptom=LOST)]
    assert [each.incident for each in of_jobs(told)] == ["a"]


def test_a_long_silence_has_to_be_told_in_time_and_with_the_name_of_the_sender() -> None:
    cut, late, short = (
        Silence("cut", 100 * S, 160 * S, "h1"),
        Silence("agent-late", 300 * S, 360 * S, "h1", asked=False),
        Silence("agent-kill", 500 * S, 505 * S, "h1"),
    )
    right = seen("right", 135, symptom=LOST)
    assert lost_named([cut, late, short], [right]) == ([cut], [], [])
    assert lost_named([cut], [seen("too late", 191, symptom=LOST)])[0] == []
    assert lost_named([cut], [seen("too early", 99, symptom=LOST)])[0] == []
    assert lost_named([cut], [seen("a stall", 135, symptom="stall")]) == ([], [cut], [])
    other = seen("other", 135, symptom=LOST, entity="host:h2")
    assert lost_named([cut], [other]) == ([], [cut], [other])
    assert lost_named([late, short], [seen("of late", 350, symptom=LOST)]) == ([], [], [])


def test_a_server_that_was_away_makes_nobody_lost() -> None:
    away = Silence("server-term", 100 * S, 160 * S, "")
    told = seen("told", 120, symptom=LOST)
    assert lost_named([away], []) == ([], [], [])
    assert lost_named([away], [told]) == ([], [], [told])


def test_share_of_silences_named() -> None:
    cut, told = Silence("cut", 0, 60 * S, "h1"), seen("x", 1)
    assert lost_share([], [], []) is None
    assert lost_share([cut], [], []) == 1.0
    assert lost_share([cut], [cut], [told, told]) == 0.25


def test_a_programme_is_as_long_as_asked_and_has_a_cut() -> None:
    whole = programme(30, seed=1)
    assert 28 * 60 <= sum(case.takes_s for case in whole) <= 30 * 60
    assert sorted(case.name for case in whole[: len(CASES)]) == sorted(case.name for case in CASES)
    assert whole[0].name == ALWAYS
    assert {case.ranks for case in whole} == {1, 2, 8}
    assert whole == programme(30, seed=1) != programme(30, seed=2)
    assert programme(5, seed=3)[0].name == ALWAYS
    assert len(programme(1, seed=1)) >= 1


def test_chosen_cases_come_once() -> None:
    assert [case.name for case in programme(30, 1, "agent-k")] == ["agent-kill"]
    assert programme(30, 1, "nothing") == []
    assert len({case.name for case in CASES}) == len(CASES)
