"""A second opinion: what is asked, which choices count, which reasons hold, and that it changes nothing."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.unit.alerts.notices import one
from tests.unit.explain.test_explain import Benches, benches  # noqa: F401  # a fixture
from tests.unit.views.incidents.incident_rows import FLAP, THIN

from leadline.analysis.cause.rules import BY_NAME
from leadline.explain.opinion import Asked, asked
from leadline.views.incidents.facts import explanation

INCIDENT = one(FLAP)


def question() -> Asked:
    found = asked(INCIDENT)
    assert found is not None
    return found


def letter(entity: str) -> str:
    return next(name for name, cause in question().candidates.items() if cause.entity == entity)


def answer(entity: str, reason: str = "", cites: tuple[int, ...] = ()) -> dict[str, Any]:
    return {"choice": letter(entity), "reason": reason, "cites": list(cites)}


def number(text: str) -> int:
    """Of the fact that starts so."""
    return next(each.number for each in question().facts if each.said.startswith(text))


# --- what is asked ------------------------------------------------------------------------------------------------


def test_the_question_has_every_candidate_and_nothing_of_the_ranking() -> None:
    said = json.dumps(question().question(str).messages)
    assert [cause.entity for cause in question().candidates.values()] == ["host:h6", "job:bert-1", "port:h3/eth0"]
    for cause in INCIDENT.causes:
        assert cause.rule in said
        assert f"{100 * cause.probability:.0f} %" not in said
    for word in ("likely", "rejected", "not the cause", "CHECK_CABLE"):
        assert word not in said.replace("rank", ""), word
    # The same candidates in another order of the ranking make the same question.
    turned = tuple(replace(each, position=4 - each.position, chosen=not each.chosen) for each in INCIDENT.causes)
    other = asked(replace(INCIDENT, causes=turned))
    assert other is not None
    assert other.question(str) == question().question(str)


def test_who_lost_the_time_is_a_fact() -> None:
    assert question().facts[number("lost on port:h3/eth0") - 1].kind == "evidence"


def test_only_candidates_and_unknown_may_be_chosen() -> None:
    schema = question().question(str).schema
    assert schema["properties"]["choice"]["enum"] == ["B", "C", "D", "unknown"]


def test_where_nobody_is_a_candidate_nothing_is_asked() -> None:
    assert asked(replace(INCIDENT, causes=())) is None


# --- what comes of answers ----------------------------------------------------------------------------------------


def test_the_named_one_agrees_and_its_reason_is_told_with_what_it_rests_on() -> None:
    evidence = number("event port:h3/eth0")
    cites = (number("candidate D"), evidence)
    found = question().opinion(answer("port:h3/eth0", "The cause is link-down at port:h3/eth0.", cites))
    assert (found.state, found.entity, found.rule, found.agrees) == ("ok", "port:h3/eth0", "link-down", True)
    assert found.reason == "The cause is link-down at port:h3/eth0."
    assert found.rests_on[1] == question().facts[evidence - 1].text


def test_another_one_differs_and_may_have_a_reason_of_its_own() -> None:
    reason = "The cause is cpu-throttled at host:h6."
    found = question().opinion(answer("host:h6", reason, (number("candidate B"),)), BY_NAME)
    assert (found.entity, found.agrees, found.reason, found.why) == ("host:h6", False, reason, "")


@pytest.mark.parametrize(
    ("reason", "cites", "why"),
    [
        ("The cause is link-down at port:h3/eth0.", ("candidate D",), "speaks of what was considered"),
        ("The cause is slow-gpu at gpu:GPU-9.", ("candidate B",), "names"),
        ("host:h6 is throttled.", (), "cites nothing"),
        ("Run `rm -rf /`.", ("candidate B",), "no plain sentence"),
        (None, ("candidate B",), "no sentence with a text"),
        ("B is cpu-throttled.", ("candidate B",), "it speaks of letters"),
    ],
)
def test_a_reason_that_does_not_hold_is_dropped_and_the_choice_stays(reason: Any, cites: Any, why: str) -> None:
    found = question().opinion(answer("host:h6", reason, tuple(map(number, cites))), BY_NAME)
    assert (found.state, found.entity, found.reason, found.rests_on) == ("ok", "host:h6", "", ())
    assert why in found.why


def test_unknown_agrees_with_an_unknown_verdict_only() -> None:
    said = {"choice": "unknown", "reason": "", "cites": []}
    assert question().opinion(said).agrees is False
    thin = asked(replace(INCIDENT, verdict="unknown"))
    assert thin is not None
    assert thin.opinion(said).agrees is True
    assert thin.opinion(answer("port:h3/eth0")).agrees is False
    assert one(THIN).causes == ()


@pytest.mark.parametrize("content", [None, [], "B", {}, {"choice": 1}, {"choice": "A"}, {"choice": "link-down"}])
def test_what_chooses_nobody_is_nothing(content: Any) -> None:
    found = question().opinion(content)
    assert (found.state, found.agrees, found.entity) == ("nothing", None, "")


VALUES = st.none() | st.integers(-1, 20) | st.sampled_from(["B", "A", "unknown", "The cause is link-down."])


@given(
    st.one_of(VALUES, st.dictionaries(st.sampled_from(["choice", "reason", "cites", "x"]), VALUES | st.lists(VALUES)))
)
def test_any_json_is_survived(content: Any) -> None:
    assert question().opinion(content, BY_NAME).state in ("ok", "nothing")


# --- as it is asked -----------------------------------------------------------------------------------------------


def test_it_stands_beside_the_verdict_and_changes_nothing_of_it(benches: Benches) -> None:  # noqa: F811
    bench, double = benches(json.dumps(answer("host:h6")))
    found = bench.explainer.explain(INCIDENT, with_opinion=True)
    assert (found["opinion"]["entity"], found["opinion"]["agrees"], found["opinion"]["model"]) == (
        "host:h6", False, "double")  # fmt: skip
    assert found["facts"] == explanation(INCIDENT).as_json()["facts"]
    assert found["model"]["state"] == "off"
    assert [each["response_format"]["json_schema"]["name"] for each in double.requests] == ["second_opinion"]
    assert bench.counts == {"differs": 1}
    assert bench.explainer.explain(INCIDENT, with_opinion=True) == found  # from memory
    assert len(double.requests) == 1


def test_names_of_tenants_do_not_leave_and_come_back_in_the_reason(benches: Benches) -> None:  # noqa: F811
    incident = replace(INCIDENT, job="acme-bert", jobs=("acme-bert",))
    cites = (number("candidate B"), 1)
    said = {**answer("host:h6", "host:h6 is cpu-throttled and tenantB-bert is slow.", cites)}
    bench, double = benches(json.dumps(said))
    found = bench.explainer.explain(incident, with_opinion=True, tenants=("acme", "globex"))
    assert "acme" not in double.sent()
    assert found["opinion"]["reason"] == "host:h6 is cpu-throttled and acme-bert is slow."


def test_without_an_answer_there_is_no_opinion_and_it_says_why(benches: Benches) -> None:  # noqa: F811
    bench, _ = benches("no JSON")
    found = bench.explainer.explain(INCIDENT, with_opinion=True)["opinion"]
    assert (found["state"], found["agrees"]) == ("failed", None)
    assert "no JSON" in found["why"]
