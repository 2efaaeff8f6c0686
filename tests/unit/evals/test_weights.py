"""What signs tell, by counts."""

from __future__ import annotations

import math

import pytest
from evals.weights import RULES_OF, Count, joined, lines_of, pooled, told

from leadline.analysis.cause.rules import BY_NAME
from leadline.lab.faults import FAULTS


def count(with_there: int, with_of: int, without_there: int, without_of: int) -> Count:
    found = Count()
    for number in range(with_of):
        found.add(True, float(number < with_there))
    for number in range(without_of):
        found.add(False, float(number < without_there))
    return found


def test_a_sign_is_worth_the_log_of_its_likelihood_ratio_with_one_added() -> None:
    assert count(3, 4, 2, 90).nats == pytest.approx(math.log(4 / 6) - math.log(3 / 92))
    assert count(0, 0, 0, 0).nats == 0.0, "nothing was counted, nothing is known"
    assert count(5, 5, 50, 50).nats < 0.0, "what is always there tells nothing"


def test_each_rule_and_fault_exists() -> None:
    assert {rule for rules in RULES_OF.values() for rule in rules} <= set(BY_NAME)
    assert set(RULES_OF) <= {fault.name for fault in FAULTS}


def test_counts_of_recordings_add_up_and_are_told_beside_the_weight_in_use() -> None:
    name = "sign link-down 0"
    whole = joined([{name: count(1, 1, 0, 20)}, {name: count(1, 2, 1, 20)}])
    (line,) = lines_of(whole)
    assert (line.rule, line.weight) == ("link-down", BY_NAME["link-down"].signs[0].weight)
    assert (line.count.with_there, line.count.with_of) == (2, 3)
    assert (line.count.without_there, line.count.without_of) == (1, 40)
    assert "2/3" in told([line])
    assert "1/40" in told([line])
    assert next(iter(pooled(whole))).count == line.count
