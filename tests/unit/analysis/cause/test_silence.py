"""Marks of people: the precision of rules, and which fall silent."""

from __future__ import annotations

from leadline.analysis.cause.silence import Record, counting, dismissed, records, silent_rules
from leadline.model.incidents import RULE_MARKS_MIN


def mark(number: int, what: str, rule: str = "slow-gpu", actor: str = "ann", time_ns: int = 0) -> dict[str, object]:
    return {
        "incident": f"i{number}", "entity": "gpu:0", "rule": rule, "mark": what, "actor": actor,
        "time_ns": time_ns or number,
    }  # fmt: skip


def test_a_rule_that_is_wrong_too_often_falls_silent() -> None:
    right = [mark(number, "right") for number in range(1, 5)]
    assert silent_rules([*right, mark(5, "wrong")]) == frozenset()  # 4 of 5 are 0.8
    assert silent_rules([*right, mark(5, "wrong"), mark(6, "wrong")]) == {"slow-gpu"}


def test_few_marks_say_nothing() -> None:
    wrong = [mark(number, "wrong") for number in range(RULE_MARKS_MIN - 1)]
    assert silent_rules(wrong) == frozenset()
    assert silent_rules([*wrong, mark(99, "wrong")]) == {"slow-gpu"}


def test_who_changes_their_mind_counts_once_and_two_people_twice() -> None:
    changed = [mark(1, "wrong", time_ns=5), mark(1, "right", time_ns=9)]
    for rows in (changed, changed[::-1]):
        assert records(rows) == {"slow-gpu": Record(right=1)}
    assert records([*changed, mark(1, "wrong", actor="bob")]) == {"slow-gpu": Record(1, 1)}


def test_marks_of_incidents_are_none_of_a_rule() -> None:
    assert records([mark(1, "wrong", rule=""), mark(2, "dismissed")]) == {}
    assert Record().precision is None


def test_an_incident_is_dismissed_until_somebody_judges_it() -> None:
    rows = [mark(1, "dismissed", rule="", time_ns=5), mark(2, "dismissed", rule="", time_ns=5)]
    assert dismissed([*rows, mark(2, "right", time_ns=7)]) == {"i1"}
    talked = [mark(1, "comment", rule="", time_ns=8), mark(1, "assigned", rule="", time_ns=9)]
    assert dismissed([*rows, *talked]) == {"i1", "i2"}, "who talks about it does not judge it"


def test_a_mark_counts_for_the_tenant_of_the_incident_and_an_operators_for_all() -> None:
    rows = [
        {**mark(1, "wrong", actor="tenant-write:ana/kim"), "tenant": "ana"},
        {**mark(2, "wrong", actor="tenant-write:bo"), "tenant": "bo"},
        {**mark(3, "wrong", actor="operator:default/pat"), "tenant": "bo"},
        {**mark(4, "wrong", actor="tenant-write:bo/operator:x"), "tenant": "bo"},
    ]
    assert [row["incident"] for row in counting(rows, "ana")] == ["i1", "i3"]
    assert [row["incident"] for row in counting(rows, "bo")] == ["i2", "i3", "i4"]
