"""What people say of causes: what is taken, what is refused and why, and what becomes of rules."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from tests.unit.views.incidents.incident_rows import FLAP, NOW, ROWS, THIN, WORKER, S, cause, incident
from tests.unit.views.paths.path_rows import append, filled

from leadline.cli.show.rules import state_of
from leadline.model.errors import RefusedError, UsageError
from leadline.model.incidents import RULE_MARKS_MIN, Mark
from leadline.model.principal import Principal, Role
from leadline.store import Store
from leadline.views.asked import Asked
from leadline.views.incidents.marks import Feedback, marks_answer, save_mark
from leadline.views.incidents.similar import similar_answer
from leadline.views.rules import rules_answer

OPERATOR = Principal()
ACME = Principal("acme", "default", Role.TENANT_WRITE)
BETA = Principal("beta", "default", Role.TENANT_WRITE)
BOTH = "both-slow-1"
RIGHT = Feedback(FLAP, Mark.RIGHT)


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Store]:
    """The incidents, and one that hurts two tenants and has two causes of which beta is told one."""
    two = {
        "incident": [incident(BOTH, "bert-1", -48), incident(BOTH, "resnet-2", -48, tenant="beta")],
        "cause": [
            cause(BOTH, 1, "port:h3/eth0", "link-down", 0.5, -48),
            cause(BOTH, 2, "host:h6", "cpu-throttled", 0.5, -48, chosen=True),
            cause(BOTH, 1, "port:h3/eth0", "link-down", 0.9, -48, tenant="beta"),
        ],
    }
    with filled(tmp_path_factory.mktemp("marks"), ROWS) as store:
        append(store, two)
        yield store


def stored(store: Store) -> list[dict[str, object]]:
    rows: list[dict[str, object]] = store.query("SELECT * FROM leadline.mark ORDER BY time_ns").to_pylist()
    return rows


def test_the_one_cause_that_is_named_is_meant_where_none_is_given(store: Store) -> None:
    (row,) = save_mark(store, OPERATOR, replace(RIGHT, actor="kim", reason="cable swapped"), NOW)
    assert (row["entity"], row["rule"], row["mark"]) == ("port:h3/eth0", "link-down", "right")
    assert (row["tenant"], row["actor"]) == ("acme", "operator:default/kim")
    assert row in stored(store)


def test_a_tenant_marks_its_own_and_cannot_tell_that_others_are_there(store: Store) -> None:
    (row,) = save_mark(store, ACME, replace(RIGHT, mark=Mark.WRONG), NOW + S)
    assert row["actor"] == "tenant-write:acme"
    with pytest.raises(RefusedError, match="no incident 'bert-1-slow-1'") as refused:
        save_mark(store, BETA, RIGHT, NOW)
    assert refused.value.reason == "unknown_incident"
    with pytest.raises(RefusedError, match="no incident 'nothing'"):
        save_mark(store, BETA, Feedback("nothing", Mark.RIGHT), NOW)


def test_a_token_to_operate_one_tenant_marks(store: Store) -> None:
    (row,) = save_mark(store, replace(ACME, role=Role.TENANT_OPERATE, name="kim"), RIGHT, NOW + 2 * S)
    assert (row["tenant"], row["actor"]) == ("acme", "tenant-operate:acme/kim")


@pytest.mark.parametrize("role", [Role.TENANT_READ, Role.SENDER, Role.PROVIDER])
def test_who_may_only_read_or_send_may_not_mark(store: Store, role: Role) -> None:
    with pytest.raises(RefusedError, match=f"role {role} may not mark"):
        save_mark(store, replace(ACME, role=role), RIGHT, NOW)


def test_an_incident_of_two_tenants_is_marked_for_both_by_the_operator(store: Store) -> None:
    rows = save_mark(store, OPERATOR, Feedback(BOTH, Mark.DISMISSED, reason="a drill"), NOW + 2 * S)
    assert [(row["tenant"], row["entity"], row["rule"]) for row in rows] == [
        ("acme", "job:bert-1", ""), ("beta", "job:resnet-2", "")]  # fmt: skip
    rows = save_mark(store, OPERATOR, Feedback(BOTH, Mark.RIGHT, rule="cpu-throttled"), NOW + 3 * S)
    assert [row["tenant"] for row in rows] == ["acme"]


@pytest.mark.parametrize(
    ("said", "told"),
    [
        (
            Feedback(FLAP, Mark.RIGHT, "host:h6"),
            "was considered .* not named; its causes are link-down at port:h3/eth0",
        ),
        (Feedback(FLAP, Mark.RIGHT, "host:h1"), "host:h1 is no cause of bert-1-slow-1; its causes are link-down"),
        (Feedback(FLAP, Mark.WRONG, rule="slow-gpu"), "slow-gpu is no cause"),
        (Feedback(BOTH, Mark.WRONG), "has several causes, link-down at .*, cpu-throttled at host:h6; say which"),
        (Feedback(THIN, Mark.WRONG), "has no named cause, so none is wrong; dismiss the incident"),
        (Feedback(FLAP, Mark.DISMISSED, reason=" "), "say in `reason` why"),
        (Feedback(FLAP, Mark.DISMISSED, "port:h3/eth0", reason="x"), "`dismissed` is of an incident as a whole"),
        (Feedback(FLAP, Mark.COMMENT, reason=" "), "a comment is empty"),
        (Feedback(FLAP, Mark.ASSIGNED, rule="link-down", reason="kim"), "`assigned` is of an incident as a whole"),
    ],
)
def test_what_is_refused_says_what_to_do(store: Store, said: Feedback, told: str) -> None:
    before = len(stored(store))
    principal = ACME if said.incident == BOTH else OPERATOR
    with pytest.raises(UsageError, match=told):
        save_mark(store, principal, said, NOW)
    assert len(stored(store)) == before


def test_comments_and_who_takes_care_are_rows_beside_the_marks(store: Store) -> None:
    save_mark(store, OPERATOR, Feedback(WORKER, Mark.WRONG, actor="kim", reason="it was the fan"), NOW)
    save_mark(store, ACME, Feedback(WORKER, Mark.COMMENT, reason="fan ordered"), NOW + S)
    save_mark(store, OPERATOR, Feedback(WORKER, Mark.ASSIGNED, reason="pat"), NOW + 2 * S)
    said = marks_answer(store, Asked(OPERATOR, "", NOW), WORKER)["marks"]
    assert [(row["mark"], row["rule"], row["reason"]) for row in said] == [
        ("assigned", "", "pat"), ("comment", "", "fan ordered"), ("wrong", "slow-gpu", "it was the fan"),
    ]  # fmt: skip
    (again,) = [incident("again-slow-1", "bert-1", -10, seen_ns=NOW)]
    append(store, {"incident": [again], "cause": [cause("again-slow-1", 1, "gpu:GPU-6", "slow-gpu", 0.9, -10)]})
    (like,) = similar_answer(store, Asked(OPERATOR, "", NOW), "again-slow-1")["similar"]
    assert (like["incident"], like["why"]) == (WORKER, "same component and fault")
    assert like["title"] == "GPU-6 on h6 runs at a lower clock than it should: bert-1 lost 100 GPU-s"
    assert [row["reason"] for row in like["marks"]] == ["fan ordered", "it was the fan"]
    with pytest.raises(RefusedError, match="no incident"):
        similar_answer(store, Asked(BETA, "", NOW), "again-slow-1")


def test_a_rule_that_is_often_wrong_falls_silent_and_the_newest_mark_of_a_person_counts(store: Store) -> None:
    hot = Feedback("hot-slow-1", Mark.WRONG)
    append(store, {
        "incident": [incident(hot.incident, "hot-1", -48, cluster="two")],
        "cause": [cause(hot.incident, 1, "gpu:GPU-6", "slow-gpu", 0.9, -48, cluster="two")],
    })  # fmt: skip
    assert first_rule(store, OPERATOR)["precision"] is None
    for place in range(RULE_MARKS_MIN):
        mark = Mark.RIGHT if place == 0 else Mark.WRONG
        save_mark(store, OPERATOR, replace(hot, mark=mark, actor=f"person{place}"), NOW + place * S)
    first = first_rule(store, OPERATOR)
    assert (first["rule"], first["right"], first["wrong"], first["silent"]) == ("slow-gpu", 1, 4, True)
    assert (first["precision"], bool(first["words"])) == (0.2, True)
    for place in range(1, RULE_MARKS_MIN):
        save_mark(store, OPERATOR, replace(hot, mark=Mark.RIGHT, actor=f"person{place}"), NOW + 60 * S)
    first = first_rule(store, OPERATOR)
    assert (first["right"], first["wrong"], first["silent"]) == (5, 0, False)


def test_a_rule_that_one_tenant_finds_wrong_speaks_to_the_others(store: Store) -> None:
    cold = Feedback("cold-slow-1", Mark.WRONG)
    rows = {"tenant": "beta", "cluster": "three"}
    append(store, {
        "incident": [incident(cold.incident, "cold-1", -48, **rows)],
        "cause": [cause(cold.incident, 1, "gpu:GPU-6", "slow-gpu", 0.9, -48, **rows)],
    })  # fmt: skip
    for place in range(RULE_MARKS_MIN):
        save_mark(store, BETA, replace(cold, actor=f"operator:{place}"), NOW + place * S)
    for principal, told in ((OPERATOR, (5, True)), (BETA, (5, True)), (ACME, (0, False))):
        first = first_rule(store, principal, "three")
        assert (first["wrong"], first["silent"]) == told, principal
    save_mark(store, OPERATOR, Feedback(BOTH, Mark.RIGHT, rule="cpu-throttled"), NOW)
    append(store, {"mark": [{**stored(store)[0], "cluster": "three", "tenant": "acme"}]})
    first = first_rule(store, OPERATOR, "three")
    assert (first["silent"], first["silent_for"]) == (False, ["beta"])
    assert state_of(first) == "silent for beta"


def first_rule(store: Store, principal: Principal, cluster: str = "two") -> dict[str, Any]:
    found: dict[str, Any] = rules_answer(store, Asked(principal, cluster, NOW))["rules"][0]
    return found
