"""Jobs that something befalls: what is drawn, what is right, and how soon it was told."""

from __future__ import annotations

from typing import Any

import pytest
from evals.jobs.stranger_cases import KINDS, befalls
from evals.jobs.stranger_scores import Score, false_before, named_first, named_share, slower, told_after_s, told_p95_s
from evals.jobs.watching import Seen, first_cause

from leadline.analysis.cause.rules import RULES

S = 10**9
RIGHT = {("rank:j/1", "killed")}


def cause(position: int, entity: str, rule: str, chosen: bool = True) -> dict[str, Any]:
    return {"position": position, "entity": entity, "rule": rule, "chosen": chosen}


def incident(*causes: dict[str, Any], job: str = "j", symptom: str = "crash") -> dict[str, Any]:
    return {"incident": "i", "entity": f"job:{job}", "job": job, "jobs": [job], "symptom": symptom, "causes": causes}


def score(told_s: float | None, named: bool = True) -> Score:
    return Score("j", "killed", named, told_s, 60.0, ("rank:j/1", "killed"), 0)


def test_the_first_chosen_cause_counts() -> None:
    assert first_cause(incident()) == ("", "")
    assert first_cause(incident(cause(2, "b", "straggler"), cause(1, "a", "killed"))) == ("a", "killed")
    assert first_cause(incident(cause(1, "a", "killed", chosen=False))) == ("", "")


def test_diagnose_is_asked_for_the_first_incident_of_the_job() -> None:
    lost, other = incident(symptom="telemetry-lost"), incident(cause(1, "x", "killed"), job="k")
    mine, second = incident(cause(1, "rank:j/1", "killed")), incident(cause(1, "rank:j/0", "killed"))
    assert named_first({"incidents": [lost, other, mine, second]}, "j") == ("rank:j/1", "killed")
    assert named_first({"incidents": [second, mine]}, "j") == ("rank:j/0", "killed")
    assert named_first({"incidents": [other]}, "j") == ("", "")


def test_told_is_when_a_right_cause_was_named_first_after_the_effect() -> None:
    causes = [(9 * S, "rank:j/1", "killed"), (11 * S, "rank:j/0", "killed"), (13 * S, "rank:j/1", "killed")]
    one = Seen("i", 9 * S, 14 * S, incident(), causes)
    assert told_after_s([one], RIGHT, 10 * S) == 3.0
    assert told_after_s([one], {("rank:j/1", "straggler")}, 10 * S) is None
    assert told_after_s([], RIGHT, 10 * S) is None
    assert false_before([one], 10 * S) == 1
    assert false_before([one], 9 * S) == 0


def test_what_was_never_told_counts_with_the_time_it_was_watched() -> None:
    assert told_p95_s([]) is None
    assert told_p95_s([score(None)]) == 60.0
    assert told_p95_s([score(2.0), score(4.0)]) == pytest.approx(3.9)
    assert named_share([score(2.0), score(None, named=False)]) == 0.5
    assert named_share([]) is None


def test_every_kind_comes_before_one_comes_again_and_the_same_seed_draws_the_same() -> None:
    drawn = befalls(2 * len(KINDS), 5)
    assert {each.kind.name for each in drawn[: len(KINDS)]} == {each.name for each in KINDS}
    assert drawn == befalls(2 * len(KINDS), 5) != befalls(2 * len(KINDS), 6)
    assert len({each.job for each in drawn}) == len(drawn)
    assert all(0 <= each.rank < each.ranks and each.marked in each.kind.marked for each in drawn)
    assert befalls(3, 1, "no such") == []


def test_the_truth_names_entities_and_rules_that_there_are() -> None:
    rules = {rule.name for rule in RULES}
    for each in befalls(len(KINDS), 1):
        truth = each.truth("h1")
        assert truth["right"]
        assert {rule for _, rule in truth["right"]} <= rules
        assert {entity for entity, _ in truth["right"]} <= {f"rank:{each.job}/{each.rank}", "host:h1"}


def test_a_program_is_told_what_befalls_it() -> None:
    told = {each.kind.name: each.program.partition(":")[0] for each in befalls(len(KINDS), 1)}
    assert told["slow-loader-unmarked"] == "slow-loader"
    assert told["killed"] == ""


def test_how_much_slower_steps_are_leaves_out_the_one_that_was_met() -> None:
    assert slower([0, 10, 20, 30, 55, 75, 95], 32) == 2.0
    assert slower([0, 10, 20], 32) is None
    assert slower([40, 50], 32) is None
